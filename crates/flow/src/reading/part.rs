//! Pieces of a file that were fetched or are being fetched.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use super::types::{FetchId, RequestId};
use crate::streams::{IntervalSet, StreamId};

/// What one fetch brings; it counts towards memory as long as it is there.
#[derive(Debug, Clone)]
pub(super) struct Part {
    /// Bytes of the file.
    pub range: Range<u64>,
    /// Bytes from its start that are there.
    pub arrived: u64,
    /// Since when all of them are.
    pub ready: Option<Duration>,
    /// Under way: the first attempt, and a second one that races it.
    pub fetches: [Option<FetchId>; 2],
    /// What its second attempt counts towards memory.
    pub hedged: u64,
    /// Attempts that failed, when the first of them did, and whether the last was refused.
    pub failures: u32,
    pub failed_since: Option<Duration>,
    pub refused: bool,
    /// How often it was sent anew because nothing came.
    pub anew: u32,
    /// Reads that wait, with how many bytes from its start they need.
    pub waiters: Vec<(RequestId, u64)>,
    /// Reads that are not answered yet and have bytes in here.
    pub pins: u32,
    /// What was read of it.
    pub read: IntervalSet,
    /// The stream it was fetched for, if it is of one.
    pub stream: Option<StreamId>,
    /// Whether it counts among the stream's fetches under way.
    pub counted: bool,
}

impl Part {
    pub(super) fn new(range: Range<u64>, stream: Option<StreamId>) -> Part {
        Part {
            range,
            arrived: 0,
            ready: None,
            fetches: [None; 2],
            hedged: 0,
            failures: 0,
            failed_since: None,
            refused: false,
            anew: 0,
            waiters: Vec::new(),
            pins: 0,
            read: IntervalSet::default(),
            stream,
            counted: false,
        }
    }

    pub(super) fn len(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// Whether nobody needs it now.
    pub(super) fn is_idle(&self) -> bool {
        self.pins == 0 && self.waiters.is_empty()
    }

    /// Whether all of it was read.
    pub(super) fn is_used_up(&self) -> bool {
        self.ready.is_some() && self.read.bytes_within(&self.range) == self.len()
    }

    /// Bytes that arrived for nothing if it goes now.
    pub(super) fn unread(&self) -> u64 {
        let there = self.range.start..self.range.start + self.arrived;
        self.arrived - self.read.bytes_within(&there)
    }
}

/// The parts of one file, by where they start. They do not overlap.
#[derive(Debug, Default)]
pub(super) struct Parts {
    parts: BTreeMap<u64, Part>,
    /// Of all of them.
    bytes: u64,
}

impl Parts {
    pub(super) fn get_mut(&mut self, start: u64) -> Option<&mut Part> {
        self.parts.get_mut(&start)
    }

    pub(super) fn get(&self, start: u64) -> Option<&Part> {
        self.parts.get(&start)
    }

    pub(super) fn insert(&mut self, part: Part) {
        debug_assert!(self.overlapping(&part.range).next().is_none());
        self.bytes += part.len();
        self.parts.insert(part.range.start, part);
    }

    pub(super) fn remove(&mut self, start: u64) -> Option<Part> {
        let part = self.parts.remove(&start)?;
        self.bytes -= part.len();
        Some(part)
    }

    /// Bytes of the file that they cover.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Part> {
        self.parts.values()
    }

    /// The last that ends at or before `at`.
    pub(super) fn last_before(&self, at: u64) -> Option<&Part> {
        let before = self.parts.range(..at).rev().map(|(_, part)| part);
        before.take(2).find(|part| part.range.end <= at)
    }

    /// Those that have bytes of `range`, in order.
    pub(super) fn overlapping(&self, range: &Range<u64>) -> impl Iterator<Item = &Part> + use<'_> {
        let first =
            self.parts.range(..=range.start).next_back().filter(|(_, part)| part.range.end > range.start);
        let from = first.map_or(range.start, |(start, _)| *start);
        self.parts.range(from..range.end.max(from)).map(|(_, part)| part)
    }

    /// Starts of those that have bytes of `range`.
    pub(super) fn starts(&self, range: &Range<u64>) -> Vec<u64> {
        self.overlapping(range).map(|part| part.range.start).collect()
    }

    /// What of `range` is in none of them.
    pub(super) fn missing(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let (mut missing, mut at) = (Vec::new(), range.start);
        for part in self.overlapping(range) {
            if at < part.range.start {
                missing.push(at..part.range.start);
            }
            at = at.max(part.range.end);
        }
        if at < range.end {
            missing.push(at..range.end);
        }
        missing
    }

    /// The first bytes from `at` up to `end` that are in none of them, as far as the next multiple of `most`.
    pub(super) fn next_missing(&self, mut at: u64, end: u64, most: u64) -> Option<Range<u64>> {
        while at < end {
            let to = (at + 1).next_multiple_of(most.max(1)).min(end);
            if let Some(missing) = self.missing(&(at..to)).into_iter().next() {
                return Some(missing);
            }
            at = to;
        }
        None
    }

    /// The free room around `range`, which is in none of them: not before `from`, not after `to`.
    pub(super) fn room(&self, range: &Range<u64>, from: u64, to: u64) -> Range<u64> {
        let before = self.parts.range(..=range.start).next_back().map_or(0, |(_, part)| part.range.end);
        let after = self.parts.range(range.end..).next().map_or(u64::MAX, |(start, _)| *start);
        range.start.min(from.max(before))..range.end.max(to.min(after))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn parts_and_what_is_missing_make_up_the_whole(asked in proptest::collection::vec((0u64..300, 1u64..60), 1..20), start in 0u64..300, len in 1u64..100) {
            let mut parts = Parts::default();
            for (start, len) in asked {
                for range in parts.missing(&(start..start + len)) {
                    parts.insert(Part::new(range, None));
                }
            }
            let range = start..start + len;
            let mut pieces = parts.missing(&range);
            for missing in &pieces {
                let room = parts.room(missing, missing.start.saturating_sub(10), missing.end + 10);
                prop_assert!(room.start <= missing.start && room.end >= missing.end);
                prop_assert!(parts.overlapping(&room).next().is_none());
            }
            pieces.extend(parts.overlapping(&range).map(|part| part.range.start.max(start)..part.range.end.min(range.end)));
            pieces.sort_by_key(|piece| piece.start);
            prop_assert_eq!(pieces.first().map(|piece| piece.start), Some(start));
            prop_assert_eq!(pieces.last().map(|piece| piece.end), Some(range.end));
            prop_assert!(pieces.windows(2).all(|pair| pair[0].end == pair[1].start));
            // What is counted, and what lies before a place.
            let all: Vec<Range<u64>> = parts.iter().map(|part| part.range.clone()).collect();
            let before = all.iter().rfind(|part| part.end <= range.start);
            prop_assert_eq!(parts.last_before(range.start).map(|part| &part.range), before);
            let gone = parts.starts(&range);
            gone.iter().for_each(|start| drop(parts.remove(*start)));
            let left = all.iter().filter(|part| !gone.contains(&part.start));
            prop_assert_eq!(parts.bytes(), left.map(|part| part.end - part.start).sum::<u64>());
        }
    }
}
