//! Bytes of one file that are there.

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;

/// Pieces of a file, by where they begin; none is empty and no two overlap.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    pieces: BTreeMap<u64, Bytes>,
}

impl Buffers {
    /// Puts `bytes` at `offset`. What is there already stays: of two fetches of the same bytes, the first one counts.
    pub(super) fn insert(&mut self, mut offset: u64, mut bytes: Bytes) {
        while !bytes.is_empty() {
            let covered = self.end_at(offset).saturating_sub(offset).min(bytes.len() as u64);
            let _ = bytes.split_to(covered as usize);
            offset += covered;
            let next = self.pieces.range(offset..).next().map_or(u64::MAX, |(start, _)| *start);
            let free = bytes.split_to((next - offset).min(bytes.len() as u64) as usize);
            let after = offset + free.len() as u64;
            if !free.is_empty() {
                self.pieces.insert(offset, free);
            }
            offset = after;
        }
    }

    /// Where the piece that has the byte at `offset` ends; `offset` if there is none.
    fn end_at(&self, offset: u64) -> u64 {
        self.pieces
            .range(..=offset)
            .next_back()
            .map_or(offset, |(start, piece)| offset.max(start + piece.len() as u64))
    }

    /// Whether all bytes of `range` are there.
    pub(super) fn has(&self, range: &Range<u64>) -> bool {
        let mut at = range.start;
        while at < range.end {
            let end = self.end_at(at);
            if end == at {
                return false;
            }
            at = end;
        }
        true
    }

    /// The bytes of `range`; `None` unless all of them are there.
    pub(super) fn get(&self, range: &Range<u64>) -> Option<Vec<Bytes>> {
        let mut found = Vec::new();
        let mut at = range.start;
        let first = self.pieces.range(..=at).next_back().map_or(at, |(start, _)| *start);
        for (start, piece) in self.pieces.range(first..range.end.max(first)) {
            let end = start + piece.len() as u64;
            if end <= at {
                continue;
            }
            if *start > at {
                return None;
            }
            let to = end.min(range.end);
            found.push(piece.slice((at - start) as usize..(to - start) as usize));
            at = to;
        }
        (at >= range.end).then_some(found)
    }

    /// Lets go of the bytes of `range`.
    pub(super) fn release(&mut self, range: &Range<u64>) {
        if range.is_empty() {
            return;
        }
        let first = self.pieces.range(..=range.start).next_back().map_or(range.start, |(start, _)| *start);
        let touched: Vec<u64> = self.pieces.range(first..range.end).map(|(start, _)| *start).collect();
        for start in touched {
            let Some(piece) = self.pieces.remove(&start) else { continue };
            let end = start + piece.len() as u64;
            if start < range.start {
                let kept = (range.start.min(end) - start) as usize;
                self.pieces.insert(start, piece.slice(..kept));
            }
            if end > range.end {
                self.pieces.insert(range.end, piece.slice((range.end.max(start) - start) as usize..));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a plain array: the first bytes that come for a place stay until they are released.
        #[test]
        fn it_is_an_array_with_holes(events in proptest::collection::vec((any::<bool>(), 0usize..200, 1usize..80, any::<u8>()), 1..60)) {
            let mut array = vec![None; 300];
            let mut buffers = Buffers::default();
            for (inserts, start, len, byte) in events {
                let range = start as u64..(start + len) as u64;
                if inserts {
                    buffers.insert(start as u64, Bytes::from(vec![byte; len]));
                    array[start..start + len].iter_mut().for_each(|place| *place = place.or(Some(byte)));
                } else {
                    buffers.release(&range);
                    array[start..start + len].fill(None);
                }
                for from in (0..300).step_by(17) {
                    let wanted: Option<Vec<u8>> = array[from..(from + 23).min(300)].iter().copied().collect();
                    let place = from as u64..(from as u64 + 23).min(300);
                    prop_assert_eq!(buffers.has(&place), wanted.is_some());
                    let got = buffers.get(&place);
                    prop_assert_eq!(got.map(|pieces| pieces.concat()), wanted);
                }
            }
        }
    }
}
