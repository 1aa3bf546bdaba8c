//! Making holes.

use headrace_layout::InodeNo;

use super::editor::Editor;
use super::{chunks, range_end};
use crate::namespace::Namespace;
use crate::{Attr, MAX_FILE_SIZE, MetaError, Result};

impl Namespace {
    /// Makes a range a hole; the length stays.
    pub fn punch(&self, ino: InodeNo, offset: u64, len: u64) -> Result<Attr> {
        // As in Linux a hole may begin and end wherever it likes; what is past the end of the file is not there.
        let end = offset.saturating_add(len).min(MAX_FILE_SIZE);
        self.hole(ino, offset, len, end, 0)
    }

    /// Makes a range read as zeros, past the end of the file too unless `keep_size`.
    pub fn zero_range(&self, ino: InodeNo, offset: u64, len: u64, keep_size: bool) -> Result<Attr> {
        let end = range_end(offset, len)?;
        self.hole(ino, offset, len, end, if keep_size { 0 } else { end })
    }

    fn hole(&self, ino: InodeNo, offset: u64, len: u64, end: u64, grow_to: u64) -> Result<Attr> {
        if len == 0 {
            return Err(MetaError::Invalid("an empty range"));
        }
        let mut at = offset;
        loop {
            let (attr, reached) = self.update_file(ino, |tx| {
                let now = tx.now;
                let inode = tx.inode(ino)?;
                inode.size = inode.size.max(grow_to);
                inode.modified(now);
                let step = chunks::step_end(tx.read(), ino, at, end)?;
                let mut editor = Editor::new(tx, ino);
                editor.clear(at, step)?;
                editor.finish()?;
                Ok((tx.inode(ino)?.attr(ino), step))
            })?;
            if reached >= end {
                return Ok(attr);
            }
            at = reached;
        }
    }
}
