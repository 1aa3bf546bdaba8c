//! What was deleted and is kept: orphans that remember where they were, and until when they stay.
//!
//! Each is found by its inode, in its orphan record, and by the name that it had. Its directory may be deleted as well, and is then
//! kept in the same way: so a tree that was removed is still there, piece by piece, and is put together again from the top.

mod tree;

use std::ops::ControlFlow;

use headrace_kv::Read;
use headrace_layout::InodeNo;

use crate::key::Key;
use crate::namespace::Namespace;
use crate::record::{Entry, Flags, Inode, KeptRecord, NOWHERE};
use crate::transaction::Tx;
use crate::{Attr, Kind, MetaError, Result, Time, key};

/// What was deleted under the same name, at most: of what was made and removed over and over the newest.
const VERSIONS: usize = 1024;

/// A deleted inode that is kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kept {
    /// Its number.
    pub ino: InodeNo,
    /// When it lost its last name.
    pub deleted: Time,
    /// Until when it is kept.
    pub until: Time,
    /// The directory that it was in, which may be deleted too.
    pub parent: InodeNo,
    /// Its name there.
    pub name: Vec<u8>,
}

/// A name to be given back to a deleted inode.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Revival {
    /// The inode.
    pub ino: InodeNo,
    /// Where: a directory that has a name.
    pub parent: InodeNo,
    /// The name.
    pub name: Vec<u8>,
}

/// What was deleted under a path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trashed {
    /// It.
    pub kept: Kept,
    /// Its attributes.
    pub attr: Attr,
    /// What has to come back first for it to be there again: directories above it, from the top.
    pub above: Vec<Revival>,
    /// The directory that it comes back into: the last of those, or one that is there under that path.
    pub into: InodeNo,
}

/// What a restoration of a tree did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Restored {
    /// What is no directory.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Bytes of data held.
    pub bytes: u64,
    /// Older ones of a name that came back: they stay where they were.
    pub older: u64,
    /// Others that stay, because something has their name.
    pub taken: u64,
}

impl Restored {
    /// Counts one.
    pub fn add(&mut self, attr: &Attr) {
        if attr.kind == Kind::Directory {
            self.directories += 1;
        } else {
            self.files += 1;
        }
        self.bytes = self.bytes.saturating_add(attr.allocated);
    }

    /// Both together.
    #[must_use]
    pub fn plus(&self, other: &Restored) -> Restored {
        Restored {
            files: self.files + other.files,
            directories: self.directories + other.directories,
            bytes: self.bytes.saturating_add(other.bytes),
            older: self.older + other.older,
            taken: self.taken + other.taken,
        }
    }
}

/// A directory that has, or had, a path.
struct Place {
    dir: InodeNo,
    /// The deleted directories on the way to it, from the top, each with how many names lead to it.
    above: Vec<(usize, Revival)>,
}

impl KeptRecord {
    pub(crate) fn kept(self, ino: InodeNo) -> Kept {
        let KeptRecord { deleted, until, parent, name } = self;
        Kept { ino, deleted, until, parent, name }
    }
}

/// Keeps an inode that lost its last name just now.
pub(crate) fn keep(tx: &mut Tx<'_>, ino: InodeNo, parent: InodeNo, name: &[u8], until: Time) {
    let record = KeptRecord { deleted: tx.now, until, parent, name: name.to_vec() };
    tx.put(&key::orphan(ino), &record.encode());
    tx.put(&key::trashed(parent, name, ino), &[]);
}

/// Makes an orphan as any other of what was kept.
pub(crate) fn let_go(tx: &mut Tx<'_>, ino: InodeNo, record: &KeptRecord) {
    tx.delete(&key::trashed(record.parent, &record.name, ino));
    tx.put(&key::orphan(ino), &[]);
}

/// Forgets where an inode was that is gone.
pub(crate) fn forget(tx: &mut Tx<'_>, ino: InodeNo) -> Result<()> {
    if let Ok(Some(record)) = KeptRecord::load(tx.read(), ino) {
        tx.delete(&key::trashed(record.parent, &record.name, ino));
    }
    Ok(())
}

