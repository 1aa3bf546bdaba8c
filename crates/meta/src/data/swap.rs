//! Moving data without changing it: what the packer and the compaction do.

use headrace_layout::{ExtentData, InodeNo, SegmentId};

use super::commit::check_slice;
use super::editor::{Editor, Piece};
use super::{Swap, range_end};
use crate::namespace::Namespace;
use crate::{MetaError, Result};

impl Namespace {
    /// Points ranges at a copy of their bytes, in one transaction, wherever they still hold what was copied; what was
    /// overwritten, cut off or moved meanwhile stays as it is. Times do not change. Answers how many of `swaps` took effect
    /// at least in part. The segments become known in any case.
    pub fn swap_extents(
        &self,
        ino: InodeNo,
        swaps: &[Swap],
        new_segments: &[(SegmentId, u64)],
    ) -> Result<usize> {
        for swap in swaps {
            if swap.len == 0 {
                return Err(MetaError::Invalid("a range to swap is empty"));
            }
            range_end(swap.offset, u64::from(swap.len))?;
            check_slice(&swap.new, swap.len)?;
        }
        self.update(|tx| {
            tx.register_segments(new_segments);
            let mut editor = Editor::new(tx, ino);
            let mut applied = 0;
            for swap in swaps {
                applied += usize::from(apply(&mut editor, swap)?);
            }
            editor.finish()?;
            Ok(applied)
        })
    }
}

fn apply(editor: &mut Editor<'_, '_>, swap: &Swap) -> Result<bool> {
    let new = ExtentData::Segment(swap.new.clone());
    let mut any = false;
    for Piece { offset, len, data } in editor.pieces(swap.offset, u64::from(swap.len))? {
        let by = (offset - swap.offset) as u32;
        if same_place(&data, &swap.expect.advanced(by)) {
            editor.put(offset, len, &new.advanced(by))?;
            any = true;
        }
    }
    Ok(any)
}

fn same_place(a: &ExtentData, b: &ExtentData) -> bool {
    match (a, b) {
        (ExtentData::Segment(a), ExtentData::Segment(b)) => {
            (a.segment, a.run_offset, a.skip) == (b.segment, b.run_offset, b.skip)
        }
        (ExtentData::Inline { id: a, skip: x }, ExtentData::Inline { id: b, skip: y }) => (a, x) == (b, y),
        _ => false,
    }
}
