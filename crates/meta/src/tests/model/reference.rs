//! The model: maps of maps. It knows no error numbers, only whether something is allowed.

use std::collections::BTreeMap;

use headrace_layout::InodeNo;

use super::operation::BLOCK;
use crate::{DirTotals, Kind, MAX_FILE_SIZE, RenameMode};

/// The content of a cell.
pub type Token = u64;

#[derive(Clone, Debug)]
pub struct Node {
    pub kind: Kind,
    pub mode: u16,
    /// Names in order of their positions.
    pub names: Vec<(String, InodeNo)>,
    /// Length in cells.
    pub size: u64,
    pub cells: BTreeMap<u64, Token>,
    pub xattrs: BTreeMap<String, u8>,
    pub linkable: bool,
}

impl Node {
    pub fn new(kind: Kind, mode: u16) -> Node {
        Node {
            kind,
            mode,
            names: Vec::new(),
            size: 0,
            cells: BTreeMap::new(),
            xattrs: BTreeMap::new(),
            linkable: false,
        }
    }

    fn find(&self, name: &str) -> Option<InodeNo> {
        self.names.iter().find(|(found, _)| found == name).map(|(_, ino)| *ino)
    }

    pub fn write(&mut self, at: u64, tokens: &[Token], grow: bool) {
        if grow {
            self.size = self.size.max(at + tokens.len() as u64);
        }
        for (cell, token) in (at..self.size).zip(tokens) {
            self.cells.insert(cell, *token);
        }
    }

    pub fn clear(&mut self, at: u64, len: u64) {
        self.cells.retain(|cell, _| !(at..at + len).contains(cell));
    }

    pub fn truncate(&mut self, size: u64) {
        self.size = size;
        self.cells.retain(|cell, _| *cell < size);
    }

    pub fn collapse(&mut self, at: u64, len: u64) -> bool {
        if len == 0 || at + len >= self.size || !at.is_multiple_of(BLOCK) {
            return false;
        }
        self.clear(at, len);
        self.size -= len;
        self.shift(|cell| if cell >= at { cell - len } else { cell });
        true
    }

    pub fn insert(&mut self, at: u64, len: u64) -> bool {
        if len == 0 || at >= self.size {
            return false;
        }
        self.size += len;
        self.shift(|cell| if cell >= at { cell + len } else { cell });
        true
    }

    fn shift(&mut self, to: impl Fn(u64) -> u64) {
        self.cells =
            std::mem::take(&mut self.cells).into_iter().map(|(cell, token)| (to(cell), token)).collect();
    }

    pub fn seek(&self, at: u64, hole: bool) -> Option<u64> {
        if at >= self.size {
            return None;
        }
        if hole {
            return Some((at..self.size).find(|cell| !self.cells.contains_key(cell)).unwrap_or(self.size));
        }
        self.cells.range(at..).next().map(|(cell, _)| *cell)
    }
}

#[derive(Clone, Debug)]
pub struct Model {
    pub nodes: BTreeMap<InodeNo, Node>,
}

impl Model {
    pub fn new() -> Model {
        Model { nodes: BTreeMap::from([(InodeNo::ROOT, Node::new(Kind::Directory, 0o755))]) }
    }

    pub fn node(&mut self, ino: InodeNo) -> &mut Node {
        self.nodes.get_mut(&ino).expect("chosen among what exists")
    }

    /// Inodes that satisfy `wanted`, for choosing among.
    pub fn choose(&self, choice: usize, wanted: impl Fn(&Node) -> bool) -> Option<InodeNo> {
        let candidates: Vec<_> =
            self.nodes.iter().filter(|(_, node)| wanted(node)).map(|(ino, _)| *ino).collect();
        (!candidates.is_empty()).then(|| candidates[choice % candidates.len()])
    }

    fn find(&self, dir: InodeNo, name: &str) -> Option<InodeNo> {
        self.nodes[&dir].find(name)
    }

    fn is_dir(&self, ino: InodeNo) -> bool {
        self.nodes[&ino].kind == Kind::Directory
    }

    fn names_of(&self, ino: InodeNo) -> usize {
        self.nodes.values().flat_map(|node| &node.names).filter(|(_, named)| *named == ino).count()
    }

    /// Whether something can be put into a directory: it has a name itself.
    pub fn is_usable(&self, dir: InodeNo) -> bool {
        self.is_dir(dir) && (dir == InodeNo::ROOT || self.names_of(dir) > 0)
    }

    pub fn nlink(&self, ino: InodeNo) -> u32 {
        if !self.is_dir(ino) {
            return self.names_of(ino) as u32;
        }
        let subdirectories = self.nodes[&ino].names.iter().filter(|(_, child)| self.is_dir(*child)).count();
        if self.is_usable(ino) { 2 + subdirectories as u32 } else { 0 }
    }

