//! Applies operations to both and compares.

use std::collections::{BTreeMap, HashMap};

use headrace_layout::{ExtentData, InodeNo, SegmentId};
use proptest::prelude::*;

use super::super::fixture::{CALLER, Fixture, ROOT, piece, slice};
use super::operation::{CELL, Name, Operation};
use super::reference::{Model, Node, Token};
use crate::data::chunks;
use crate::*;

type Outcome = std::result::Result<(), TestCaseError>;

struct Run {
    fx: Fixture,
    model: Model,
    /// What was uploaded: the cells of each segment.
    store: HashMap<SegmentId, Vec<Token>>,
    last_token: Token,
    last_segment: u128,
}

pub fn run(fx: Fixture, operations: &[Operation]) -> Outcome {
    let mut run = Run { fx, model: Model::new(), store: HashMap::new(), last_token: 0, last_segment: 0 };
    for operation in operations {
        run = run.apply(operation)?;
    }
    run.compare()?;
    let fx = run.fx.reopen();
    let mut run = Run { fx, ..run };
    run.compare()?;
    run.empty()
}

fn name(name: Name) -> String {
    format!("name-{name}")
}

/// Both must agree on whether something is allowed.
fn same<T>(real: Result<T>, allowed: bool) -> std::result::Result<Option<T>, TestCaseError> {
    match (real, allowed) {
        (Ok(value), true) => Ok(Some(value)),
        (Err(MetaError::Kv(error)), _) => Err(TestCaseError::fail(error.to_string())),
        (Err(MetaError::Corrupt(error)), _) => Err(TestCaseError::fail(error)),
        (Err(_), false) => Ok(None),
        (Ok(_), false) => Err(TestCaseError::fail("allowed what the model forbids")),
        (Err(error), true) => Err(TestCaseError::fail(format!("the model allows it: {error}"))),
    }
}

impl Run {
    fn dir(&self, choice: usize) -> InodeNo {
        self.model.choose(choice, |node| node.kind == Kind::Directory).expect("the root exists")
    }

    fn file(&self, choice: usize) -> Option<InodeNo> {
        self.model.choose(choice, |node| node.kind == Kind::File)
    }

    fn any(&self, choice: usize) -> InodeNo {
        self.model.choose(choice, |_| true).expect("the root exists")
    }

    fn upload(&mut self, tokens: Vec<Token>) -> (SegmentId, u64) {
        self.last_segment += 1;
        let id = SegmentId(self.last_segment);
        let bytes = tokens.len() as u64 * CELL;
        self.store.insert(id, tokens);
        (id, bytes)
    }

    fn apply(mut self, operation: &Operation) -> std::result::Result<Run, TestCaseError> {
        if let Operation::Reopen = operation {
            let fx = self.fx.reopen();
            return Ok(Run { fx, ..self });
        }
        self.apply_to_names(operation)?;
        self.apply_to_data(operation)?;
        Ok(self)
    }

