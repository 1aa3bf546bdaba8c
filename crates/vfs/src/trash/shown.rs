//! `.trash`, a directory in the root that nobody made: what was deleted and is kept, under the paths that it had.
//!
//! A directory in it is one of the volume, deleted or not, seen from the other side: it holds what was deleted in it, and the directories
//! that are still there, on whose way deleted things may lie. Its inodes have the numbers of those that they show, with a bit more: so to
//! the kernel they are others, it caches nothing of the one for the other, and a process in a removed directory goes on seeing it empty.
//!
//! What is shown can be read, and changed in two ways: a name moved out of it is restored, one removed from it is gone for good.

use std::sync::Arc;

use headrace_layout::InodeNo;
use headrace_meta::{Attr, DirEntry, Kept, Kind, MetaError, RenameMode, Restored, Revival, Time};

use super::Came;
use crate::error::{Error, Result};
use crate::handles::{FileId, OpenMode};
use crate::vfs::Vfs;

/// What the directory is called.
pub const NAME: &[u8] = b".trash";
/// Of a number: it is shown in the trash. Inodes are numbered from one on and never get there.
const SHOWN: u64 = 1 << 62;
/// Of a cookie: a deleted inode's number follows.
const DELETED: u64 = 1 << 62;
/// Deleted names read at a time.
const PAGE: usize = 256;
/// Between the name and the number of all but the newest that had it.
const VERSION: u8 = b'~';
/// Length of a name, bytes.
const NAME_MAX: usize = 255;
/// Places in listings that are remembered although what was there may be gone.
pub(super) const PLACES: usize = 4096;

/// Whether an inode's number is one of the trash, which the kernel is to ask for each time.
pub fn is_shown(ino: InodeNo) -> bool {
    ino.0 & SHOWN != 0
}

/// The inode that is shown under a number, or the one with that number.
pub(crate) fn real(ino: InodeNo) -> InodeNo {
    InodeNo(ino.0 & !SHOWN)
}

fn shown(ino: InodeNo) -> InodeNo {
    InodeNo(ino.0 | SHOWN)
}

/// Fails if an inode is one of the trash: there nothing can be changed.
pub(crate) fn changeable(ino: InodeNo) -> Result<()> {
    if is_shown(ino) { Err(Error::ReadOnly) } else { Ok(()) }
}

/// What a name in the trash stands for.
enum Found {
    /// A directory that is there.
    Living(Attr),
    /// Something deleted.
    Deleted(Kept, Attr),
}

