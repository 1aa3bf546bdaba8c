//! The reference: a file system in memory, with the rules of Linux as root sees them.

mod data;
mod names;

use std::collections::{BTreeMap, BTreeSet};

use headrace_testbed::pattern;
use rustix::io::Errno;

use crate::content::Content;
use crate::op::{Op, PATHS, SLOTS, XATTRS, XattrMode};
use crate::real::{Outcome, Stat};

pub type Id = usize;

#[derive(Clone)]
pub enum Kind {
    File(Content),
    Dir(BTreeMap<String, Id>),
    Symlink(String),
    Fifo,
}

#[derive(Clone)]
pub struct Node {
    pub kind: Kind,
    mode: u32,
    uid: u32,
    gid: u32,
    /// Names of a file; directories are counted when asked for.
    links: u32,
    /// Made by O_TMPFILE and never named yet: only then may a file without names get one.
    linkable: bool,
    /// Set by utimens and not touched by anything since.
    atime: Option<(i64, u32)>,
    mtime: Option<(i64, u32)>,
    xattrs: BTreeMap<&'static str, Vec<u8>>,
}

#[derive(Clone, Copy)]
struct Open {
    id: Id,
    append: bool,
}

pub struct Reference {
    nodes: BTreeMap<Id, Node>,
    next: Id,
    slots: [Option<Open>; SLOTS],
    /// Commutative operations on the shared tree, for the check at the end: (appends, creates, links), by counter.
    pub shared: [Vec<u64>; 3],
    counter: u64,
}

pub const ROOT: Id = 0;

/// What the real file system must have answered.
pub enum Expect {
    Exactly(Outcome),
    /// Any of these would be right.
    Skip,
    Wrong(String),
}

type Step<T> = Result<T, Errno>;

impl Reference {
    pub fn new() -> Reference {
        let root = Node {
            kind: Kind::Dir(BTreeMap::new()),
            mode: 0o777,
            uid: 0,
            gid: 0,
            links: 1,
            linkable: false,
            atime: None,
            mtime: None,
            xattrs: BTreeMap::new(),
        };
        Reference {
            nodes: BTreeMap::from([(ROOT, root)]),
            next: ROOT + 1,
            slots: [None; SLOTS],
            shared: Default::default(),
            counter: 0,
        }
    }

    pub fn node(&self, id: Id) -> &Node {
        &self.nodes[&id]
    }

    fn node_mut(&mut self, id: Id) -> &mut Node {
        self.nodes.get_mut(&id).expect("ids in the tree are in the table")
    }

    /// Compares a real answer with the model's, and brings the model up to date.
    pub fn check(&mut self, op: &Op, real: &Outcome) -> Result<(), String> {
        let expected = match self.step(op, real) {
            Ok(expect) => expect,
            Err(errno) => Expect::Exactly(Outcome::Failed(errno)),
        };
        match expected {
            Expect::Skip => Ok(()),
            Expect::Wrong(why) => Err(format!("{op:?} answered {}: {why}", brief(real))),
            Expect::Exactly(expected) => match (&expected, real) {
                (Outcome::Stat(expected), Outcome::Stat(real)) if expected == real => Ok(()),
                _ if expected == *real => Ok(()),
                _ => Err(format!(
                    "{op:?} ({}) answered {}, not {}",
                    names_of(op),
                    brief(real),
                    brief(&expected)
                )),
            },
        }
    }

