//! Merges sorted layers into one ordered walk, newest layer first: a key is taken from the newest layer that knows it,
//! and a deletion there hides it. Holds one entry per layer, whatever the range.

use std::collections::btree_map::Range;

use heed::types::Bytes;
use heed::{RoRange, RoRevRange};

use super::lmdb::Tables;
use super::memtable::Slot;
use crate::{KvError, Visit};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Direction {
    Forward,
    Reverse,
}

#[derive(Clone, Copy)]
struct Entry<'a> {
    key: &'a [u8],
    /// `None` where the key was deleted.
    value: Option<&'a [u8]>,
}

/// One layer's share of a range.
pub(super) enum Source<'a> {
    Memory(Range<'a, Box<[u8]>, Slot>),
    Disk(RoRange<'a, Bytes, Bytes>, &'a Tables),
    DiskReverse(RoRevRange<'a, Bytes, Bytes>, &'a Tables),
}

impl<'a> Source<'a> {
    fn next(&mut self, direction: Direction) -> Result<Option<Entry<'a>>, KvError> {
        let stored = match self {
            Source::Memory(range) => {
                let next = match direction {
                    Direction::Forward => range.next(),
                    Direction::Reverse => range.next_back(),
                };
                return Ok(next.map(|(key, slot)| Entry { key, value: slot.as_deref() }));
            }
            Source::Disk(range, tables) => tables.entry(range.next()),
            Source::DiskReverse(range, tables) => tables.entry(range.next()),
        };
        Ok(stored?.map(|(key, value)| Entry { key, value: Some(value) }))
    }
}

struct Lane<'a> {
    source: Source<'a>,
    head: Entry<'a>,
}

/// Walks `sources`, newest first, until `visit` breaks.
pub(super) fn merge<'a>(
    sources: impl IntoIterator<Item = Source<'a>>,
    direction: Direction,
    visit: Visit<'_>,
) -> Result<(), KvError> {
    let mut lanes = Vec::with_capacity(4);
    for mut source in sources {
        if let Some(head) = source.next(direction)? {
            lanes.push(Lane { source, head });
        }
    }
    while let Some(winner) = first(&lanes, direction) {
        let entry = lanes[winner].head;
        // Backwards, so that removing a lane that ran dry moves none that is still to be looked at. Lanes newer than
        // the winner never hold its key.
        for i in (winner..lanes.len()).rev() {
            if i != winner && lanes[i].head.key != entry.key {
                continue;
            }
            match lanes[i].source.next(direction)? {
                Some(head) => lanes[i].head = head,
                None => drop(lanes.remove(i)),
            }
        }
        if let Some(value) = entry.value
            && visit(entry.key, value).is_break()
        {
            break;
        }
    }
    Ok(())
}

/// The lane whose key comes next; of several with that key the newest.
fn first(lanes: &[Lane<'_>], direction: Direction) -> Option<usize> {
    let mut lanes = lanes.iter().enumerate();
    let mut best = lanes.next()?;
    for lane in lanes {
        let sooner = match direction {
            Direction::Forward => lane.1.head.key < best.1.head.key,
            Direction::Reverse => lane.1.head.key > best.1.head.key,
        };
        if sooner {
            best = lane;
        }
    }
    Some(best.0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::ops::ControlFlow;

    use proptest::prelude::*;

    use super::super::memtable::Memtable;
    use super::*;

    proptest! {
        #[test]
        fn equals_applying_the_layers_in_order(
            layers in prop::collection::vec(
                prop::collection::btree_map(0u8..12, prop::option::of(any::<u8>()), 0..12),
                0..4,
            ),
            start in 0u8..13,
            end in 0u8..13,
            stop_after in 1usize..15,
            reverse in any::<bool>(),
        ) {
            // Oldest first here.
            let mut model = BTreeMap::new();
            let mut tables = Vec::new();
            for layer in &layers {
                let mut table = Memtable::default();
                for (&key, &value) in layer {
                    table.set(&[key], value.as_ref().map(std::slice::from_ref));
                    match value {
                        Some(value) => model.insert(key, value),
                        None => model.remove(&key),
                    };
                }
                tables.push(table);
            }
            let mut expected: Vec<(u8, u8)> =
                model.into_iter().filter(|(key, _)| (start..end).contains(key)).collect();
            let direction = if reverse { Direction::Reverse } else { Direction::Forward };
            if reverse {
                expected.reverse();
            }
            expected.truncate(stop_after);
            let mut seen = Vec::new();
            let sources = tables.iter().rev().map(|t| Source::Memory(t.range(&[start], &[end])));
            merge(sources, direction, &mut |key, value| {
                seen.push((key[0], value[0]));
                if seen.len() == stop_after { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })
            .expect("memory does not fail");
            prop_assert_eq!(seen, expected);
        }
    }
}
