//! Taking a range out of a file, or putting a hole into it, so that what follows moves.

use std::ops::ControlFlow;

use headrace_layout::InodeNo;

use super::editor::{Editor, pieces_in};
use super::{chunks, range_end};
use crate::namespace::Namespace;
use crate::transaction::Tx;
use crate::{Attr, MAX_FILE_SIZE, MetaError, Result, SHIFT_ALIGNMENT};

/// Most bytes of stored extents that may have to move, all in one transaction (half of what an engine takes).
const MAX_MOVED: usize = 32 << 20;

impl Namespace {
    /// Takes a range out. Offset and length are multiples of [`SHIFT_ALIGNMENT`]; the range ends before the file does.
    pub fn collapse(&self, ino: InodeNo, offset: u64, len: u64) -> Result<Attr> {
        check_alignment(offset, len)?;
        let end = range_end(offset, len)?;
        self.update_file(ino, |tx| {
            let size = tx.inode(ino)?.size;
            if end >= size {
                return Err(MetaError::Invalid("the range to take out reaches the end of the file"));
            }
            shift(tx, ino, offset, end, offset, size - len)
        })
    }

    /// Puts a hole in. Offset and length are multiples of [`SHIFT_ALIGNMENT`]; the offset is within the file.
    pub fn insert(&self, ino: InodeNo, offset: u64, len: u64) -> Result<Attr> {
        check_alignment(offset, len)?;
        let end = range_end(offset, len)?;
        self.update_file(ino, |tx| {
            let size = tx.inode(ino)?.size;
            if offset >= size {
                return Err(MetaError::Invalid("the place for the hole is past the end of the file"));
            }
            let new_size = range_end(size, len)?;
            shift(tx, ino, offset, offset, end, new_size)
        })
    }
}

fn check_alignment(offset: u64, len: u64) -> Result<()> {
    if len == 0 || !offset.is_multiple_of(SHIFT_ALIGNMENT) || !len.is_multiple_of(SHIFT_ALIGNMENT) {
        return Err(MetaError::Invalid("offset and length must be multiples of 4096, and the length not 0"));
    }
    Ok(())
}

/// Clears everything from `start` on and puts what was behind `from` to `to`.
fn shift(tx: &mut Tx<'_>, ino: InodeNo, start: u64, from: u64, to: u64, new_size: u64) -> Result<Attr> {
    let mut bytes = 0;
    chunks::scan(tx.read(), ino, (start, MAX_FILE_SIZE), &mut |_, value| {
        bytes += value.len();
        if bytes > MAX_MOVED { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    if bytes > MAX_MOVED {
        return Err(MetaError::FileTooBig);
    }
    let pieces = pieces_in(tx, ino, from, MAX_FILE_SIZE)?;
    let mut editor = Editor::new(tx, ino);
    editor.clear(start, MAX_FILE_SIZE)?;
    for piece in pieces {
        editor.put(piece.offset - from + to, piece.len, &piece.data)?;
    }
    editor.finish()?;
    let now = tx.now;
    let inode = tx.inode(ino)?;
    inode.size = new_size;
    inode.modified(now);
    Ok(inode.attr(ino))
}