    fn step(&mut self, op: &Op, real: &Outcome) -> Step<Expect> {
        match *op {
            Op::Open { .. } | Op::Tmpfile { .. } | Op::LinkSlot { .. } | Op::Close { .. } => {
                self.open_step(op)
            }
            Op::SharedAppend | Op::SharedCreate | Op::SharedLink => {
                self.counter += 1;
                let which = if matches!(op, Op::SharedAppend) {
                    0
                } else {
                    1 + usize::from(matches!(op, Op::SharedLink))
                };
                self.shared[which].push(self.counter);
                done()
            }
            Op::Stat { path } => {
                let id = self.lookup(path)?;
                Ok(self.stat(id, real))
            }
            Op::Fstat { slot } => match self.slots[slot] {
                Some(open) => Ok(self.stat(open.id, real)),
                None => Ok(Expect::Exactly(Outcome::Skipped)),
            },
            Op::Truncate { path, size } => {
                let id = self.lookup(path)?;
                match &mut self.node_mut(id).kind {
                    Kind::File(content) => content.truncate(size),
                    Kind::Dir(_) => return Err(Errno::ISDIR),
                    Kind::Symlink(_) => return Err(Errno::NOENT),
                    // Opened for writing without a reader, not blocking.
                    Kind::Fifo => return Err(Errno::NXIO),
                }
                self.modified(id);
                done()
            }
            Op::List { path } => self.list(path),
            Op::Mkdir { .. }
            | Op::Rmdir { .. }
            | Op::Unlink { .. }
            | Op::Rename { .. }
            | Op::Link { .. }
            | Op::Symlink { .. }
            | Op::Readlink { .. }
            | Op::Fifo { .. } => self.name_step(op),
            Op::Chmod { .. }
            | Op::Chown { .. }
            | Op::Utimens { .. }
            | Op::SetXattr { .. }
            | Op::GetXattr { .. }
            | Op::RemoveXattr { .. }
            | Op::ListXattr { .. } => self.attribute_step(op),
            _ => self.data_step(op, real),
        }
    }

    fn open_step(&mut self, op: &Op) -> Step<Expect> {
        match *op {
            Op::Open { slot, path, create, excl, trunc, append, mode } => {
                if self.lookup(path).is_ok_and(|id| matches!(self.node(id).kind, Kind::Fifo)) {
                    return Ok(Expect::Exactly(Outcome::Skipped));
                }
                let (parent, name) = self.parent(path)?;
                let id = match self.child(parent, name) {
                    Some(_) if create && excl => return Err(Errno::EXIST),
                    Some(id) => match self.node(id).kind {
                        Kind::Dir(_) => return Err(Errno::ISDIR),
                        Kind::Symlink(_) => return Err(Errno::LOOP),
                        _ => id,
                    },
                    None if create => self.add(parent, name, Kind::File(Content::default()), mode),
                    None => return Err(Errno::NOENT),
                };
                if trunc {
                    if let Kind::File(content) = &mut self.node_mut(id).kind {
                        content.truncate(0);
                    }
                    self.modified(id);
                }
                self.slots[slot] = Some(Open { id, append });
                done()
            }
            Op::Tmpfile { slot, mode } => {
                let id = self.make(Kind::File(Content::default()), mode, ROOT);
                let node = self.node_mut(id);
                (node.links, node.linkable) = (0, true);
                self.slots[slot] = Some(Open { id, append: false });
                done()
            }
            Op::LinkSlot { slot, path } => {
                let Some(open) = self.slots[slot] else { return Ok(Expect::Exactly(Outcome::Skipped)) };
                let (parent, name) = self.parent(path)?;
                if self.child(parent, name).is_some() {
                    return Err(Errno::EXIST);
                }
                let node = self.node_mut(open.id);
                if node.links == 0 && !node.linkable {
                    return Err(Errno::NOENT);
                }
                node.linkable = false;
                node.links += 1;
                self.enter(parent, name, open.id);
                done()
            }
            Op::Close { slot } => {
                self.slots[slot] = None;
                done()
            }
            _ => Ok(Expect::Skip),
        }
    }

    fn list(&mut self, path: usize) -> Step<Expect> {
        let id = self.lookup(path)?;
        let names = match &self.node(id).kind {
            Kind::Dir(entries) => entries.iter().map(|(name, id)| (name.clone(), self.letter(*id))).collect(),
            // O_DIRECTORY with O_NOFOLLOW: a symbolic link is not a directory.
            _ => return Err(Errno::NOTDIR),
        };
        self.accessed(id);
        Ok(Expect::Exactly(Outcome::Names(names)))
    }