    pub fn can_create(&self, dir: InodeNo, name: &str) -> bool {
        self.is_usable(dir) && self.find(dir, name).is_none()
    }

    pub fn create(&mut self, dir: InodeNo, name: String, ino: InodeNo, node: Node) {
        self.nodes.insert(ino, node);
        self.node(dir).names.push((name, ino));
    }

    pub fn link(&mut self, ino: InodeNo, dir: InodeNo, name: String) -> bool {
        let unnamed = self.names_of(ino) == 0;
        if self.is_dir(ino) || !self.can_create(dir, &name) || unnamed && !self.nodes[&ino].linkable {
            return false;
        }
        self.node(ino).linkable = false;
        self.node(dir).names.push((name, ino));
        true
    }

    /// Answers the inode that lost the name.
    pub fn remove(&mut self, dir: InodeNo, name: &str, directory: bool) -> Option<InodeNo> {
        let ino = self.find(dir, name)?;
        if self.is_dir(ino) != directory || !self.nodes[&ino].names.is_empty() {
            return None;
        }
        self.node(dir).names.retain(|(found, _)| found != name);
        Some(ino)
    }

    fn is_within(&self, dir: InodeNo, above: InodeNo) -> bool {
        dir == above
            || self.nodes[&above]
                .names
                .iter()
                .any(|(_, child)| self.is_dir(*child) && self.is_within(dir, *child))
    }

    pub fn rename(
        &mut self,
        (dir, name): (InodeNo, &str),
        (new_dir, new_name): (InodeNo, &str),
        mode: RenameMode,
    ) -> bool {
        let (Some(from), to) = (self.find(dir, name), self.find(new_dir, new_name)) else { return false };
        let enters_itself = |moved: InodeNo, dir| self.is_dir(moved) && self.is_within(dir, moved);
        if enters_itself(from, new_dir) || mode == RenameMode::NoReplace && to.is_some() {
            return false;
        }
        if mode == RenameMode::Exchange {
            let Some(to) = to else { return false };
            if to != from && enters_itself(to, dir) {
                return false;
            }
            self.set(dir, name, to);
            self.set(new_dir, new_name, from);
            return true;
        }
        let Some(to) = to else {
            if dir == new_dir {
                let names = &mut self.node(dir).names;
                let at = names.iter().position(|(found, _)| found == name).expect("found above");
                names[at].0 = new_name.into();
            } else {
                self.node(dir).names.retain(|(found, _)| found != name);
                self.node(new_dir).names.push((new_name.into(), from));
            }
            return true;
        };
        if to == from {
            return true;
        }
        if self.is_dir(from) != self.is_dir(to) || !self.nodes[&to].names.is_empty() {
            return false;
        }
        self.node(dir).names.retain(|(found, _)| found != name);
        self.set(new_dir, new_name, from);
        true
    }

    fn set(&mut self, dir: InodeNo, name: &str, ino: InodeNo) {
        for (found, named) in &mut self.node(dir).names {
            if found == name {
                *named = ino;
            }
        }
    }

    pub fn reclaim(&mut self, ino: InodeNo) {
        if ino != InodeNo::ROOT && self.names_of(ino) == 0 {
            self.nodes.remove(&ino);
        }
    }

    /// Answers how many cells, or `None` if it is not allowed.
    pub fn clone_range(
        &mut self,
        (src, from): (InodeNo, u64),
        (dst, to): (InodeNo, u64),
        len: u64,
    ) -> Option<u64> {
        let len = len.min(self.nodes[&src].size.saturating_sub(from));
        if (to + len) > MAX_FILE_SIZE || src == dst && from.abs_diff(to) < len {
            return None;
        }
        if len == 0 {
            return Some(0);
        }
        let cells: Vec<_> =
            self.nodes[&src].cells.range(from..from + len).map(|(cell, token)| (*cell, *token)).collect();
        let node = self.node(dst);
        node.clear(to, len);
        node.size = node.size.max(to + len);
        node.cells.extend(cells.into_iter().map(|(cell, token)| (cell - from + to, token)));
        Some(len)
    }

    /// Files and directories below the root: files with several names count once.
    pub fn tree_totals(&self, cell: u64) -> DirTotals {
        let mut totals = DirTotals::default();
        for (&ino, node) in &self.nodes {
            if ino == InodeNo::ROOT || self.names_of(ino) == 0 {
                continue;
            }
            if node.kind == Kind::Directory {
                totals.directories += 1;
                continue;
            }
            totals.files += 1;
            totals.bytes += if node.kind == Kind::Symlink { 6 } else { node.size * cell };
            totals.allocated += node.cells.len() as u64 * cell;
        }
        totals
    }
}