impl Namespace {
    /// Makes an orphan as any other of a deleted inode that is kept; whether it was one.
    pub fn let_go(&self, ino: InodeNo) -> Result<bool> {
        self.update(|tx| match KeptRecord::load(tx.read(), ino)? {
            Some(record) => {
                let_go(tx, ino, &record);
                Ok(true)
            }
            None => Ok(false),
        })
    }

    /// Whether an inode is deleted and kept.
    pub fn is_kept(&self, ino: InodeNo) -> Result<bool> {
        self.view(|read| Ok(KeptRecord::load(read, ino)?.is_some()))
    }

    /// What was deleted in a directory, by name, from behind all that had the name `after`, of up to `limit` records; and the last name
    /// if there may be more.
    ///
    /// # Errors
    /// Metadata cannot be read.
    pub fn deleted_in(&self, dir: InodeNo, after: Option<&[u8]>, limit: usize) -> Result<Page> {
        let range = key::all_of(key::TRASHED, dir);
        let start = after.map_or(range.start, |name| key::trashed_as(dir, name).end);
        self.view(|read| trashed_between(read, &start, &range.end, limit))
    }

    /// Everything that was deleted in a directory under a name.
    ///
    /// # Errors
    /// Metadata cannot be read.
    pub fn deleted_named(&self, dir: InodeNo, name: &[u8]) -> Result<Vec<(Kept, Attr)>> {
        self.view(|read| deleted_of(read, dir, name))
    }

    /// A deleted inode, if it is one that is kept.
    ///
    /// # Errors
    /// Metadata cannot be read.
    pub fn kept(&self, ino: InodeNo) -> Result<Option<(Kept, Attr)>> {
        self.view(|read| Ok(those(read, vec![ino])?.pop()))
    }

    /// Everything that was deleted under a path, given as its names from the root, newest first.
    pub fn deleted_as(&self, path: &[&[u8]]) -> Result<Vec<Trashed>> {
        let Some((last, above)) = path.split_last() else { return Ok(Vec::new()) };
        self.view(|read| {
            // The directories that are on the way now: what is deleted beside them comes back into these.
            let mut living = vec![InodeNo::ROOT];
            let mut places = vec![Place { dir: InodeNo::ROOT, above: Vec::new() }];
            for (depth, name) in above.iter().enumerate() {
                if living.len() == depth + 1
                    && let Some(entry) = Entry::load(read, living[depth], name)?
                    && entry.kind == Kind::Directory
                {
                    living.push(entry.ino);
                }
                places = beneath(read, places, name, depth)?;
            }
            let mut found = Vec::new();
            for place in places {
                for (kept, attr) in deleted_of(read, place.dir, last)? {
                    let above = missing(&place, &living);
                    let there = living.last().copied().unwrap_or(InodeNo::ROOT);
                    let into = above.last().map_or(there, |above| above.ino);
                    found.push(Trashed { kept, attr, above, into });
                }
            }
            found.sort_by_key(|found| std::cmp::Reverse((found.kept.deleted, found.kept.ino)));
            Ok(found)
        })
    }

    /// Gives deleted inodes their names back, or others, all or none; answers their attributes. A directory among them may hold
    /// those after it. Owners, modes, attributes and times stay, but for the time of the inode's change.
    ///
    /// [`MetaError::NotFound`] if one is not kept (any more) or its directory is gone, [`MetaError::Exists`] if a name is taken.
    pub fn revive(&self, revivals: &[Revival]) -> Result<Vec<Attr>> {
        self.update(|tx| revivals.iter().map(|revival| revive(tx, revival)).collect())
    }
}

/// Of so many records, and the last name if they were as many as were asked for.
pub type Page = (Vec<(Kept, Attr)>, Option<Vec<u8>>);