    fn attribute_step(&mut self, op: &Op) -> Step<Expect> {
        let path = match *op {
            Op::Chmod { path, .. }
            | Op::Chown { path, .. }
            | Op::Utimens { path, .. }
            | Op::SetXattr { path, .. } => path,
            Op::GetXattr { path, .. } | Op::RemoveXattr { path, .. } | Op::ListXattr { path } => path,
            _ => return Ok(Expect::Skip),
        };
        let id = self.lookup(path)?;
        let node = self.node_mut(id);
        // user.* exists on files and directories only.
        let special = matches!(node.kind, Kind::Symlink(_) | Kind::Fifo);
        let user = |xattr: usize| XATTRS[xattr].starts_with("user.");
        match *op {
            Op::Chmod { mode, .. } => {
                if matches!(node.kind, Kind::Symlink(_)) {
                    return Err(Errno::NOENT);
                }
                node.mode = mode;
                done()
            }
            Op::Chown { uid, gid, .. } => {
                node.uid = uid.unwrap_or(node.uid);
                node.gid = gid.unwrap_or(node.gid);
                // Linux does this for root too, and even when nobody changes.
                if !matches!(node.kind, Kind::Dir(_)) {
                    node.mode &= !0o4000;
                    if node.mode & 0o010 != 0 {
                        node.mode &= !0o2000;
                    }
                }
                done()
            }
            Op::Utimens { atime, mtime, .. } => {
                (node.atime, node.mtime) = (Some(atime), Some(mtime));
                done()
            }
            Op::SetXattr { xattr, .. } | Op::RemoveXattr { xattr, .. } if special && user(xattr) => {
                Err(Errno::PERM)
            }
            Op::SetXattr { xattr, len, seed, mode, .. } => {
                let exists = node.xattrs.contains_key(XATTRS[xattr]);
                match mode {
                    XattrMode::Create if exists => return Err(Errno::EXIST),
                    XattrMode::Replace if !exists => return Err(Errno::NODATA),
                    _ => {}
                }
                node.xattrs.insert(XATTRS[xattr], pattern(seed, len));
                done()
            }
            Op::GetXattr { xattr, .. } => {
                let value = node.xattrs.get(XATTRS[xattr]).ok_or(Errno::NODATA)?;
                Ok(Expect::Exactly(Outcome::Bytes(value.clone())))
            }
            Op::RemoveXattr { xattr, .. } => {
                node.xattrs.remove(XATTRS[xattr]).ok_or(Errno::NODATA)?;
                done()
            }
            Op::ListXattr { .. } => {
                let names: BTreeSet<_> = node.xattrs.keys().map(|name| (name.to_string(), 'x')).collect();
                Ok(Expect::Exactly(Outcome::Names(names)))
            }
            _ => Ok(Expect::Skip),
        }
    }

    fn letter(&self, id: Id) -> char {
        match self.node(id).kind {
            Kind::File(_) => 'f',
            Kind::Dir(_) => 'd',
            Kind::Symlink(_) => 'l',
            Kind::Fifo => 'p',
        }
    }

    fn content(&self, id: Id) -> &Content {
        match &self.node(id).kind {
            Kind::File(content) => content,
            _ => unreachable!("only files are opened"),
        }
    }

    fn content_mut(&mut self, id: Id) -> &mut Content {
        match &mut self.node_mut(id).kind {
            Kind::File(content) => content,
            _ => unreachable!("only files are opened"),
        }
    }

    /// Access times are from here on whatever the file system made of it.
    pub fn accessed(&mut self, id: Id) {
        self.node_mut(id).atime = None;
    }

    fn modified(&mut self, id: Id) {
        self.node_mut(id).mtime = None;
    }

    /// The directory of a path, and its last name.
    fn parent(&self, path: usize) -> Step<(Id, &'static str)> {
        let (dirs, name) = PATHS[path].rsplit_once('/').unwrap_or(("", PATHS[path]));
        let mut at = ROOT;
        for part in dirs.split('/').filter(|part| !part.is_empty()) {
            at = self.child(at, part).ok_or(Errno::NOENT)?;
            match self.node(at).kind {
                Kind::Dir(_) => {}
                Kind::Symlink(_) => return Err(Errno::NOENT),
                _ => return Err(Errno::NOTDIR),
            }
        }
        Ok((at, name))
    }

