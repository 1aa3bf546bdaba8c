//! Second step: which inodes there are. Those whose record is lost but that have data or names in them come back.

use std::collections::BTreeMap;

use headrace_layout::InodeNo;

use super::Repairer;
use super::facts::{Facts, differences, substitute};
use super::overlay::Overlay;
use crate::key::Key;
use crate::namespace::FIRST_COOKIE;
use crate::record::{Counters, Inode};
use crate::{Kind, Result, key};

impl Repairer<'_> {
    pub(super) fn load_inodes(&mut self) -> Result<()> {
        let mut range = Overlay::all(key::INODE);
        loop {
            let page = self.kv.page(&mut range)?;
            if page.is_empty() {
                break;
            }
            for (key, value) in page {
                let (Some(Key::Inode(ino)), Ok(inode)) = (Key::parse(&key), Inode::decode(&value)) else {
                    continue;
                };
                self.facts.insert(ino, Facts::of(ino, &inode));
            }
        }
        self.resurrect()?;
        self.repair_root()?;
        let (ino, inline) = Counters::load(&self.kv).map_or((0, 0), |c| (c.next_ino, c.next_inline));
        let last = self.facts.last_key_value().map_or(0, |(ino, _)| ino.0);
        self.next_ino = ino.max(last.saturating_add(1));
        self.next_inline = inline.max(1);
        self.read_marks()
    }

    /// Inodes that only their contents tell of: files by their data, directories by the names in them.
    fn resurrect(&mut self) -> Result<()> {
        let mut found: BTreeMap<InodeNo, Kind> = BTreeMap::new();
        for (ino, _) in &self.broken_chunks {
            found.insert(*ino, Kind::File);
        }
        for (tag, kind) in
            [(key::CHUNK, Kind::File), (key::INLINE, Kind::File), (key::ENTRY, Kind::Directory)]
        {
            let mut range = Overlay::all(tag);
            // One record of each inode tells all.
            while let Some((ino, next)) = self.next_inode(&range)? {
                found.entry(ino).or_insert(kind);
                range.start = next;
            }
        }
        for (ino, kind) in found {
            // 0 stands for none.
            if self.facts.contains_key(&ino) || ino.0 == 0 {
                continue;
            }
            let inode = substitute(kind, self.now);
            self.kv.put(&key::inode(ino), &inode.encode())?;
            self.facts.insert(ino, Facts::of(ino, &inode));
            let what =
                if kind == Kind::Directory { "a directory with names in it" } else { "a file with data" };
            self.fixed(
                "inode",
                format!("inode {ino}, {what}, has no record: it gets one, owned by root and private"),
            );
        }
        Ok(())
    }

    /// The inode of the first key in a range of a family that begins with inodes, and where the next one begins.
    fn next_inode(&self, range: &std::ops::Range<Vec<u8>>) -> Result<Option<(InodeNo, Vec<u8>)>> {
        use headrace_kv::Read;
        let mut found = None;
        self.kv.scan(&range.start, &range.end, &mut |key, _| {
            if let Some(Key::Chunk(ino, _) | Key::Inline(ino, _) | Key::Entry(ino, _)) = Key::parse(key) {
                let tag = key.first().copied().unwrap_or_default();
                found = Some((ino, key::all_of(tag, ino).end));
            }
            std::ops::ControlFlow::Break(())
        })?;
        Ok(found)
    }

    fn repair_root(&mut self) -> Result<()> {
        if self.facts.get(&InodeNo::ROOT).is_some_and(Facts::is_dir) {
            return Ok(());
        }
        let root = Inode { home: InodeNo::ROOT, mode: 0o755, ..substitute(Kind::Directory, self.now) };
        self.kv.put(&key::inode(InodeNo::ROOT), &root.encode())?;
        self.facts.insert(InodeNo::ROOT, Facts::of(InodeNo::ROOT, &root));
        self.lost(
            "root",
            "the root directory had no usable record: it gets a new one, owned by root, mode 0755".into(),
        );
        Ok(())
    }

    /// Orphan records and unsettled files.
    fn read_marks(&mut self) -> Result<()> {
        for tag in [key::ORPHAN, key::UNSETTLED] {
            let mut range = Overlay::all(tag);
            loop {
                let page = self.kv.page(&mut range)?;
                if page.is_empty() {
                    break;
                }
                for (key, _) in page {
                    let Some(Key::Orphan(ino) | Key::Unsettled(ino)) = Key::parse(&key) else { continue };
                    match self.facts.get_mut(&ino) {
                        Some(facts) if tag == key::ORPHAN && ino != InodeNo::ROOT => facts.orphan = true,
                        Some(facts) if tag == key::UNSETTLED && facts.kind == Kind::File => {
                            facts.unsettled = true
                        }
                        _ => {
                            self.kv.delete(&key)?;
                            self.fixed(
                                "orphan",
                                format!("unfinished work on inode {ino}, which has none, is forgotten"),
                            );
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Near the end: every record of an inode as the others say it should be.
    pub(super) fn write_inodes(&mut self) -> Result<()> {
        let facts = std::mem::take(&mut self.facts);
        for (&ino, facts) in &facts {
            let Some(stored) = Inode::load(&self.kv, ino)? else { continue };
            let corrected = facts.corrected(ino, &stored);
            if corrected != stored {
                self.kv.put(&key::inode(ino), &corrected.encode())?;
                let changes = differences(&stored, &corrected).join(", ");
                self.fixed("inode", format!("inode {ino}: {changes}"));
            }
            let (mark, wanted) = (key::unsettled(ino), facts.unsettled);
            let changed = if wanted { self.kv.put(&mark, &[])? } else { self.kv.delete(&mark)? };
            if changed {
                self.fixed("orphan", format!("inode {ino} and the list of unsettled files agree again"));
            }
        }
        self.facts = facts;
        Ok(())
    }

    /// The next position in a directory, taken.
    pub(super) fn take_cookie(&mut self, dir: InodeNo) -> u64 {
        match self.facts.get_mut(&dir) {
            Some(facts) => {
                let cookie = facts.next_cookie.max(FIRST_COOKIE);
                facts.next_cookie = cookie.saturating_add(1);
                cookie
            }
            None => FIRST_COOKIE,
        }
    }
}