/// Those of the first `limit` records in a range of keys. What does not agree with its orphan record is left to fsck.
fn trashed_between(read: &dyn Read, start: &[u8], end: &[u8], limit: usize) -> Result<Page> {
    let mut inodes = Vec::new();
    let mut last = None;
    read.scan(start, end, &mut |key, _| {
        if let Some(Key::Trashed(_, name, ino)) = Key::parse(key) {
            inodes.push(ino);
            if inodes.len() >= limit {
                last = Some(name.to_vec());
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    })?;
    Ok((those(read, inodes)?, last))
}

/// What was deleted under a name: of very many those with the highest numbers, which are the youngest.
fn deleted_of(read: &dyn Read, dir: InodeNo, name: &[u8]) -> Result<Vec<(Kept, Attr)>> {
    let range = key::trashed_as(dir, name);
    let mut inodes = Vec::new();
    read.scan_reverse(&range.start, &range.end, &mut |key, _| {
        if let Some(Key::Trashed(_, _, ino)) = Key::parse(key) {
            inodes.push(ino);
        }
        if inodes.len() < VERSIONS { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    those(read, inodes)
}

fn those(read: &dyn Read, inodes: Vec<InodeNo>) -> Result<Vec<(Kept, Attr)>> {
    let mut found = Vec::with_capacity(inodes.len());
    for ino in inodes {
        if let Ok(Some(record)) = KeptRecord::load(read, ino)
            && let Some(inode) = Inode::load(read, ino)?
        {
            found.push((record.kept(ino), inode.attr(ino)));
        }
    }
    Ok(found)
}

/// The directories of a name in any of `places`, which are so many names deep: those that have it and those that had it.
fn beneath(read: &dyn Read, places: Vec<Place>, name: &[u8], depth: usize) -> Result<Vec<Place>> {
    let mut next = Vec::new();
    for place in places {
        if place.above.is_empty()
            && let Some(entry) = Entry::load(read, place.dir, name)?
            && entry.kind == Kind::Directory
        {
            next.push((Time::now(), Place { dir: entry.ino, above: Vec::new() }));
        }
        for (kept, attr) in deleted_of(read, place.dir, name)? {
            if attr.kind != Kind::Directory {
                continue;
            }
            let mut above = place.above.clone();
            above.push((depth + 1, Revival { ino: kept.ino, parent: place.dir, name: kept.name }));
            next.push((kept.deleted, Place { dir: kept.ino, above }));
        }
    }
    next.sort_by_key(|(deleted, _)| std::cmp::Reverse(*deleted));
    next.truncate(VERSIONS);
    Ok(next.into_iter().map(|(_, place)| place).collect())
}

/// The deleted directories above a place in whose stead there is no other now.
fn missing(place: &Place, living: &[InodeNo]) -> Vec<Revival> {
    let mut above = Vec::new();
    for (depth, revival) in &place.above {
        match living.get(*depth) {
            Some(_) => above.clear(),
            None => above.push(revival.clone()),
        }
    }
    if let (Some(first), Some(last)) = (above.first_mut(), living.last()) {
        first.parent = *last;
    }
    above
}

fn revive(tx: &mut Tx<'_>, revival: &Revival) -> Result<Attr> {
    let Revival { ino, parent, name } = revival;
    crate::namespace::name::check_new(name)?;
    let record = KeptRecord::load(tx.read(), *ino)?.ok_or(MetaError::NotFound)?;
    tx.directory(*parent)?;
    if tx.entry(*parent, name)?.is_some() {
        return Err(MetaError::Exists);
    }
    let now = tx.now;
    let inode = tx.inode(*ino)?;
    if inode.nlink > 0 || inode.home != NOWHERE {
        return Err(MetaError::Corrupt(format!("inode {ino} is recorded as deleted but has a name")));
    }
    inode.nlink = if inode.is_dir() { 2 } else { 1 };
    inode.home = *parent;
    inode.ctime = now;
    inode.flags.set(Flags::LINKABLE, false);
    let kind = inode.kind;
    tx.delete(&key::orphan(*ino));
    tx.delete(&key::trashed(record.parent, &record.name, *ino));
    if kind == Kind::Directory {
        tx.gain_subdirectory(*parent)?;
    }
    tx.append_entry(*parent, name, *ino, kind)?;
    tx.touch(*parent)?;
    Ok(tx.inode(*ino)?.attr(*ino))
}
