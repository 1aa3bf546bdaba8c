//! Changing a file's length.
//!
//! A file that shrinks gets its new length in the first transaction, which also cuts the chunk that the new end is in.
//! Chunks past it that are too many for one transaction follow in further ones; meanwhile the file is marked unsettled.
//! Reading stops at the length; whatever writes or grows the file settles it first. So a crash in between shows nothing
//! of the old data, and [`Namespace::orphans`] lists the file so that the rest is let go of.

use headrace_layout::InodeNo;

use super::editor::Editor;
use super::{chunks, range_end};
use crate::namespace::{Namespace, drop_capability};
use crate::record::Flags;
use crate::{Attr, MetaError, Result, key};

impl Namespace {
    /// Sets the length of a file. Growing leaves a hole.
    pub fn truncate(&self, ino: InodeNo, size: u64, kill_suid: bool) -> Result<Attr> {
        range_end(size, 0)?;
        let (attr, finished) = self.update_file(ino, |tx| {
            let now = tx.now;
            let inode = tx.inode(ino)?;
            let shrinks = size < inode.size;
            inode.size = size;
            inode.modified(now);
            if kill_suid {
                inode.kill_suid();
            }
            drop_capability(tx, ino)?;
            let mut finished = true;
            if shrinks {
                let boundary = size.next_multiple_of(headrace_layout::CHUNK_SIZE);
                let mut editor = Editor::new(tx, ino);
                editor.clear(size, boundary)?;
                editor.finish()?;
                finished = chunks::drop_from(tx, ino, boundary)?;
            }
            if !finished {
                tx.inode(ino)?.flags.set(Flags::UNSETTLED, true);
                tx.put(&key::unsettled(ino), &[]);
            }
            Ok((tx.inode(ino)?.attr(ino), finished))
        })?;
        if finished {
            return Ok(attr);
        }
        self.settle(ino)?;
        self.getattr(ino)
    }

    /// Drops whatever an unsettled file has past its end.
    pub(super) fn settle(&self, ino: InodeNo) -> Result<()> {
        let step = || {
            self.update(|tx| match tx.find_inode(ino)? {
                Some(inode) if inode.flags.has(Flags::UNSETTLED) => chunks::settle_step(tx, ino),
                _ => Ok(true),
            })
        };
        while !step()? {}
        Ok(())
    }

    /// Promises room for a range. Nothing has to be reserved in an object store; only the length may grow.
    pub fn allocate(&self, ino: InodeNo, offset: u64, len: u64, keep_size: bool) -> Result<Attr> {
        if len == 0 {
            return Err(MetaError::Invalid("an empty range"));
        }
        let end = range_end(offset, len)?;
        self.update_file(ino, |tx| {
            let now = tx.now;
            let inode = tx.inode(ino)?;
            if !keep_size && end > inode.size {
                inode.size = end;
                inode.mtime = now;
            }
            inode.ctime = now;
            Ok(inode.attr(ino))
        })
    }
}
