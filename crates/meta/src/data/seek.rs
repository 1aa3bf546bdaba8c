//! Finding data and holes.

use std::ops::ControlFlow;

use headrace_layout::{CHUNK_SIZE, ExtentMap, InodeNo};

use super::{check_file, chunks};
use crate::namespace::Namespace;
use crate::record::Inode;
use crate::{MetaError, Result};

impl Namespace {
    /// The first offset from `offset` on that is in a hole (the end of the file counts as one) or, with `hole` false, in
    /// data. [`MetaError::NoSuchOffset`] at or past the end, or if only a hole follows.
    pub fn seek(&self, ino: InodeNo, offset: u64, hole: bool) -> Result<u64> {
        self.view(|read| {
            let inode = Inode::require(read, ino)?;
            check_file(&inode)?;
            if offset >= inode.size {
                return Err(MetaError::NoSuchOffset);
            }
            // Where data ends that began at or before the place in question.
            let mut at = offset;
            let mut found = None;
            let mut outcome = Ok(());
            chunks::scan(read, ino, (offset, inode.size), &mut |index, value| {
                let map = match ExtentMap::decode(value) {
                    Ok(map) => map,
                    Err(error) => {
                        outcome = Err(MetaError::from(error));
                        return ControlFlow::Break(());
                    }
                };
                let base = chunks::base_of(index);
                let from = at.saturating_sub(base).min(CHUNK_SIZE) as u32;
                for extent in map.slice(from, u32::MAX) {
                    let start = base + u64::from(extent.start);
                    if !hole {
                        found = Some(start);
                        return ControlFlow::Break(());
                    }
                    if start > at {
                        return ControlFlow::Break(());
                    }
                    at = start + u64::from(extent.len);
                }
                // A chunk that data does not reach the end of has a hole there.
                if hole && at < base + CHUNK_SIZE {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })?;
            outcome?;
            if hole {
                return Ok(at.min(inode.size));
            }
            found.filter(|&data| data < inode.size).ok_or(MetaError::NoSuchOffset)
        })
    }
}
