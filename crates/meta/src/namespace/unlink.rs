//! Removing names.

use std::ops::ControlFlow;

use headrace_kv::Read;
use headrace_layout::InodeNo;

use super::{Namespace, link, name};
use crate::{Kind, MetaError, Result, Unlinked, key};

impl Namespace {
    /// Removes a name of anything but a directory. With the last one the inode becomes an orphan, which open files may
    /// still use, until [`Namespace::reclaim`].
    pub fn unlink(&self, parent: InodeNo, name: &[u8]) -> Result<Unlinked> {
        name::check(name)?;
        if name::is_dots(name) {
            return Err(MetaError::IsDirectory);
        }
        let keep = self.keep();
        self.update(|tx| {
            tx.directory(parent)?;
            let entry = tx.require_entry(parent, name)?;
            if entry.kind == Kind::Directory {
                return Err(MetaError::IsDirectory);
            }
            let unlinked = link::detach(tx, parent, name, &entry, keep)?;
            tx.delete_entry(parent, name, &entry);
            tx.touch(parent)?;
            Ok(unlinked)
        })
    }

    /// Removes an empty directory; an orphan until [`Namespace::reclaim`].
    pub fn rmdir(&self, parent: InodeNo, name: &[u8]) -> Result<Unlinked> {
        name::check(name)?;
        match name {
            b"." => return Err(MetaError::Invalid("a directory cannot be removed as \".\"")),
            b".." => return Err(MetaError::NotEmpty),
            _ => {}
        }
        let keep = self.keep();
        self.update(|tx| {
            tx.directory(parent)?;
            let entry = tx.require_entry(parent, name)?;
            if entry.kind != Kind::Directory {
                return Err(MetaError::NotDirectory);
            }
            if !is_empty(tx.read(), entry.ino)? {
                return Err(MetaError::NotEmpty);
            }
            let unlinked = link::detach(tx, parent, name, &entry, keep)?;
            tx.delete_entry(parent, name, &entry);
            tx.touch(parent)?;
            Ok(unlinked)
        })
    }
}

/// Whether a directory has no names.
pub(super) fn is_empty(read: &dyn Read, dir: InodeNo) -> Result<bool> {
    let range = key::all_of(key::POSITION, dir);
    let mut empty = true;
    read.scan(&range.start, &range.end, &mut |_, _| {
        empty = false;
        ControlFlow::Break(())
    })?;
    Ok(empty)
}
