//! Inodes without a name, and other unfinished work.

use std::ops::ControlFlow;

use headrace_layout::InodeNo;

use crate::data::chunks;
use crate::key::Key;
use crate::namespace::{Namespace, drop_xattrs};
use crate::record::Flags;
use crate::{Result, key};

impl Namespace {
    /// Inodes with unfinished work that [`Namespace::reclaim`] finishes: those without a name, which open files may still
    /// use, and files whose shortening was interrupted.
    pub fn orphans(&self) -> Result<Vec<InodeNo>> {
        self.view(|read| {
            let mut inodes = Vec::new();
            for tag in [key::ORPHAN, key::UNSETTLED] {
                let range = key::all(tag);
                read.scan(&range.start, &range.end, &mut |key, _| {
                    if let Some(Key::Orphan(ino) | Key::Unsettled(ino)) = Key::parse(key) {
                        inodes.push(ino);
                    }
                    ControlFlow::Continue(())
                })?;
            }
            inodes.sort_unstable();
            inodes.dedup();
            Ok(inodes)
        })
    }

    /// Deletes an inode without a name and all it holds, a huge one in several transactions. One that has a name (again)
    /// keeps everything; an interrupted shortening is finished.
    pub fn reclaim(&self, ino: InodeNo) -> Result<()> {
        loop {
            let finished = self.update(|tx| {
                let Some(inode) = tx.find_inode(ino)? else {
                    tx.delete(&key::orphan(ino));
                    tx.delete(&key::unsettled(ino));
                    return Ok(true);
                };
                if inode.nlink > 0 {
                    return Ok(!inode.flags.has(Flags::UNSETTLED) || chunks::settle_step(tx, ino)?);
                }
                if !chunks::drop_from(tx, ino, 0)? {
                    return Ok(false);
                }
                drop_xattrs(tx, ino)?;
                tx.delete(&key::orphan(ino));
                tx.delete(&key::unsettled(ino));
                tx.delete(&key::usage(ino));
                tx.remove_inode(ino)?;
                Ok(true)
            })?;
            if finished {
                return Ok(());
            }
        }
    }
}
