//! Changes to the extents of one file within a transaction, with everything that is counted.

use std::ops::ControlFlow;

use headrace_layout::{CHUNK_SIZE, Extent, ExtentData, ExtentMap, InodeNo};

use super::chunks;
use crate::transaction::Tx;
use crate::{MetaError, Result};

/// A range of a file and where its bytes are.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub offset: u64,
    pub len: u32,
    pub data: ExtentData,
}

/// Holds the chunk last touched; nothing is written before [`Editor::finish`] or the next chunk.
pub(super) struct Editor<'t, 'a> {
    pub tx: &'t mut Tx<'a>,
    ino: InodeNo,
    open: Option<(u32, ExtentMap)>,
    /// Bytes covered, less bytes uncovered.
    covered: i64,
    /// The chunks that were changed, each with how many extents it has now.
    changed: Vec<(u32, usize)>,
}

impl<'t, 'a> Editor<'t, 'a> {
    pub(super) fn new(tx: &'t mut Tx<'a>, ino: InodeNo) -> Editor<'t, 'a> {
        Editor { tx, ino, open: None, covered: 0, changed: Vec::new() }
    }

    fn close(&mut self) {
        if let Some((index, map)) = self.open.take() {
            chunks::store(self.tx, self.ino, index, &map);
            self.changed.push((index, map.len()));
        }
    }

    fn chunk(&mut self, index: u32) -> Result<&mut ExtentMap> {
        let map = match self.open.take() {
            Some((open, map)) if open == index => map,
            other => {
                self.open = other;
                self.close();
                chunks::load(self.tx.read(), self.ino, index)?
            }
        };
        Ok(&mut self.open.insert((index, map)).1)
    }

    fn release(&mut self, removed: &[Extent]) {
        self.tx.release(removed);
        self.covered -= removed.iter().map(|extent| i64::from(extent.len)).sum::<i64>();
    }

    /// Puts bytes in place of whatever was there. The range must be within the longest file and within its source.
    pub(super) fn put(&mut self, offset: u64, len: u32, data: &ExtentData) -> Result<()> {
        for part in parts(offset, u64::from(len)) {
            let data = data.advanced(part.skip as u32);
            self.tx.reference(part.len(), &data);
            self.covered += i64::from(part.len());
            let map = self.chunk(part.index)?;
            let displaced = map.insert(Extent { start: part.start, len: part.len(), data });
            self.release(&displaced);
        }
        Ok(())
    }

    /// Makes a hole. Visits only chunks that exist, so the range may be vast.
    pub(super) fn clear(&mut self, start: u64, end: u64) -> Result<()> {
        self.close();
        let mut indexes = Vec::new();
        chunks::scan(self.tx.read(), self.ino, (start, end), &mut |index, _| {
            indexes.push(index);
            ControlFlow::Continue(())
        })?;
        for index in indexes {
            let base = chunks::base_of(index);
            let from = start.saturating_sub(base) as u32;
            let to = end.saturating_sub(base).min(CHUNK_SIZE) as u32;
            let removed = self.chunk(index)?.punch(from, to);
            self.release(&removed);
        }
        Ok(())
    }

    /// What is in a range.
    pub(super) fn pieces(&mut self, offset: u64, len: u64) -> Result<Vec<Piece>> {
        let mut pieces = Vec::new();
        for part in parts(offset, len) {
            let base = chunks::base_of(part.index);
            pieces.extend(self.chunk(part.index)?.slice(part.start, part.end).into_iter().map(|extent| {
                Piece { offset: base + u64::from(extent.start), len: extent.len, data: extent.data }
            }));
        }
        Ok(pieces)
    }

    /// Writes everything down.
    pub(super) fn finish(mut self) -> Result<Vec<(u32, usize)>> {
        self.close();
        if self.covered != 0 {
            let inode = self.tx.inode(self.ino)?;
            inode.allocated = inode.allocated.checked_add_signed(self.covered).ok_or_else(|| {
                MetaError::Corrupt(format!("inode {} counts less data than it has", self.ino))
            })?;
        }
        Ok(self.changed)
    }
}

/// What is in a range of a file that may be vast and full of holes.
pub(super) fn pieces_in(tx: &Tx<'_>, ino: InodeNo, start: u64, end: u64) -> Result<Vec<Piece>> {
    let mut pieces = Vec::new();
    let mut outcome = Ok(());
    chunks::scan(tx.read(), ino, (start, end), &mut |index, value| match ExtentMap::decode(value) {
        Ok(map) => {
            let base = chunks::base_of(index);
            let from = start.saturating_sub(base) as u32;
            let to = end.saturating_sub(base).min(CHUNK_SIZE) as u32;
            pieces.extend(map.slice(from, to).into_iter().map(|extent| Piece {
                offset: base + u64::from(extent.start),
                len: extent.len,
                data: extent.data,
            }));
            ControlFlow::Continue(())
        }
        Err(error) => {
            outcome = Err(MetaError::from(error));
            ControlFlow::Break(())
        }
    })?;
    outcome.map(|()| pieces)
}

/// The part of a range that is in one chunk.
struct Part {
    index: u32,
    start: u32,
    end: u32,
    /// Bytes of the range before it.
    skip: u64,
}

impl Part {
    fn len(&self) -> u32 {
        self.end - self.start
    }
}

/// Cuts a range at chunk boundaries.
fn parts(offset: u64, len: u64) -> impl Iterator<Item = Part> {
    let end = offset + len;
    let mut at = offset;
    std::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let index = chunks::index_of(at);
        let base = chunks::base_of(index);
        let part = Part {
            index,
            start: (at - base) as u32,
            end: (end - base).min(CHUNK_SIZE) as u32,
            skip: at - offset,
        };
        at = base + u64::from(part.end);
        Some(part)
    })
}
