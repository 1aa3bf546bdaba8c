//! Further names of an inode, and names that move or go.
//!
//! A file's home name is the one that has no link record: it is in the inode's home directory, which counts the file in
//! its totals. All others have a record each. So the usual file, with one name, has none.

use std::ops::ControlFlow;
use std::time::Duration;

use headrace_layout::InodeNo;

use super::{Namespace, name};
use crate::key::Key;
use crate::record::{Entry, Flags, NOWHERE};
use crate::transaction::Tx;
use crate::{Attr, Kind, MAX_LINKS, MetaError, Result, Unlinked, key, trash};

impl Namespace {
    /// Gives an inode another name. Directories cannot have one; a file without any only if it was created so.
    pub fn link(&self, ino: InodeNo, parent: InodeNo, name: &[u8]) -> Result<Attr> {
        name::check_new(name)?;
        self.update(|tx| {
            tx.directory(parent)?;
            if tx.entry(parent, name)?.is_some() {
                return Err(MetaError::Exists);
            }
            let now = tx.now;
            let inode = tx.inode(ino)?;
            if inode.is_dir() {
                return Err(MetaError::NotPermitted("a directory has one name only"));
            }
            if inode.nlink >= MAX_LINKS {
                return Err(MetaError::TooManyLinks);
            }
            let revived = inode.nlink == 0;
            if revived {
                if !inode.flags.has(Flags::LINKABLE) {
                    return Err(MetaError::NotFound);
                }
                inode.flags.set(Flags::LINKABLE, false);
                inode.home = parent;
            }
            inode.nlink += 1;
            inode.ctime = now;
            let (kind, attr) = (inode.kind, inode.attr(ino));
            if revived {
                tx.delete(&key::orphan(ino));
            } else {
                tx.put(&key::link(ino, parent, name), &[]);
            }
            tx.append_entry(parent, name, ino, kind)?;
            tx.touch(parent)?;
            Ok(attr)
        })
    }
}

/// Takes a name away from its inode; the entry itself is the caller's. The last name gone, the inode is an orphan, which is kept for
/// as long as `keep` says.
pub(super) fn detach(
    tx: &mut Tx<'_>,
    parent: InodeNo,
    name: &[u8],
    entry: &Entry,
    keep: Option<Duration>,
) -> Result<Unlinked> {
    let now = tx.now;
    let ino = entry.ino;
    let inode = tx.inode(ino)?;
    inode.ctime = now;
    if inode.is_dir() {
        inode.nlink = 0;
        tx.lose_subdirectory(parent)?;
    } else {
        inode.nlink = inode
            .nlink
            .checked_sub(1)
            .ok_or_else(|| MetaError::Corrupt(format!("inode {ino} has a name but counts none")))?;
        if inode.nlink > 0 {
            drop_link(tx, ino, parent, name)?;
        }
    }
    let inode = tx.inode(ino)?;
    let mut unlinked = Unlinked { ino, nlink: inode.nlink, kind: inode.kind, kept: None };
    if inode.nlink == 0 {
        inode.home = NOWHERE;
        let allocated = inode.allocated;
        match keep.filter(|_| matches!(unlinked.kind, Kind::File | Kind::Directory | Kind::Symlink)) {
            Some(time) => {
                trash::keep(tx, ino, parent, name, now.after(time));
                unlinked.kept = Some(allocated);
            }
            None => tx.put(&key::orphan(ino), &[]),
        }
    }
    Ok(unlinked)
}

/// Removes the record of a name; if it was the home name, another becomes that.
fn drop_link(tx: &mut Tx<'_>, ino: InodeNo, parent: InodeNo, name: &[u8]) -> Result<()> {
    let record = key::link(ino, parent, name);
    if tx.read().get(&record)?.is_some() {
        tx.delete(&record);
        return Ok(());
    }
    let range = key::all_of(key::LINK, ino);
    let mut first = None;
    tx.read().scan(&range.start, &range.end, &mut |key, _| {
        first = Some(key.to_vec());
        ControlFlow::Break(())
    })?;
    match first.as_deref().map(|key| (key, Key::parse(key))) {
        Some((key, Some(Key::Link(_, home, _)))) => {
            tx.delete(key);
            tx.inode(ino)?.home = home;
            Ok(())
        }
        _ => Err(MetaError::Corrupt(format!("inode {ino} counts more names than are recorded"))),
    }
}

/// A name of an inode moves from one place to another; the entries themselves are the caller's.
pub(super) fn relocate(
    tx: &mut Tx<'_>,
    entry: &Entry,
    (parent, name): (InodeNo, &[u8]),
    (new_parent, new_name): (InodeNo, &[u8]),
) -> Result<()> {
    let now = tx.now;
    let inode = tx.inode(entry.ino)?;
    inode.ctime = now;
    if entry.kind == Kind::Directory {
        inode.home = new_parent;
        if parent != new_parent {
            tx.gain_subdirectory(new_parent)?;
            tx.lose_subdirectory(parent)?;
        }
        return Ok(());
    }
    if inode.nlink > 1 {
        let record = key::link(entry.ino, parent, name);
        if tx.read().get(&record)?.is_some() {
            tx.delete(&record);
            tx.put(&key::link(entry.ino, new_parent, new_name), &[]);
            return Ok(());
        }
    }
    tx.inode(entry.ino)?.home = new_parent;
    Ok(())
}
