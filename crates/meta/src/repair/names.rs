//! Third step: names, and the order of names.

use std::collections::HashSet;

use headrace_layout::InodeNo;

use super::overlay::Overlay;
use super::{Repairer, text};
use crate::key::Key;
use crate::namespace::FIRST_COOKIE;
use crate::record::Entry;
use crate::{Kind, Result, key};

/// Positions from here on are damage: no directory has handed out so many.
pub(super) const COOKIE_BOUND: u64 = 1 << 62;

/// What to do with a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    Keep,
    /// What it is in is not a directory.
    NoDirectory,
    /// What it stands for does not exist.
    NoInode,
    /// A directory has one name, and the root none.
    SecondName,
}

impl Repairer<'_> {
    /// Every name leads to an inode of its kind, has a position of its own and is listed there.
    pub(super) fn repair_entries(&mut self) -> Result<()> {
        self.pass_positions()?;
        let mut range = Overlay::all(key::ENTRY);
        let mut positions = (InodeNo(0), HashSet::new());
        loop {
            let page = self.kv.page(&mut range)?;
            if page.is_empty() {
                return Ok(());
            }
            for (key, value) in page {
                let (Some(Key::Entry(dir, name)), Ok(entry)) = (Key::parse(&key), Entry::decode(&value))
                else {
                    continue;
                };
                if positions.0 != dir {
                    positions = (dir, HashSet::new());
                }
                match self.judge_entry(dir, &entry) {
                    Verdict::Keep => self.keep_entry(dir, name, entry, &mut positions.1)?,
                    verdict => self.drop_entry(dir, name, &entry, verdict)?,
                }
            }
        }
    }

    /// Directories hand out positions behind all that are in use, so that a new one meets no old name.
    fn pass_positions(&mut self) -> Result<()> {
        let mut range = Overlay::all(key::POSITION);
        loop {
            let page = self.kv.page(&mut range)?;
            if page.is_empty() {
                return Ok(());
            }
            for (key, _) in page {
                if let Some(Key::Position(dir, cookie)) = Key::parse(&key)
                    && cookie < COOKIE_BOUND
                    && let Some(facts) = self.facts.get_mut(&dir)
                    && facts.is_dir()
                {
                    facts.next_cookie = facts.next_cookie.max(cookie + 1);
                }
            }
        }
    }

    fn judge_entry(&self, dir: InodeNo, entry: &Entry) -> Verdict {
        if !self.facts.get(&dir).is_some_and(|facts| facts.is_dir()) {
            return Verdict::NoDirectory;
        }
        let Some(facts) = self.facts.get(&entry.ino) else { return Verdict::NoInode };
        let named_elsewhere = self.directories.contains_key(&entry.ino) && facts.home != dir;
        if facts.is_dir() && (entry.ino == InodeNo::ROOT || named_elsewhere) {
            return Verdict::SecondName;
        }
        Verdict::Keep
    }

    fn keep_entry(
        &mut self,
        dir: InodeNo,
        name: &[u8],
        mut entry: Entry,
        positions: &mut HashSet<u64>,
    ) -> Result<()> {
        let Some(facts) = self.facts.get_mut(&entry.ino) else { return Ok(()) };
        if facts.kind != entry.kind {
            let message = format!(
                "name {:?} in directory {dir} calls inode {} {:?}: it is {:?}",
                text(name),
                entry.ino,
                entry.kind,
                facts.kind
            );
            entry.kind = facts.kind;
            self.fixed("kind", message);
        }
        if entry.kind == Kind::Directory {
            // An earlier name that is not where the directory says it is gives way.
            if let Some((other, old)) = self.directories.insert(entry.ino, (dir, name.to_vec()))
                && let Some(earlier) = Entry::load(&self.kv, other, &old)?
            {
                self.drop_entry(other, &old, &earlier, Verdict::SecondName)?;
                if let Some(facts) = self.facts.get_mut(&other) {
                    facts.entries = facts.entries.saturating_sub(1);
                }
                if let Some(facts) = self.facts.get_mut(&entry.ino) {
                    facts.names = 0;
                }
            }
        }
        if let Some(facts) = self.facts.get_mut(&entry.ino) {
            facts.names = facts.names.saturating_add(1);
        }
        let Some(parent) = self.facts.get_mut(&dir) else { return Ok(()) };
        parent.entries += 1;
        if !(FIRST_COOKIE..COOKIE_BOUND).contains(&entry.cookie) || !positions.insert(entry.cookie) {
            entry.cookie = self.take_cookie(dir);
            positions.insert(entry.cookie);
            self.fixed(
                "position",
                format!("name {:?} in directory {dir} gets a position of its own", text(name)),
            );
        } else if entry.cookie >= parent.next_cookie {
            parent.next_cookie = entry.cookie + 1;
        }
        self.kv.put(&key::entry(dir, name), &entry.encode())?;
        if self.kv.put(&key::position(dir, entry.cookie), &entry.encode_position(name))? {
            self.fixed("listing", format!("name {:?} is listed in directory {dir} again", text(name)));
        }
        Ok(())
    }

    fn drop_entry(&mut self, dir: InodeNo, name: &[u8], entry: &Entry, verdict: Verdict) -> Result<()> {
        let (name_text, ino) = (text(name), entry.ino);
        match verdict {
            Verdict::Keep => return Ok(()),
            Verdict::NoDirectory => {
                self.lost("name", format!("name {name_text:?} of inode {ino} is in inode {dir}, which is not a directory: removed"));
            }
            Verdict::NoInode => self.lost(
                "name",
                format!("name {name_text:?} in directory {dir} stands for inode {ino}, of which nothing is left: removed"),
            ),
            Verdict::SecondName => self.lost(
                "name",
                format!("name {name_text:?} in directory {dir} is a second one of directory {ino}: removed"),
            ),
        }
        self.kv.delete(&key::entry(dir, name))?;
        let position = key::position(dir, entry.cookie);
        if headrace_kv::Read::get(&self.kv, &position)?.as_deref() == Some(&entry.encode_position(name)[..]) {
            self.kv.delete(&position)?;
        }
        Ok(())
    }

    /// Every position lists a name there is. A name that only its position tells of comes back.
    pub(super) fn repair_positions(&mut self) -> Result<()> {
        let mut range = Overlay::all(key::POSITION);
        loop {
            let page = self.kv.page(&mut range)?;
            if page.is_empty() {
                return Ok(());
            }
            for (key, value) in page {
                let Some(Key::Position(dir, cookie)) = Key::parse(&key) else { continue };
                let Ok((entry, name)) = Entry::decode_position(&value, cookie) else { continue };
                match Entry::load(&self.kv, dir, name)? {
                    Some(found) if found == entry => {}
                    None if self.is_missing_name(dir, &entry) => {
                        let kind = self.facts.get(&entry.ino).map_or(entry.kind, |facts| facts.kind);
                        let mut positions = HashSet::new();
                        self.fixed(
                            "name",
                            format!(
                                "name {:?} of inode {} is in directory {dir} again",
                                text(name),
                                entry.ino
                            ),
                        );
                        self.kv.delete(&key)?;
                        self.keep_entry(dir, name, Entry { kind, ..entry }, &mut positions)?;
                    }
                    _ => {
                        self.kv.delete(&key)?;
                        self.fixed(
                            "listing",
                            format!("directory {dir} lists {:?} no more, which it does not have", text(name)),
                        );
                    }
                }
            }
        }
    }

    /// Whether a name that is listed but not there should be: its inode is, and counts more names than it has.
    fn is_missing_name(&self, dir: InodeNo, entry: &Entry) -> bool {
        let Some(facts) = self.facts.get(&entry.ino) else { return false };
        self.facts.get(&dir).is_some_and(|facts| facts.is_dir())
            && entry.ino != InodeNo::ROOT
            && !(facts.orphan && facts.nlink == 0)
            && (facts.names == 0 || (!facts.is_dir() && facts.names < facts.nlink))
    }
}
