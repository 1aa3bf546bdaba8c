//! From names to inodes.

use headrace_kv::Read;
use headrace_layout::InodeNo;

use super::{Namespace, name};
use crate::record::{Entry, Inode, NOWHERE};
use crate::{Attr, Kind, MetaError, Result, Time};

impl Namespace {
    /// The attributes of what `name` stands for in `parent`; "." and ".." too.
    pub fn lookup(&self, parent: InodeNo, name: &[u8]) -> Result<Attr> {
        name::check(name)?;
        self.view(|read| {
            if name == b"." {
                return directory(read, parent).map(|inode| inode.attr(parent));
            }
            let ino = if name == b".." {
                parent_of(read, parent)?
            } else {
                match Entry::load(read, parent, name)? {
                    Some(entry) => entry.ino,
                    None => return directory(read, parent).and(Err(MetaError::NotFound)),
                }
            };
            let inode = Inode::load(read, ino)?;
            inode.map(|inode| inode.attr(ino)).ok_or_else(|| {
                MetaError::Corrupt(format!(
                    "a name in directory {parent} stands for inode {ino}, which is missing"
                ))
            })
        })
    }

    /// The attributes of an inode.
    pub fn getattr(&self, ino: InodeNo) -> Result<Attr> {
        self.view(|read| Ok(Inode::require(read, ino)?.attr(ino)))
    }

    /// The directory that a directory is in; the root is in itself. [`MetaError::NotFound`] for a removed one.
    pub fn parent(&self, dir: InodeNo) -> Result<InodeNo> {
        self.view(|read| parent_of(read, dir))
    }

    /// The target of a symbolic link.
    pub fn readlink(&self, ino: InodeNo) -> Result<Vec<u8>> {
        self.view(|read| {
            let inode = Inode::require(read, ino)?;
            if inode.kind != Kind::Symlink {
                return Err(MetaError::Invalid("not a symbolic link"));
            }
            Ok(inode.target)
        })
    }

    /// Sets the access time alone. Nothing happens if the inode is gone, or if `wanted` says that it is not wanted any more:
    /// that is asked within the transaction, perhaps several times, after the inode was looked at.
    pub fn touch_atime(&self, ino: InodeNo, time: Time, wanted: impl Fn() -> bool) -> Result<()> {
        time.check()?;
        self.update(|tx| {
            if let Some(inode) = tx.find_inode(ino)?
                && wanted()
            {
                inode.atime = time;
            }
            Ok(())
        })
    }
}

/// The inode of a directory.
pub(super) fn directory(read: &dyn Read, dir: InodeNo) -> Result<Inode> {
    let inode = Inode::require(read, dir)?;
    if inode.is_dir() { Ok(inode) } else { Err(MetaError::NotDirectory) }
}

fn parent_of(read: &dyn Read, dir: InodeNo) -> Result<InodeNo> {
    match directory(read, dir)?.home {
        NOWHERE => Err(MetaError::NotFound),
        parent => Ok(parent),
    }
}
