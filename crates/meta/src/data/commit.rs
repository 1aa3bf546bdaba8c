//! Writing.

use headrace_layout::{ExtentData, InodeNo, SegmentSlice};

use super::editor::Editor;
use super::{DataCommit, NewData, NewExtent, range_end};
use crate::namespace::{Namespace, drop_capability};
use crate::{Attr, MetaError, Result};

/// Longest inline value, sealed, bytes: data of up to 64 KiB with whatever sealing adds.
const MAX_SEALED: usize = 128 << 10;

impl Namespace {
    /// Makes uploaded or inline data part of a file, in one transaction. Displaced data is let go of. A write takes
    /// `security.capability` away.
    pub fn commit_write(&self, ino: InodeNo, commit: &DataCommit) -> Result<Attr> {
        self.commit_write_counting(ino, commit).map(|(attr, _)| attr)
    }

    /// The same; says as well which chunks were changed, and how many extents each has now.
    pub fn commit_write_counting(
        &self,
        ino: InodeNo,
        commit: &DataCommit,
    ) -> Result<(Attr, Vec<(u32, usize)>)> {
        for piece in &commit.pieces {
            check_piece(piece)?;
        }
        if let Some(size) = commit.new_size {
            range_end(size, 0)?;
        }
        if let Some(mtime) = commit.mtime {
            mtime.check()?;
        }
        self.update_file(ino, |tx| {
            tx.register_segments(&commit.new_segments);
            let inode = tx.inode(ino)?;
            inode.size = inode.size.max(commit.new_size.unwrap_or(0));
            if let Some(mtime) = commit.mtime {
                inode.mtime = mtime;
                inode.ctime = inode.ctime.max(mtime);
            }
            if commit.kill_suid {
                inode.kill_suid();
            }
            let size = inode.size;
            if commit.kill_suid {
                drop_capability(tx, ino)?;
            }
            let mut editor = Editor::new(tx, ino);
            for piece in &commit.pieces {
                let left = size.saturating_sub(piece.offset);
                let len = u32::try_from(left).map_or(piece.len, |left| left.min(piece.len));
                if len == 0 {
                    continue;
                }
                let data = match &piece.data {
                    NewData::Segment(slice) => ExtentData::Segment(slice.clone()),
                    NewData::Inline(sealed) => {
                        let id = editor.tx.add_inline(ino, piece.offset, piece.len, sealed)?;
                        ExtentData::Inline { id, skip: 0 }
                    }
                };
                editor.put(piece.offset, len, &data)?;
            }
            let changed = editor.finish()?;
            Ok((tx.inode(ino)?.attr(ino), changed))
        })
    }
}

fn check_piece(piece: &NewExtent) -> Result<()> {
    if piece.len == 0 {
        return Err(MetaError::Invalid("a piece of data is empty"));
    }
    range_end(piece.offset, u64::from(piece.len))?;
    match &piece.data {
        NewData::Segment(slice) => check_slice(slice, piece.len),
        NewData::Inline(sealed) if sealed.len() > MAX_SEALED => {
            Err(MetaError::Invalid("a piece of data is too long to be kept inline"))
        }
        NewData::Inline(_) => Ok(()),
    }
}

/// Refuses a slice that does not hold `len` bytes or cannot be in a segment, which has 32-bit offsets.
pub(super) fn check_slice(slice: &SegmentSlice, len: u32) -> Result<()> {
    let stored: u64 = match &slice.frames {
        Some(frames) => frames.iter().map(|&frame| u64::from(frame)).sum(),
        None => u64::from(slice.run_len),
    };
    if u64::from(slice.skip) + u64::from(len) > u64::from(slice.run_len)
        || u64::from(slice.run_offset) + stored > u64::from(u32::MAX)
    {
        return Err(MetaError::Invalid("a piece of data passes the end of its run or its segment"));
    }
    Ok(())
}
