//! What can be said only after everything was read: the shape of the tree, and totals.

use std::collections::{BTreeMap, HashSet};

use headrace_layout::InodeNo;

use super::{Checker, ProblemKind};
use crate::key::Key;
use crate::{DirTotals, Result, key};

impl Checker<'_> {
    /// Every directory with a name must lead up to the root.
    pub(super) fn judge_tree(&mut self) {
        let parents: BTreeMap<InodeNo, InodeNo> = self
            .inodes
            .iter()
            .filter(|(_, seen)| seen.inode.is_dir() && seen.inode.nlink > 0)
            .map(|(&ino, seen)| (ino, seen.inode.home))
            .collect();
        if !parents.contains_key(&InodeNo::ROOT) {
            self.error(ProblemKind::MissingInode(InodeNo::ROOT), "the root directory does not exist".into());
        }
        let mut settled = HashSet::from([InodeNo::ROOT]);
        for &dir in parents.keys() {
            let mut path = Vec::new();
            let mut on_path = HashSet::new();
            let mut at = dir;
            let broken = loop {
                if settled.contains(&at) {
                    break false;
                }
                if !on_path.insert(at) {
                    break true;
                }
                path.push(at);
                match parents.get(&at) {
                    Some(&parent) => at = parent,
                    None => break true,
                }
            };
            if broken {
                self.error(
                    ProblemKind::DirectoryShape(dir),
                    format!("directory {dir} does not lead up to the root"),
                );
            }
            settled.extend(path);
        }
    }

    pub(super) fn judge_totals(&mut self) -> Result<()> {
        self.each(key::USAGE, |checker, key, value| {
            let Key::Usage(dir) = key else { return Ok(()) };
            let expected = checker.usage.remove(&dir).unwrap_or_default();
            let found = DirTotals::decode(value)?;
            if found != expected {
                checker.warning(
                    ProblemKind::DirectoryTotals(dir),
                    format!("directory {dir} counts {found:?} and has {expected:?}"),
                );
            }
            Ok(())
        })?;
        for (dir, expected) in std::mem::take(&mut self.usage) {
            self.warning(
                ProblemKind::DirectoryTotals(dir),
                format!("directory {dir} counts nothing and has {expected:?}"),
            );
        }
        self.judge_counters();
        Ok(())
    }

    fn judge_counters(&mut self) {
        let Some(counters) = self.counters else { return };
        let last_ino = self.inodes.keys().map(|ino| ino.0).max().unwrap_or(0);
        if counters.next_ino <= last_ino || counters.next_inline <= self.last_inline {
            self.error(
                ProblemKind::Counters,
                "a number that is in use would be given to another inode or inline value".into(),
            );
        }
        let found = (counters.inodes, counters.bytes, counters.inline_bytes);
        let bytes = self.inodes.values().fold(0u64, |sum, seen| sum.wrapping_add(seen.inode.allocated));
        let expected = (self.summary.inodes, bytes, self.inline_bytes);
        if found != expected {
            self.warning(
                ProblemKind::Counters,
                format!("the volume counts (inodes, bytes, inline bytes) {found:?} and has {expected:?}"),
            );
        }
    }
}
