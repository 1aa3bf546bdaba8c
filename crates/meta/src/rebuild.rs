//! Building a namespace anew from what segments tell: inodes with given numbers, under given names.

use headrace_layout::{DirectoryRecord, FileRecord, InodeNo};

use crate::namespace::{Namespace, name};
use crate::record::Inode;
use crate::transaction::Tx;
use crate::{Kind, MetaError, Result, Time};

impl Namespace {
    /// Gives the root the owner and permissions it had.
    pub fn rebuild_root(&self, record: &DirectoryRecord) -> Result<()> {
        self.update(|tx| {
            let root = tx.inode(InodeNo::ROOT)?;
            (root.mode, root.uid, root.gid) = (record.mode & 0o7777, record.uid, record.gid);
            Ok(())
        })
    }

    /// Makes sure that numbers up to `last` are not given to new inodes.
    pub fn rebuild_reserve(&self, last: InodeNo) -> Result<()> {
        self.update(|tx| {
            let counters = tx.counters()?;
            counters.next_ino = counters.next_ino.max(last.0.saturating_add(1));
            Ok(())
        })
    }

    /// Creates a directory with its old number. One that is there already is left alone. [`MetaError::Exists`] if the
    /// name is taken by another inode, or the number by something else.
    pub fn rebuild_directory(&self, record: &DirectoryRecord) -> Result<()> {
        self.update(|tx| {
            let inode = Inode {
                uid: record.uid,
                gid: record.gid,
                ..Inode::empty(Kind::Directory, record.mode & 0o7777, tx.now)
            };
            if add(tx, record.ino, record.parent, &record.name, inode)? {
                tx.gain_subdirectory(record.parent)?;
            }
            Ok(())
        })
    }

    /// Creates a file with its old number, and no data yet. The same rules.
    pub fn rebuild_file(&self, record: &FileRecord) -> Result<()> {
        self.update(|tx| {
            let mtime = Time { secs: record.mtime_secs, nanos: record.mtime_nanos };
            let inode = Inode {
                uid: record.uid,
                gid: record.gid,
                mtime,
                ..Inode::empty(Kind::File, record.mode & 0o7777, tx.now)
            };
            add(tx, record.ino, record.parent, &record.name, inode)?;
            Ok(())
        })
    }
}

/// Adds an inode under its old number and name; `false` if it is there already.
fn add(tx: &mut Tx<'_>, ino: InodeNo, parent: InodeNo, name: &[u8], inode: Inode) -> Result<bool> {
    name::check_new(name)?;
    if ino.0 == 0 || ino == InodeNo::ROOT || ino.0 == u64::MAX {
        return Err(MetaError::Invalid("not a number that a file can have"));
    }
    let kind = inode.kind;
    if let Some(there) = tx.find_inode(ino)? {
        return if there.kind == kind { Ok(false) } else { Err(MetaError::Exists) };
    }
    tx.directory(parent)?;
    if tx.entry(parent, name)?.is_some() {
        return Err(MetaError::Exists);
    }
    tx.add_inode_as(ino, Inode { home: parent, ..inode })?;
    tx.append_entry(parent, name, ino, kind)?;
    Ok(true)
}