    fn apply_to_names(&mut self, operation: &Operation) -> Outcome {
        match *operation {
            Operation::Create { dir, name: number, kind } => {
                let (dir, name) = (self.dir(dir), name(number));
                let allowed = self.model.can_create(dir, &name);
                let target = (kind == Kind::Symlink).then_some(&b"target"[..]);
                let real = self.fx.ns.create(dir, name.as_bytes(), kind, 0o666, 0, target, &CALLER);
                if let Some(attr) = same(real, allowed)? {
                    let setgid = self.model.nodes[&dir].mode & 0o2000;
                    let mode = match kind {
                        Kind::Symlink => 0o777,
                        Kind::Directory => 0o644 | setgid,
                        _ => 0o644,
                    };
                    self.model.create(dir, name, attr.ino, Node::new(kind, mode));
                }
            }
            Operation::CreateUnnamed => {
                let ino = self.fx.ns.create_unnamed(ROOT, 0o600, &CALLER).expect("the root exists").ino;
                let node = Node { linkable: true, ..Node::new(Kind::File, 0o600) };
                self.model.nodes.insert(ino, node);
            }
            Operation::Link { ino, dir, name: number } => {
                let (ino, dir, name) = (self.any(ino), self.dir(dir), name(number));
                let real = self.fx.ns.link(ino, dir, name.as_bytes());
                same(real, self.model.link(ino, dir, name))?;
            }
            Operation::Unlink { dir, name: number } => {
                let (dir, name) = (self.dir(dir), name(number));
                let real = self.fx.ns.unlink(dir, name.as_bytes());
                let removed = self.model.remove(dir, &name, false);
                let unlinked = same(real, removed.is_some())?;
                prop_assert_eq!(unlinked.map(|unlinked| unlinked.ino), removed);
                if let Some(unlinked) = unlinked {
                    prop_assert_eq!(unlinked.nlink, self.model.nlink(unlinked.ino));
                }
            }
            Operation::Rmdir { dir, name: number } => {
                let (dir, name) = (self.dir(dir), name(number));
                let real = self.fx.ns.rmdir(dir, name.as_bytes()).map(|removed| removed.ino);
                let removed = self.model.remove(dir, &name, true);
                prop_assert_eq!(same(real, removed.is_some())?, removed);
            }
            Operation::Rename { from, to, mode } => {
                let (dir, old) = (self.dir(from.0), name(from.1));
                let (new_dir, new) = (self.dir(to.0), name(to.1));
                let real = self.fx.ns.rename(dir, old.as_bytes(), new_dir, new.as_bytes(), mode);
                let allowed =
                    self.model.is_usable(new_dir) && self.model.rename((dir, &old), (new_dir, &new), mode);
                same(real, allowed)?;
            }
            Operation::Chmod { ino, mode } => {
                let ino = self.any(ino);
                self.fx
                    .ns
                    .setattr(ino, &SetAttr { mode: Some(mode), ..SetAttr::default() })
                    .expect("setattr");
                self.model.node(ino).mode = mode;
            }
            Operation::SetXattr { ino, name, value } => {
                let (ino, name) = (self.any(ino), format!("trusted.{name}"));
                let set = self.fx.ns.setxattr(ino, name.as_bytes(), &[value], XattrMode::Set, false);
                same(set, true)?;
                self.model.node(ino).xattrs.insert(name, value);
            }
            Operation::RemoveXattr { ino, name } => {
                let (ino, name) = (self.any(ino), format!("trusted.{name}"));
                let real = self.fx.ns.removexattr(ino, name.as_bytes());
                same(real, self.model.node(ino).xattrs.remove(&name).is_some())?;
            }
            Operation::Reclaim { ino } => {
                let ino = self.any(ino);
                self.fx.ns.reclaim(ino).expect("reclaim");
                self.model.reclaim(ino);
            }
            Operation::Collect => {
                let dead = self.fx.ns.dead_segments(Time { secs: i64::MAX, nanos: 0 }, 1000).expect("list");
                self.fx.ns.forget_segments(&dead).expect("forget");
                // Whoever still reads from one of them fails.
                self.store.retain(|id, _| !dead.contains(id));
            }
            _ => {}
        }
        Ok(())
    }

    fn apply_to_data(&mut self, operation: &Operation) -> Outcome {
        use Operation::{Clone, Collapse, Compact, Insert, Pack, Punch, Seek, Truncate, Write, Zero};
        let (Write { file, .. }
        | Truncate { file, .. }
        | Punch { file, .. }
        | Zero { file, .. }
        | Clone { src: file, .. }
        | Collapse { file, .. }
        | Insert { file, .. }
        | Seek { file, .. }
        | Pack { file, .. }
        | Compact { file }) = *operation
        else {
            return Ok(());
        };
        let Some(file) = self.file(file) else { return Ok(()) };
        match *operation {
            Write { at, len, inline, grow, .. } => self.write(file, at, len, inline, grow)?,
            Truncate { size, .. } => {
                self.fx.ns.truncate(file, size * CELL, false).expect("truncate");
                self.model.node(file).truncate(size);
            }
            Punch { at, len, .. } => {
                self.fx.ns.punch(file, at * CELL, len * CELL).expect("punch");
                self.model.node(file).clear(at, len);
            }
            Zero { at, len, keep_size, .. } => {
                self.fx.ns.zero_range(file, at * CELL, len * CELL, keep_size).expect("zero");
                let node = self.model.node(file);
                node.clear(at, len);
                node.size = if keep_size { node.size } else { node.size.max(at + len) };
            }
            Clone { from, dst, to, len, .. } => {
                let Some(dst) = self.file(dst) else { return Ok(()) };
                let real = self.fx.ns.clone_range(file, from * CELL, dst, to * CELL, len * CELL);
                let cloned = self.model.clone_range((file, from), (dst, to), len);
                prop_assert_eq!(same(real, cloned.is_some())?, cloned.map(|cells| cells * CELL));
            }
            Collapse { at, len, .. } => {
                let real = self.fx.ns.collapse(file, at * CELL, len * CELL);
                same(real, self.model.node(file).collapse(at, len))?;
            }
            Insert { at, len, .. } => {
                let real = self.fx.ns.insert(file, at * CELL, len * CELL);
                same(real, self.model.node(file).insert(at, len))?;
            }
            Seek { at, hole, .. } => {
                let real = self.fx.ns.seek(file, at * CELL, hole);
                let expected = self.model.node(file).seek(at, hole);
                prop_assert_eq!(same(real, expected.is_some())?, expected.map(|cell| cell * CELL));
            }
            Pack { at, len, .. } => self.pack(file, at, len)?,
            Compact { .. } => self.compact(file)?,
            _ => {}
        }
        Ok(())
    }

