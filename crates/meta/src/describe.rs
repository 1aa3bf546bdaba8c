//! From inodes back to names: what segments record of the files in them, and paths for messages.
//!
//! Nothing leads from an inode to its name but its home directory. Positions in a directory and inode numbers both grow
//! with time, so a name is looked for by bisection, and among the newest entries (where a file that was moved here is).
//! What is not found so is unknown: this serves rebuilds and messages, and must not cost more than the work it is part of.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::ControlFlow;

use headrace_kv::Read;
use headrace_layout::{DirectoryRecord, FileRecord, InodeNo};

use crate::key::Key;
use crate::namespace::{FIRST_COOKIE, Namespace};
use crate::record::{Entry, Inode, KeptRecord, NOWHERE};
use crate::{Kind, Result, key};

/// A directory of so many positions is read whole.
const SMALL: u64 = 4096;
/// Entries read in one place of a larger one.
const WINDOW: usize = 1024;
/// Entries read in one directory for one answer.
const BUDGET: usize = 64 << 10;
/// Directories named in one answer.
const MAX_DIRECTORIES: usize = 16 << 10;
/// Deepest path followed.
const MAX_DEPTH: usize = 1024;

impl Namespace {
    /// What is known of files: those that have a name that is found in reasonable time, and the directories above them.
    pub fn describe_files(&self, inodes: &[InodeNo]) -> Result<(Vec<FileRecord>, Vec<DirectoryRecord>)> {
        let mut homes: BTreeMap<InodeNo, BTreeSet<InodeNo>> = BTreeMap::new();
        let mut attributes = HashMap::new();
        self.view(|read| {
            for &ino in inodes {
                if let Ok(Some(inode)) = Inode::load(read, ino)
                    && inode.kind == Kind::File
                    && inode.home != NOWHERE
                {
                    homes.entry(inode.home).or_default().insert(ino);
                    attributes.insert(ino, inode);
                }
            }
            Ok(())
        })?;
        let (mut files, mut above) = (Vec::new(), BTreeMap::new());
        for (home, wanted) in homes {
            let names = self.view(|read| names_in(read, home, &wanted))?;
            if !names.is_empty() {
                self.directories_above(home, &mut above)?;
            }
            for (ino, name) in names {
                let Some(inode) = attributes.get(&ino) else { continue };
                files.push(FileRecord {
                    ino,
                    parent: home,
                    name,
                    mode: inode.mode,
                    uid: inode.uid,
                    gid: inode.gid,
                    size: inode.size,
                    mtime_secs: inode.mtime.secs,
                    mtime_nanos: inode.mtime.nanos,
                });
            }
        }
        Ok((files, above.into_values().collect()))
    }

    /// A path of an inode, for messages, of a deleted one that is kept the one that it had; `None` if it has none, or none that is found in reasonable time.
    pub fn path_of(&self, ino: InodeNo) -> Result<Option<Vec<u8>>> {
        let mut parts: Vec<Vec<u8>> = Vec::new();
        let mut at = ino;
        while at != InodeNo::ROOT {
            if parts.len() >= MAX_DEPTH {
                return Ok(None);
            }
            let found = self.view(|read| {
                let Ok(Some(inode)) = Inode::load(read, at) else { return Ok(None) };
                if inode.home == NOWHERE {
                    let kept = KeptRecord::load(read, at).unwrap_or_default();
                    return Ok(kept.map(|kept| (kept.parent, kept.name)));
                }
                let name = names_in(read, inode.home, &BTreeSet::from([at]))?.remove(&at);
                Ok(name.map(|name| (inode.home, name)))
            })?;
            let Some((parent, name)) = found else { return Ok(None) };
            parts.push(name);
            at = parent;
        }
        let mut path = Vec::new();
        for part in parts.iter().rev() {
            path.push(b'/');
            path.extend_from_slice(part);
        }
        if path.is_empty() {
            path.push(b'/');
        }
        Ok(Some(path))
    }

    /// Adds `dir` and those above it that are not in `known` yet.
    fn directories_above(&self, dir: InodeNo, known: &mut BTreeMap<InodeNo, DirectoryRecord>) -> Result<()> {
        let mut at = dir;
        for _ in 0..MAX_DEPTH {
            if known.contains_key(&at) || known.len() >= MAX_DIRECTORIES {
                return Ok(());
            }
            let found = self.view(|read| {
                let Ok(Some(inode)) = Inode::load(read, at) else { return Ok(None) };
                let name = if at == InodeNo::ROOT {
                    Some(Vec::new())
                } else {
                    names_in(read, inode.home, &BTreeSet::from([at]))?.remove(&at)
                };
                Ok(name.map(|name| (inode, name)))
            })?;
            let Some((inode, name)) = found else { return Ok(()) };
            let Inode { home, mode, uid, gid, .. } = inode;
            known.insert(at, DirectoryRecord { ino: at, parent: home, name, mode, uid, gid });
            if at == InodeNo::ROOT {
                return Ok(());
            }
            at = home;
        }
        Ok(())
    }
}

