//! Inodes, and the names that lead to them.

use headrace_layout::InodeNo;

use super::{Checker, ProblemKind, Seen};
use crate::key::Key;
use crate::namespace::FIRST_COOKIE;
use crate::record::{Entry, Flags, Inode, KeptRecord};
use crate::transaction::counted_in;
use crate::{Kind, Result, key};

impl Checker<'_> {
    pub(super) fn read_inodes(&mut self) -> Result<()> {
        self.each(key::INODE, |checker, key, value| {
            let Key::Inode(ino) = key else { return Ok(()) };
            checker.summary.inodes += 1;
            let inode = Inode::decode(value)?;
            if inode.is_dir() {
                checker.summary.directories += 1;
            }
            if let Some(home) = counted_in(ino, &inode) {
                let usage = checker.usage.entry(home).or_default();
                *usage = usage.plus(inode.usage());
            }
            checker.inodes.insert(
                ino,
                Seen {
                    inode,
                    names: 0,
                    links: 0,
                    subdirectories: 0,
                    covered: 0,
                    data_end: 0,
                    orphan: false,
                    unsettled: false,
                    attributes: 0,
                },
            );
            Ok(())
        })
    }

    /// Orphan records and unsettled files.
    pub(super) fn read_marks(&mut self) -> Result<()> {
        for tag in [key::ORPHAN, key::UNSETTLED] {
            self.each(tag, |checker, key, value| {
                let (Key::Orphan(ino) | Key::Unsettled(ino)) = key else { return Ok(()) };
                let kept = if tag == key::ORPHAN { KeptRecord::decode(value)? } else { None };
                if let Some(kept) = kept {
                    checker.summary.kept += 1;
                    if checker.read.get(&key::trashed(kept.parent, &kept.name, ino))?.is_none() {
                        checker.warning(
                            ProblemKind::Trash(ino),
                            format!(
                                "inode {ino} is kept, and is not found by the name {:?}",
                                text(&kept.name)
                            ),
                        );
                    }
                }
                match checker.inodes.get_mut(&ino) {
                    Some(seen) if tag == key::ORPHAN => {
                        seen.orphan = true;
                        checker.summary.orphans += 1;
                    }
                    Some(seen) => seen.unsettled = true,
                    None => checker.warning(
                        ProblemKind::Orphan(ino),
                        format!("unfinished work is recorded for inode {ino}, which does not exist"),
                    ),
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Names of what is kept must lead to it.
    pub(super) fn read_trash(&mut self) -> Result<()> {
        self.each(key::TRASHED, |checker, key, _| {
            let Key::Trashed(dir, name, ino) = key else { return Ok(()) };
            let kept = KeptRecord::load(checker.read, ino).unwrap_or_default();
            if kept.is_none_or(|kept| kept.parent != dir || kept.name != name) {
                checker.warning(
                    ProblemKind::Trash(ino),
                    format!(
                        "{:?} is listed as deleted in directory {dir}, which inode {ino} is not",
                        text(name)
                    ),
                );
            }
            Ok(())
        })
    }

    /// Records of further names must lead to such names.
    pub(super) fn read_links(&mut self) -> Result<()> {
        self.each(key::LINK, |checker, key, _| {
            let Key::Link(ino, dir, name) = key else { return Ok(()) };
            let entry = Entry::load(checker.read, dir, name)?;
            if entry.is_none_or(|entry| entry.ino != ino) {
                checker.error(
                    ProblemKind::Link(ino),
                    format!("inode {ino} records a name {:?} in directory {dir} that is not its", text(name)),
                );
            }
            Ok(())
        })
    }

    pub(super) fn read_entries(&mut self) -> Result<()> {
        self.each(key::ENTRY, |checker, key, value| {
            let Key::Entry(dir, name) = key else { return Ok(()) };
            checker.summary.entries += 1;
            let entry = Entry::decode(value)?;
            checker.check_directory(dir, name, &entry);
            let position = checker.read.get(&key::position(dir, entry.cookie))?;
            if position.as_deref() != Some(&entry.encode_position(name)[..]) {
                checker.error(
                    ProblemKind::Index(dir),
                    format!("name {:?} in directory {dir} is missing from its listing", text(name)),
                );
            }
            checker.check_named(dir, name, &entry)
        })
    }

    /// The directory that an entry is in.
    fn check_directory(&mut self, dir: InodeNo, name: &[u8], entry: &Entry) {
        match self.inodes.get_mut(&dir) {
            Some(seen) if seen.inode.is_dir() => {
                if entry.kind == Kind::Directory {
                    seen.subdirectories += 1;
                }
                if !(FIRST_COOKIE..seen.inode.next_cookie).contains(&entry.cookie) {
                    self.error(
                        ProblemKind::Cookie(dir),
                        format!("name {:?} in directory {dir} has a position out of bounds", text(name)),
                    );
                }
            }
            _ => self.error(
                ProblemKind::Stray(dir),
                format!("name {:?} is in inode {dir}, which is not a directory", text(name)),
            ),
        }
    }

    /// The inode that an entry names.
    fn check_named(&mut self, dir: InodeNo, name: &[u8], entry: &Entry) -> Result<()> {
        let ino = entry.ino;
        let is_link = self.read.get(&key::link(ino, dir, name))?.is_some();
        let Some(seen) = self.inodes.get_mut(&ino) else {
            self.error(
                ProblemKind::MissingInode(ino),
                format!(
                    "name {:?} in directory {dir} stands for inode {ino}, which does not exist",
                    text(name)
                ),
            );
            return Ok(());
        };
        seen.names += 1;
        seen.links += u32::from(is_link);
        let (kind, home) = (seen.inode.kind, seen.inode.home);
        if kind != entry.kind {
            self.error(
                ProblemKind::WrongKind(ino),
                format!(
                    "name {:?} in directory {dir} calls inode {ino} {:?}, it is {kind:?}",
                    text(name),
                    entry.kind
                ),
            );
        }
        if !is_link && home != dir {
            self.error(
                ProblemKind::Home(ino),
                format!("inode {ino} has its home in directory {home}, but is in directory {dir}"),
            );
        }
        Ok(())
    }

    pub(super) fn read_positions(&mut self) -> Result<()> {
        self.each(key::POSITION, |checker, key, value| {
            let Key::Position(dir, cookie) = key else { return Ok(()) };
            let (entry, name) = Entry::decode_position(value, cookie)?;
            if Entry::load(checker.read, dir, name)? != Some(entry) {
                checker.error(
                    ProblemKind::Index(dir),
                    format!("directory {dir} lists {:?}, which it does not have", text(name)),
                );
            }
            Ok(())
        })
    }

    pub(super) fn judge_inodes(&mut self) {
        let inodes = std::mem::take(&mut self.inodes);
        let mut in_order: Vec<_> = inodes.iter().collect();
        in_order.sort_unstable_by_key(|(ino, _)| **ino);
        for (&ino, seen) in in_order {
            self.judge_names(ino, seen);
            self.judge_contents(ino, seen);
        }
        self.inodes = inodes;
    }

    fn judge_names(&mut self, ino: InodeNo, seen: &Seen) {
        let nlink = seen.inode.nlink;
        if seen.orphan && nlink > 0 {
            self.warning(
                ProblemKind::Orphan(ino),
                format!("inode {ino} is recorded as an orphan but has names"),
            );
        }
        if seen.unsettled != seen.inode.flags.has(Flags::UNSETTLED) {
            self.warning(
                ProblemKind::Orphan(ino),
                format!("inode {ino} and the list of unsettled files disagree"),
            );
        }
        if seen.names == 0 && !seen.orphan && ino != InodeNo::ROOT {
            self.error(ProblemKind::Unreachable(ino), format!("inode {ino} has no name"));
        }
        let expected = match (seen.inode.is_dir(), seen.orphan && seen.names == 0) {
            (_, true) => 0,
            (true, false) => seen.subdirectories.saturating_add(2),
            (false, false) => seen.names,
        };
        if nlink != expected {
            self.error(
                ProblemKind::LinkCount(ino),
                format!("inode {ino} counts {nlink} links and has {expected}"),
            );
        }
        if !seen.inode.is_dir() && seen.names > 0 && seen.links != seen.names - 1 {
            self.error(
                ProblemKind::Link(ino),
                format!("inode {ino} has {} names and records {} besides its home", seen.names, seen.links),
            );
        }
        let (most, wrong) = if ino == InodeNo::ROOT { (0, "the root has a name") } else { (1, "") };
        if seen.inode.is_dir() && seen.names > most {
            let message =
                if wrong.is_empty() { format!("directory {ino} has several names") } else { wrong.into() };
            self.error(ProblemKind::DirectoryShape(ino), message);
        }
    }
}

/// A name for a message.
fn text(name: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(name)
}