    fn write(&mut self, file: InodeNo, at: u64, len: u64, inline: bool, grow: bool) -> Outcome {
        let tokens: Vec<Token> = (1..=len).map(|number| self.last_token + number).collect();
        self.last_token += len;
        let (offset, bytes) = (at * CELL, (len * CELL) as u32);
        let mut commit = DataCommit {
            new_size: grow.then_some(offset + u64::from(bytes)),
            mtime: Some(Time::now()),
            ..DataCommit::default()
        };
        if inline {
            let sealed = tokens.iter().flat_map(|token| token.to_be_bytes()).collect();
            commit.pieces.push(NewExtent { offset, len: bytes, data: NewData::Inline(sealed) });
        } else {
            let segment = self.upload(tokens.clone());
            commit.pieces.push(piece(offset, bytes, slice(segment.0.0, bytes, 0)));
            commit.new_segments.push(segment);
        }
        let attr = self.fx.ns.commit_write(file, &commit).expect("commit");
        let node = self.model.node(file);
        node.write(at, &tokens, grow);
        prop_assert_eq!(attr.size, node.size * CELL);
        Ok(())
    }

    fn pack(&mut self, file: InodeNo, at: u64, len: u64) -> Outcome {
        let backlog = self.fx.ns.inline_backlog(None, u64::MAX).expect("backlog");
        let mut by_file: BTreeMap<InodeNo, Vec<(InlineRef, Vec<Token>)>> = BTreeMap::new();
        for found in backlog {
            let tokens = self.inline_tokens(found.ino, found.id, found.skip, found.len)?;
            by_file.entry(found.ino).or_default().push((found, tokens));
        }
        self.write(file, at, len, true, true)?;
        for (ino, found) in by_file {
            let tokens: Vec<Token> = found.iter().flat_map(|(_, tokens)| tokens.clone()).collect();
            let run_len = (tokens.len() as u64 * CELL) as u32;
            let segment = self.upload(tokens);
            let mut skip = 0;
            let mut swaps = Vec::new();
            for (found, _) in found {
                swaps.push(Swap {
                    offset: found.offset,
                    len: found.len,
                    expect: ExtentData::Inline { id: found.id, skip: found.skip },
                    new: slice(segment.0.0, run_len, skip),
                });
                skip += found.len;
            }
            self.fx.ns.swap_extents(ino, &swaps, &[segment]).expect("swap");
        }
        // Only what came in between is left.
        let left = self.fx.ns.inline_backlog(None, u64::MAX).expect("backlog");
        prop_assert!(left.iter().all(|found| found.ino == file));
        Ok(())
    }

    fn compact(&mut self, file: InodeNo) -> Outcome {
        let content = self.content(file)?;
        let size = self.fx.attr(file).size;
        for index in 0..size.div_ceil(headrace_layout::CHUNK_SIZE) as u32 {
            for extent in self.fx.ns.extents(file, index).expect("extents").extents() {
                if !matches!(extent.data, ExtentData::Segment(_)) {
                    continue;
                }
                let offset = chunks::base_of(index) + u64::from(extent.start);
                let cells = offset / CELL..(offset + u64::from(extent.len)) / CELL;
                let segment = self.upload(content.range(cells).map(|(_, token)| *token).collect());
                let swap = Swap {
                    offset,
                    len: extent.len,
                    expect: extent.data.clone(),
                    new: slice(segment.0.0, extent.len, 0),
                };
                prop_assert_eq!(self.fx.ns.swap_extents(file, &[swap], &[segment]).expect("swap"), 1);
            }
        }
        Ok(())
    }

    fn inline_tokens(
        &self,
        ino: InodeNo,
        id: u64,
        skip: u32,
        len: u32,
    ) -> std::result::Result<Vec<Token>, TestCaseError> {
        let sealed = self.fx.ns.inline_value(ino, id).expect("inline value");
        let Some(sealed) = sealed else { return Err(TestCaseError::fail("an inline value is missing")) };
        let tokens = sealed.as_chunks::<8>().0.iter().map(|token| Token::from_be_bytes(*token));
        let (skip, len) = (u64::from(skip) / CELL, u64::from(len) / CELL);
        Ok(tokens.skip(skip as usize).take(len as usize).collect())
    }