/// Names in `dir` of some of `wanted`.
fn names_in(read: &dyn Read, dir: InodeNo, wanted: &BTreeSet<InodeNo>) -> Result<BTreeMap<InodeNo, Vec<u8>>> {
    let mut found = BTreeMap::new();
    let Ok(Some(inode)) = Inode::load(read, dir) else { return Ok(found) };
    if !inode.is_dir() {
        return Ok(found);
    }
    let mut search = Search { read, dir, wanted, found: &mut found, budget: BUDGET };
    if inode.next_cookie.saturating_sub(FIRST_COOKIE) <= SMALL {
        search.forward(FIRST_COOKIE, SMALL as usize)?;
        return Ok(found);
    }
    search.newest()?;
    for &ino in wanted {
        if search.budget == 0 {
            break;
        }
        if !search.found.contains_key(&ino) {
            let near = search.bisect(ino, inode.next_cookie)?;
            search.forward(near, WINDOW)?;
        }
    }
    Ok(found)
}

struct Search<'a> {
    read: &'a dyn Read,
    dir: InodeNo,
    wanted: &'a BTreeSet<InodeNo>,
    found: &'a mut BTreeMap<InodeNo, Vec<u8>>,
    /// Entries that may still be read.
    budget: usize,
}

impl Search<'_> {
    /// Reads up to `most` entries from a position on.
    fn forward(&mut self, from: u64, most: usize) -> Result<()> {
        let start = key::position(self.dir, from);
        let end = key::all_of(key::POSITION, self.dir).end;
        let read = self.read;
        let mut left = most.min(self.budget);
        read.scan(&start, &end, &mut |key, value| self.visit(key, value, &mut left))?;
        Ok(())
    }

    /// Reads the newest entries.
    fn newest(&mut self) -> Result<()> {
        let range = key::all_of(key::POSITION, self.dir);
        let read = self.read;
        let mut left = WINDOW.min(self.budget);
        read.scan_reverse(&range.start, &range.end, &mut |key, value| self.visit(key, value, &mut left))?;
        Ok(())
    }

    fn visit(&mut self, key: &[u8], value: &[u8], left: &mut usize) -> ControlFlow<()> {
        if *left == 0 || self.found.len() == self.wanted.len() {
            return ControlFlow::Break(());
        }
        *left -= 1;
        self.budget = self.budget.saturating_sub(1);
        if let Some(Key::Position(_, cookie)) = Key::parse(key)
            && let Ok((entry, name)) = Entry::decode_position(value, cookie)
            && self.wanted.contains(&entry.ino)
        {
            self.found.entry(entry.ino).or_insert_with(|| name.to_vec());
        }
        ControlFlow::Continue(())
    }

    /// A position from which on the entry of `ino` is likely to be near, as if positions were in the order of inodes.
    fn bisect(&mut self, ino: InodeNo, end: u64) -> Result<u64> {
        let (mut low, mut high) = (FIRST_COOKIE, end);
        while high.saturating_sub(low) > WINDOW as u64 / 2 {
            let middle = low + (high - low) / 2;
            self.budget = self.budget.saturating_sub(1);
            match self.first_in(middle, high)? {
                Some(entry) if entry.ino < ino => low = entry.cookie,
                Some(entry) if entry.ino == ino => return Ok(entry.cookie),
                _ => high = middle,
            }
        }
        Ok(low.saturating_sub(WINDOW as u64 / 4).max(FIRST_COOKIE))
    }

    /// The first entry in a range of positions.
    fn first_in(&self, from: u64, to: u64) -> Result<Option<Entry>> {
        let mut first = None;
        let (start, end) = (key::position(self.dir, from), key::position(self.dir, to));
        self.read.scan(&start, &end, &mut |key, value| {
            if let Some(Key::Position(_, cookie)) = Key::parse(key) {
                first = Entry::decode_position(value, cookie).ok().map(|(entry, _)| entry);
            }
            ControlFlow::Break(())
        })?;
        Ok(first)
    }
}
