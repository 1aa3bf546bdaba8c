//! Sharing data between files.

use std::collections::HashMap;

use headrace_layout::{ExtentData, InodeNo};

use super::editor::{Editor, pieces_in};
use super::{check_file, chunks, range_end};
use crate::namespace::Namespace;
use crate::record::{InlineRecord, Inode};
use crate::transaction::Tx;
use crate::{MetaError, Result, key};

/// Bytes of inline values after which a transaction copies no further one.
const MAX_COPIED: usize = 8 << 20;

impl Namespace {
    /// Makes a range of `dst` show the same bytes as one of `src`, holes too, up to the end of `src`; answers how many bytes.
    /// Segments are shared, inline values copied. A long range takes several transactions. Ranges of one file must not
    /// overlap.
    pub fn clone_range(
        &self,
        src: InodeNo,
        src_off: u64,
        dst: InodeNo,
        dst_off: u64,
        len: u64,
    ) -> Result<u64> {
        // Decided once: with both in one file, growing the target must not make the source longer.
        let total = self.view(|read| {
            let inode = Inode::require(read, src)?;
            check_file(&inode)?;
            check_file(&Inode::require(read, dst)?)?;
            Ok(len.min(inode.size.saturating_sub(src_off)))
        })?;
        range_end(dst_off, total)?;
        if src == dst && src_off.abs_diff(dst_off) < total {
            return Err(MetaError::Invalid("the ranges overlap"));
        }
        let mut done = 0;
        while done < total {
            let (from, to) = (src_off + done, dst_off + done);
            let step = self.update_file(dst, |tx| {
                let left = (total - done).min(tx.inode(src)?.size.saturating_sub(from));
                clone_step(tx, (src, from), (dst, to), left)
            })?;
            if step == 0 {
                break;
            }
            done += step;
        }
        Ok(done)
    }
}

fn clone_step(
    tx: &mut Tx<'_>,
    (src, from): (InodeNo, u64),
    (dst, to): (InodeNo, u64),
    left: u64,
) -> Result<u64> {
    if left == 0 {
        return Ok(0);
    }
    let step = chunks::step_end(tx.read(), src, from, from + left)? - from;
    let mut step = chunks::step_end(tx.read(), dst, to, to + step)? - to;
    let mut pieces = pieces_in(tx, src, from, from + step)?;
    let mut copies = HashMap::new();
    let mut copied = 0;
    for index in 0..pieces.len() {
        let piece = &mut pieces[index];
        piece.offset = piece.offset - from + to;
        let ExtentData::Inline { id, skip } = &mut piece.data else { continue };
        if let Some(copy) = copies.get(id) {
            *id = *copy;
            continue;
        }
        if copied > MAX_COPIED {
            step = piece.offset - to;
            pieces.truncate(index);
            break;
        }
        let start = piece.offset.saturating_sub(u64::from(*skip));
        let (copy, bytes) = copy_inline(tx, src, *id, dst, start)?;
        copied += bytes;
        copies.insert(*id, copy);
        *id = copy;
    }
    let now = tx.now;
    let inode = tx.inode(dst)?;
    inode.size = inode.size.max(to + step);
    inode.modified(now);
    let mut editor = Editor::new(tx, dst);
    editor.clear(to, to + step)?;
    for piece in pieces {
        editor.put(piece.offset, piece.len, &piece.data)?;
    }
    editor.finish()?;
    Ok(step)
}

/// Answers the copy's id and its stored length.
fn copy_inline(tx: &mut Tx<'_>, src: InodeNo, id: u64, dst: InodeNo, offset: u64) -> Result<(u64, usize)> {
    let missing = || MetaError::Corrupt(format!("inline value {id} of inode {src} is missing"));
    let record = InlineRecord::load(tx.read(), id)?.ok_or_else(missing)?;
    let sealed = tx.read().get(&key::inline(src, id))?.ok_or_else(missing)?.into_owned();
    Ok((tx.add_inline(dst, offset, record.len, &sealed)?, sealed.len()))
}
