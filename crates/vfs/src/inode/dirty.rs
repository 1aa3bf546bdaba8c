//! Written bytes of one file that are not yet in an extent: a pure data structure.
//!
//! Two layers. *Pending* bytes may still be overwritten; they are kept in blocks, so that any pattern of small writes costs
//! bounded bookkeeping. *Batches* have been taken for upload and are frozen; they stay readable until their extents are
//! committed. A newer layer hides an older one.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use super::block::{BLOCK, Block};

/// A range of a file with its bytes.
pub type Piece = (u64, Bytes);

/// Numbers the batches of one file in the order they were taken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BatchId(u64);

/// Bytes taken for upload. Immutable and cheap to clone.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Position in the file's order of commits.
    pub id: BatchId,
    /// Sorted, not overlapping.
    pub pieces: Arc<[Piece]>,
    /// What it counts in the write budget, bytes.
    pub charge: u64,
}

impl Batch {
    /// The first byte, if there is one.
    pub fn start(&self) -> Option<u64> {
        self.pieces.first().map(|(offset, _)| *offset)
    }

    /// End of the last byte.
    pub fn end(&self) -> u64 {
        self.pieces.last().map_or(0, |(offset, data)| offset + data.len() as u64)
    }

    /// Bytes of data.
    pub fn len(&self) -> u64 {
        self.pieces.iter().map(|(_, data)| data.len() as u64).sum()
    }

    /// Pieces grouped into runs without a gap: (file offset, pieces).
    pub fn runs(&self) -> Vec<(u64, &[Piece])> {
        let mut runs = Vec::new();
        let mut from = 0;
        for i in 1..=self.pieces.len() {
            let continues = i < self.pieces.len() && {
                let (offset, data) = &self.pieces[i - 1];
                offset + data.len() as u64 == self.pieces[i].0
            };
            if !continues {
                runs.push((self.pieces[from].0, &self.pieces[from..i]));
                from = i;
            }
        }
        runs
    }
}

/// See the module's description.
#[derive(Debug, Default)]
pub struct DirtyBuffer {
    pending: BTreeMap<u64, Block>,
    pending_charge: u64,
    pending_len: u64,
    batches: VecDeque<Batch>,
    next: u64,
}

impl DirtyBuffer {
    /// Whether there is nothing, pending or in a batch.
    pub fn is_clean(&self) -> bool {
        self.pending.is_empty() && self.batches.is_empty()
    }

    /// Pending bytes of data.
    pub fn pending_len(&self) -> u64 {
        self.pending_len
    }

    /// Bytes of data, pending and in batches.
    pub fn len(&self) -> u64 {
        self.pending_len + self.batches.iter().map(Batch::len).sum::<u64>()
    }

    /// Bytes of the write budget held by pending data and batches together.
    pub fn charge(&self) -> u64 {
        self.pending_charge + self.batches.iter().map(|b| b.charge).sum::<u64>()
    }

    /// Whether a batch waits for its commit.
    pub fn has_batches(&self) -> bool {
        !self.batches.is_empty()
    }

    /// The newest batch taken so far, committed or not.
    pub fn last_batch(&self) -> Option<BatchId> {
        self.next.checked_sub(1).map(BatchId)
    }

    /// The oldest batch that is not committed.
    pub fn oldest_batch(&self) -> Option<BatchId> {
        self.batches.front().map(|b| b.id)
    }

    /// Puts `data` at `offset` over whatever is there.
    pub fn write(&mut self, offset: u64, data: &Bytes) {
        let mut done = 0usize;
        while done < data.len() {
            let at = offset + done as u64;
            let within = (at % BLOCK) as u32;
            let take = (data.len() - done).min((BLOCK - u64::from(within)) as usize);
            self.write_block(at / BLOCK, within, data.slice(done..done + take));
            done += take;
        }
    }

    fn write_block(&mut self, index: u64, within: u32, data: Bytes) {
        let block = self.pending.entry(index).or_default();
        let before = (block.charge(), block.len());
        block.write(within, data);
        self.pending_charge = self.pending_charge + block.charge() - before.0;
        self.pending_len = self.pending_len + block.len() - before.1;
    }

    /// What there is of `[offset, end)`, newest layer first hidden: sorted, not overlapping.
    pub fn overlay(&self, offset: u64, end: u64) -> Vec<Piece> {
        let mut found = Vec::new();
        if offset >= end {
            return found;
        }
        for (&index, block) in self.pending.range(offset / BLOCK..=(end - 1) / BLOCK) {
            block.pieces(index * BLOCK, offset, end, &mut found);
        }
        for batch in self.batches.iter().rev() {
            let from = batch.pieces.partition_point(|(o, d)| o + d.len() as u64 <= offset);
            let mut below = Vec::new();
            for (at, data) in batch.pieces[from..].iter().take_while(|(o, _)| *o < end) {
                below.push(clip(*at, data, offset, end));
            }
            merge_below(&mut found, below);
        }
        found
    }