impl Vfs {
    /// The trash itself, if `name` in `parent` is it: with `--trash`, where nothing has that name.
    pub(crate) fn trash_at(&self, parent: InodeNo, name: &[u8]) -> Result<Option<Attr>> {
        if parent != InodeNo::ROOT || name != NAME || self.options.trash.is_none() {
            return Ok(None);
        }
        match self.meta().lookup(parent, name) {
            Err(MetaError::NotFound) => self.shown_attributes(shown(InodeNo::ROOT)).map(Some),
            Ok(_) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Fails if a name is that of the trash, which stays where it is.
    pub(crate) fn not_the_trash(&self, parent: InodeNo, name: &[u8]) -> Result<()> {
        if self.trash_at(parent, name)?.is_some() { Err(Error::ReadOnly) } else { Ok(()) }
    }

    /// Attributes of an inode of the trash.
    pub(crate) fn shown_attributes(&self, ino: InodeNo) -> Result<Attr> {
        let is_root = real(ino) == InodeNo::ROOT;
        let mut attr = as_shown(self.attributes(real(ino))?);
        if is_root {
            // For the owner of the mount alone: what is below keeps its own modes, but those above it are not to count for less.
            attr.mode = 0o700;
            (attr.uid, attr.gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        }
        Ok(attr)
    }

    /// Finds a name in a directory of the trash.
    pub(crate) fn lookup_shown(&self, dir: InodeNo, name: &[u8]) -> Result<Attr> {
        Ok(match self.find_shown(dir, name)? {
            Found::Living(attr) => as_shown(attr),
            Found::Deleted(kept, _) => as_shown(self.attributes(kept.ino)?),
        })
    }

    fn find_shown(&self, dir: InodeNo, name: &[u8]) -> Result<Found> {
        let dir = real(dir);
        match self.meta().lookup(dir, name) {
            Ok(attr) if attr.kind == Kind::Directory => return Ok(Found::Living(attr)),
            Ok(_) | Err(MetaError::NotFound | MetaError::Stale) => {}
            Err(error) => return Err(error.into()),
        }
        let newest = self.meta().deleted_named(dir, name)?.into_iter().max_by_key(|(kept, _)| age(kept));
        if let Some((kept, attr)) = newest {
            return Ok(Found::Deleted(kept, attr));
        }
        let (base, version) = versioned(name).ok_or(MetaError::NotFound)?;
        match self.meta().kept(version)? {
            Some((kept, attr)) if kept.parent == dir && kept.name.starts_with(base) => {
                Ok(Found::Deleted(kept, attr))
            }
            _ => Err(MetaError::NotFound.into()),
        }
    }

    /// Opens a deleted file, to be read.
    pub(crate) fn open_shown(self: &Arc<Self>, ino: InodeNo, flags: i32) -> Result<(FileId, OpenMode)> {
        if flags & libc::O_ACCMODE != libc::O_RDONLY || flags & libc::O_TRUNC != 0 {
            return Err(Error::ReadOnly);
        }
        let (file, mode) = self.open(real(ino), flags)?;
        // Whoever has had it open since before it was deleted may be changing it, and the kernel knows of no connection.
        Ok((file, OpenMode { keep_cache: false, ..mode }))
    }

    /// Entries of a directory of the trash, as [`Vfs::readdir`]: the directories that are there, then what was deleted, by name.
    pub(crate) fn readdir_shown(
        &self,
        dir: InodeNo,
        after: u64,
        plus: bool,
        visit: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<()> {
        for (cookie, name) in [(1, &b"."[..]), (2, b"..")] {
            let attr = if plus && after < cookie { Some(self.shown_attributes(dir)?) } else { None };
            let dot = DirEntry { cookie, ino: dir, kind: Kind::Directory, name, attr };
            if after < cookie && !visit(dot) {
                return Ok(());
            }
        }
        if after & DELETED == 0 && !self.living_shown(real(dir), after.max(2), plus, visit)? {
            return Ok(());
        }
        let mut from = match after & DELETED {
            0 => None,
            _ => Some(self.place_of(real(dir), InodeNo(after & !DELETED))?),
        };
        loop {
            let (mut page, more) = match &from {
                // The others of the name at which the last part ended.
                Some((name, Some(ino))) => {
                    let mut same = self.meta().deleted_named(real(dir), name)?;
                    same.sort_by_key(|(kept, _)| kept.ino);
                    let newest = same.iter().map(|(kept, _)| age(kept)).max();
                    let rest: Vec<_> = same.into_iter().filter(|(kept, _)| kept.ino > *ino).collect();
                    for (kept, attr) in rest {
                        let first = Some(age(&kept)) == newest;
                        if !self.visit_deleted(&kept, attr, first, plus, visit)? {
                            return Ok(());
                        }
                    }
                    from = Some((name.clone(), None));
                    continue;
                }
                Some((name, None)) => self.meta().deleted_in(real(dir), Some(name), PAGE)?,
                None => self.meta().deleted_in(real(dir), None, PAGE)?,
            };
            if let Some(last) = &more {
                page.retain(|(kept, _)| kept.name != *last);
                page.extend(self.meta().deleted_named(real(dir), last)?);
            }
            page.sort_by(|(a, _), (b, _)| (&a.name, a.ino).cmp(&(&b.name, b.ino)));
            for same in page.chunk_by(|(a, _), (b, _)| a.name == b.name) {
                let newest = same.iter().map(|(kept, _)| age(kept)).max();
                for (kept, attr) in same {
                    let first = Some(age(kept)) == newest;
                    if !self.visit_deleted(kept, attr.clone(), first, plus, visit)? {
                        return Ok(());
                    }
                }
            }
            match more {
                Some(last) => from = Some((last, None)),
                None => return Ok(()),
            }
        }
    }

    /// The directories that are there. False if `visit` has declined one.
    fn living_shown(
        &self,
        dir: InodeNo,
        after: u64,
        plus: bool,
        visit: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<bool> {
        let mut all = true;
        let mut directories: Vec<(u64, InodeNo, Vec<u8>, Option<Attr>)> = Vec::new();
        let mut after = after;
        loop {
            let mut seen = 0;
            directories.clear();
            let listed = self.meta().readdir(dir, after, plus, &mut |entry| {
                after = entry.cookie;
                seen += 1;
                if entry.kind == Kind::Directory {
                    directories.push((entry.cookie, entry.ino, entry.name.to_vec(), entry.attr));
                }
                seen < PAGE
            });
            match listed {
                // A deleted one has none.
                Err(MetaError::NotFound | MetaError::Stale) => return Ok(true),
                listed => listed?,
            }
            for (cookie, ino, name, attr) in directories.drain(..) {
                let attr = attr.map(as_shown);
                let entry = DirEntry { cookie, ino: shown(ino), kind: Kind::Directory, name: &name, attr };
                if !visit(entry) {
                    all = false;
                    break;
                }
            }
            if !all || seen < PAGE {
                return Ok(all);
            }
        }
    }

    fn visit_deleted(
        &self,
        kept: &Kept,
        attr: Attr,
        newest: bool,
        plus: bool,
        visit: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<bool> {
        let taken = newest
            && self.meta().lookup(kept.parent, &kept.name).is_ok_and(|attr| attr.kind == Kind::Directory);
        let name = if newest && !taken { kept.name.clone() } else { version_of(kept) };
        let kind = attr.kind;
        let attr = plus.then(|| as_shown(self.attributes(kept.ino).unwrap_or(attr)));
        let more =
            visit(DirEntry { cookie: DELETED | kept.ino.0, ino: shown(kept.ino), kind, name: &name, attr });
        if more {
            self.trash.remember(kept);
        }
        Ok(more)
    }

    /// Where a listing goes on behind a deleted inode, which may be gone by now.
    fn place_of(&self, dir: InodeNo, ino: InodeNo) -> Result<(Vec<u8>, Option<InodeNo>)> {
        let name = match self.meta().kept(ino)? {
            Some((kept, _)) if kept.parent == dir => kept.name,
            _ => self.trash.remembered(dir, ino).ok_or(MetaError::NotFound)?,
        };
        Ok((name, Some(ino)))
    }

    /// Removes something from the trash for good. `directory`: it has to be one, and empty; else it must not.
    pub(crate) fn remove_shown(&self, dir: InodeNo, name: &[u8], directory: bool) -> Result<()> {
        self.writable()?;
        let _settled = self.trash.lock();
        let (kept, attr) = match self.find_shown(dir, name)? {
            Found::Living(_) => return Err(Error::ReadOnly),
            Found::Deleted(kept, attr) => (kept, attr),
        };
        match (attr.kind == Kind::Directory, directory) {
            (true, false) => return Err(MetaError::IsDirectory.into()),
            (false, true) => return Err(MetaError::NotDirectory.into()),
            (true, true) if !self.meta().deleted_in(kept.ino, None, 1)?.0.is_empty() => {
                return Err(MetaError::NotEmpty.into());
            }
            _ => {}
        }
        if self.meta().let_go(kept.ino)? {
            self.trash.change(-1, attr.allocated);
            self.make_orphan(kept.ino);
        }
        Ok(())
    }

    /// Restores what is moved out of the trash, under the name it is moved to.
    pub(crate) fn move_out(
        self: &Arc<Self>,
        dir: InodeNo,
        name: &[u8],
        to: InodeNo,
        new_name: &[u8],
        mode: RenameMode,
    ) -> Result<()> {
        self.writable()?;
        changeable(to)?;
        if mode == RenameMode::Exchange {
            return Err(Error::Invalid("what is deleted cannot change places with something else"));
        }
        let _settled = self.trash.lock();
        let Found::Deleted(kept, _) = self.find_shown(dir, name)? else { return Err(Error::ReadOnly) };
        let revival = Revival { ino: kept.ino, parent: to, name: new_name.to_vec() };
        let mut restored = Restored::default();
        // The kernel learns of the name from the answer. Of what is below it may hold directories that were removed.
        self.bring_back(vec![revival], &mut restored, &mut |came: Came<'_>| {
            if came.held {
                self.trash.renewed.lock().push(came.ino);
            }
        })?;
        Ok(())
    }
}

impl Vfs {
    /// Directories that came back by being moved out of the trash while the kernel still held them as removed, since this was asked last.
    pub fn take_renewed(&self) -> Vec<InodeNo> {
        std::mem::take(&mut self.trash.renewed.lock())
    }
}

/// What makes one deleted inode newer than another.
fn age(kept: &Kept) -> (Time, InodeNo) {
    (kept.deleted, kept.ino)
}

/// Attributes as the trash shows them.
fn as_shown(mut attr: Attr) -> Attr {
    attr.ino = shown(attr.ino);
    if attr.kind == Kind::Directory {
        attr.nlink = 2;
        // Another time each time, by less than a second: what the kernel has listed of it is to be listed anew.
        attr.mtime.nanos = Time::now().nanos;
    } else {
        attr.nlink = attr.nlink.max(1);
    }
    attr
}

/// The name of one that is not the newest.
fn version_of(kept: &Kept) -> Vec<u8> {
    let version = kept.ino.0.to_string();
    let mut name = kept.name.clone();
    name.truncate(NAME_MAX - 1 - version.len());
    name.push(VERSION);
    name.extend_from_slice(version.as_bytes());
    name
}

/// The name before the number, and the number.
fn versioned(name: &[u8]) -> Option<(&[u8], InodeNo)> {
    let at = name.iter().rposition(|byte| *byte == VERSION)?;
    let (base, version) = (name.get(..at)?, name.get(at + 1..)?);
    let digits = !version.is_empty() && version.iter().all(u8::is_ascii_digit);
    let number = std::str::from_utf8(version).ok().filter(|_| digits)?.parse().ok()?;
    (number & SHOWN == 0).then_some((base, InodeNo(number)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn kept(name: &[u8], ino: u64) -> Kept {
        let time = Time::default();
        Kept { ino: InodeNo(ino), deleted: time, until: time, parent: InodeNo::ROOT, name: name.to_vec() }
    }

    proptest! {
        #[test]
        fn versions_are_found_by_the_names_they_are_shown_under(
            name in proptest::collection::vec(1..=255_u8, 1..=255), ino in 1..1_u64 << 62,
        ) {
            let shown = version_of(&kept(&name, ino));
            prop_assert!(shown.len() <= NAME_MAX);
            let (base, version) = versioned(&shown).unwrap();
            prop_assert_eq!(version, InodeNo(ino));
            prop_assert!(name.starts_with(base));
        }
    }

    #[test]
    fn other_names_are_no_versions() {
        for name in [&b"a"[..], b"a~", b"a~b", b"a~1b", b"a~-1", b"~", b"a~99999999999999999999"] {
            assert!(versioned(name).is_none(), "{}", name.escape_ascii());
        }
        assert_eq!(versioned(b"a~b~12"), Some((&b"a~b"[..], InodeNo(12))));
    }

    #[test]
    fn numbers_are_others_and_lead_back() {
        let ino = InodeNo(77);
        assert!(!is_shown(ino) && is_shown(shown(ino)));
        assert_eq!((real(shown(ino)), real(ino)), (ino, ino));
        assert!(changeable(ino).is_ok() && changeable(shown(ino)).is_err());
    }
}