    /// What a reader finds.
    fn content(&self, file: InodeNo) -> std::result::Result<BTreeMap<u64, Token>, TestCaseError> {
        let mut cells = BTreeMap::new();
        // Further than the file is long: nothing must be there.
        for index in 0..8 {
            for extent in self.fx.ns.extents(file, index).expect("extents").extents() {
                let tokens = match &extent.data {
                    ExtentData::Inline { id, skip } => self.inline_tokens(file, *id, *skip, extent.len)?,
                    ExtentData::Segment(slice) => {
                        let Some(stored) = self.store.get(&slice.segment) else {
                            return Err(TestCaseError::fail("a segment in use was collected"));
                        };
                        let skip = (u64::from(slice.skip) / CELL) as usize;
                        stored
                            .iter()
                            .skip(skip)
                            .take((u64::from(extent.len) / CELL) as usize)
                            .copied()
                            .collect()
                    }
                };
                prop_assert_eq!(tokens.len() as u64 * CELL, u64::from(extent.len));
                let at = (chunks::base_of(index) + u64::from(extent.start)) / CELL;
                cells.extend((at..).zip(tokens));
            }
        }
        Ok(cells)
    }

    fn compare(&mut self) -> Outcome {
        prop_assert_eq!(self.fx.problems(), vec![]);
        for (&ino, node) in &self.model.nodes {
            let attr = self.fx.attr(ino);
            prop_assert_eq!(
                (attr.kind, attr.mode, attr.nlink),
                (node.kind, node.mode, self.model.nlink(ino))
            );
            let xattrs: BTreeMap<String, u8> = (self.fx.ns.listxattr(ino).expect("listxattr").iter())
                .map(|name| {
                    let value = self.fx.ns.getxattr(ino, name).expect("getxattr");
                    (String::from_utf8(name.clone()).expect("ours"), value[0])
                })
                .collect();
            prop_assert_eq!(&xattrs, &node.xattrs);
            match node.kind {
                Kind::Directory => {
                    let names: Vec<_> = node.names.iter().map(|(name, _)| name.clone()).collect();
                    prop_assert_eq!(self.fx.names(ino), names);
                    for (name, child) in &node.names {
                        prop_assert_eq!(self.fx.ns.lookup(ino, name.as_bytes()).expect("lookup").ino, *child);
                        if self.model.nodes[child].kind == Kind::Directory {
                            prop_assert_eq!(self.fx.ns.parent(*child).expect("parent"), ino);
                        }
                    }
                }
                Kind::File => {
                    prop_assert_eq!(attr.size, node.size * CELL);
                    prop_assert_eq!(attr.allocated, node.cells.len() as u64 * CELL);
                    prop_assert_eq!(&self.content(ino)?, &node.cells);
                }
                _ => {}
            }
        }
        let totals = self.fx.ns.tree_totals(ROOT, &mut |_| {}).expect("totals");
        prop_assert_eq!(totals, self.model.tree_totals(CELL));
        prop_assert_eq!(self.fx.ns.statfs().expect("statfs").inodes, self.model.nodes.len() as u64);
        Ok(())
    }

    /// Removes everything; nothing must be left over.
    fn empty(&mut self) -> Outcome {
        let mut inodes: Vec<_> = self.model.nodes.keys().copied().collect();
        let mut left = true;
        while left {
            left = false;
            for dir in inodes.iter().filter(|ino| self.model.nodes[ino].kind == Kind::Directory) {
                for name in self.fx.names(*dir) {
                    left = true;
                    if let Err(MetaError::IsDirectory) = self.fx.ns.unlink(*dir, name.as_bytes()) {
                        let _ = self.fx.ns.rmdir(*dir, name.as_bytes());
                    }
                }
            }
        }
        inodes.retain(|ino| *ino != ROOT);
        let mut orphans = self.fx.ns.orphans().expect("orphans");
        orphans.sort();
        prop_assert_eq!(&orphans, &inodes);
        for ino in orphans {
            self.fx.ns.reclaim(ino).expect("reclaim");
        }
        prop_assert_eq!(self.fx.problems(), vec![]);
        prop_assert_eq!(self.fx.ns.statfs().expect("statfs"), Totals { inodes: 1, bytes: 0 });
        prop_assert_eq!(self.fx.ns.inline_bytes(), 0);
        let segments = self.fx.ns.segments(None, usize::MAX).expect("segments");
        prop_assert!(segments.iter().all(|segment| segment.live == 0 && segment.dead_since.is_some()));
        Ok(())
    }
}