    fn lookup(&self, path: usize) -> Step<Id> {
        let (parent, name) = self.parent(path)?;
        self.child(parent, name).ok_or(Errno::NOENT)
    }

    fn child(&self, dir: Id, name: &str) -> Option<Id> {
        match &self.node(dir).kind {
            Kind::Dir(entries) => entries.get(name).copied(),
            _ => None,
        }
    }

    fn make(&mut self, kind: Kind, mode: u32, parent: Id) -> Id {
        // A set-group-id directory gives its group to what is made in it, and the bit itself to directories.
        let (parent_mode, parent_gid) = (self.node(parent).mode, self.node(parent).gid);
        let inherits = parent_mode & 0o2000 != 0;
        let is_dir = matches!(kind, Kind::Dir(_));
        let node = Node {
            kind,
            mode: if inherits && is_dir { mode | 0o2000 } else { mode },
            uid: 0,
            gid: if inherits { parent_gid } else { 0 },
            links: 1,
            linkable: false,
            atime: None,
            mtime: None,
            xattrs: BTreeMap::new(),
        };
        let id = self.next;
        self.next += 1;
        self.nodes.insert(id, node);
        id
    }

    fn add(&mut self, parent: Id, name: &str, kind: Kind, mode: u32) -> Id {
        let id = self.make(kind, mode, parent);
        self.enter(parent, name, id);
        id
    }

    fn enter(&mut self, dir: Id, name: &str, id: Id) {
        self.modified(dir);
        if let Kind::Dir(entries) = &mut self.node_mut(dir).kind {
            entries.insert(name.to_string(), id);
        }
    }

    fn leave(&mut self, dir: Id, name: &str) {
        self.modified(dir);
        if let Kind::Dir(entries) = &mut self.node_mut(dir).kind {
            entries.remove(name);
        }
    }

    /// The `stat` of a node; times that the model does not know are taken from the real answer.
    pub fn stat(&self, id: Id, real: &Outcome) -> Expect {
        let node = self.node(id);
        let Outcome::Stat(real) = real else { return Expect::Wrong("stat should have worked".into()) };
        let (nlink, size) = match &node.kind {
            Kind::Dir(entries) => {
                (2 + entries.values().filter(|id| self.letter(**id) == 'd').count() as u32, 0)
            }
            Kind::File(content) => (node.links, content.size()),
            Kind::Symlink(target) => (node.links, target.len() as u64),
            Kind::Fifo => (node.links, 0),
        };
        Expect::Exactly(Outcome::Stat(Stat {
            kind: self.letter(id),
            mode: node.mode,
            nlink,
            uid: node.uid,
            gid: node.gid,
            size,
            // Every path that leads through a symbolic link reads it: its access time is not followed here.
            atime: node.atime.filter(|_| !matches!(node.kind, Kind::Symlink(_))).unwrap_or(real.atime),
            mtime: node.mtime.unwrap_or(real.mtime),
        }))
    }

    /// Extended attributes of a node.
    pub fn xattrs(&self, id: Id) -> BTreeMap<String, Vec<u8>> {
        self.node(id).xattrs.iter().map(|(name, value)| (name.to_string(), value.clone())).collect()
    }
}

fn done() -> Step<Expect> {
    Ok(Expect::Exactly(Outcome::Done))
}

/// The names an operation is about, for messages.
fn names_of(op: &Op) -> String {
    let text = format!("{op:?}");
    let index = |field: &str| -> Option<&str> {
        let rest = &text[text.find(&format!("{field}: "))? + field.len() + 2..];
        PATHS.get(rest.split([',', ' ', '}']).next()?.parse::<usize>().ok()?).copied()
    };
    let shown: Vec<_> = ["path", "from", "to"].iter().filter_map(|field| index(field)).collect();
    format!("{shown:?}")
}

/// An outcome without kilobytes of content.
fn brief(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Bytes(bytes) => {
            let sum = headrace_testbed::sha256_hex(bytes);
            format!(
                "{} bytes, sha256 {}, first {:02x?}",
                bytes.len(),
                &sum[..12],
                &bytes[..bytes.len().min(8)]
            )
        }
        other => format!("{other:?}"),
    }
}