    /// Freezes pending bytes, lowest offset first, up to about `max` bytes of data (at least a block) into a batch.
    /// `None` when nothing is pending.
    pub fn take_batch(&mut self, max: u64) -> Option<Batch> {
        let mut pieces = Vec::new();
        let mut len = 0;
        let mut charge = 0;
        while let Some(entry) = self.pending.first_entry() {
            if len > 0 && len + entry.get().len() > max {
                break;
            }
            let (index, block) = entry.remove_entry();
            len += block.len();
            charge += block.charge();
            block.freeze(index * BLOCK, &mut pieces);
        }
        if pieces.is_empty() {
            return None;
        }
        self.pending_len -= len;
        self.pending_charge -= charge;
        let batch = Batch { id: BatchId(self.next), pieces: pieces.into(), charge };
        self.next += 1;
        self.batches.push_back(batch.clone());
        Some(batch)
    }

    /// The first byte that is not committed.
    pub fn first(&self) -> Option<u64> {
        let of_batches = self.batches.iter().filter_map(Batch::start).min();
        let pending = self
            .pending
            .first_key_value()
            .and_then(|(index, block)| block.start().map(|at| index * BLOCK + at));
        [of_batches, pending].into_iter().flatten().min()
    }

    /// A batch that is not committed yet.
    pub fn batch(&self, id: BatchId) -> Option<&Batch> {
        self.batches.iter().find(|batch| batch.id == id)
    }

    /// The bytes of a batch: from its first to its last one.
    pub fn range_of(&self, id: BatchId) -> Option<Range<u64>> {
        let batch = self.batch(id)?;
        Some(batch.start()?..batch.end())
    }

    /// Drops a batch whose extents are committed; the bytes it gives back to the budget.
    pub fn committed(&mut self, id: BatchId) -> u64 {
        let Some(at) = self.batches.iter().position(|b| b.id == id) else { return 0 };
        self.batches.remove(at).map_or(0, |b| b.charge)
    }

    /// Forgets pending bytes in `[start, end)`; the charge before and after, which may be more: what is left of a block can take memory of
    /// its own. Batches are left alone: the caller waits for them first.
    pub fn discard(&mut self, start: u64, end: u64) -> (u64, u64) {
        let before = self.charge();
        if start >= end {
            return (before, before);
        }
        let touched: Vec<u64> =
            self.pending.range(start / BLOCK..=(end - 1) / BLOCK).map(|(&i, _)| i).collect();
        for index in touched {
            let Some(block) = self.pending.remove(&index) else { continue };
            self.pending_charge -= block.charge();
            self.pending_len -= block.len();
            let mut kept = Vec::new();
            let base = index * BLOCK;
            block.pieces(base, base, start.max(base), &mut kept);
            block.pieces(base, end.min(base + BLOCK), base + BLOCK, &mut kept);
            for (offset, data) in kept {
                self.write_block(index, (offset - base) as u32, data);
            }
        }
        (before, self.charge())
    }
}

fn clip(at: u64, data: &Bytes, start: u64, end: u64) -> Piece {
    let from = start.saturating_sub(at).min(data.len() as u64);
    let to = (end.saturating_sub(at)).min(data.len() as u64).max(from);
    (at + from, data.slice(from as usize..to as usize))
}

/// Adds to `top` (sorted) what of `below` (sorted) it does not cover.
fn merge_below(top: &mut Vec<Piece>, below: Vec<Piece>) {
    if below.is_empty() {
        return;
    }
    let mut merged = Vec::with_capacity(top.len() + below.len());
    let mut upper = std::mem::take(top).into_iter().peekable();
    for (offset, data) in below {
        let end = offset + data.len() as u64;
        let mut at = offset;
        while let Some((o, d)) = upper.peek() {
            let (o, upper_end) = (*o, *o + d.len() as u64);
            if o >= end {
                break;
            }
            if o > at {
                merged.push(clip(offset, &data, at, o));
            }
            at = at.max(upper_end);
            if upper_end > end {
                break;
            }
            merged.extend(upper.next());
        }
        if at < end {
            merged.push(clip(offset, &data, at, end));
        }
    }
    merged.extend(upper);
    merged.sort_by_key(|(offset, _)| *offset);
    *top = merged;
}

#[cfg(test)]
#[path = "dirty_tests.rs"]
mod tests;
