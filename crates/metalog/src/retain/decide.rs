//! What may be removed, and in which order: a pure decision over what the bucket holds.

use std::collections::BTreeSet;

use crate::{Key, SnapshotId};

/// Owner objects that are always kept. They are tiny, and an owner that was paused looks for its successor's.
const KEPT_OWNERS: u64 = 64;

/// A snapshot as found in the bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SnapshotFacts {
    /// Which one.
    pub(crate) id: SnapshotId,
    /// Its objects: parts, and the manifest if it has one.
    pub(crate) keys: Vec<Key>,
    /// What it is good for.
    pub(crate) kept: Kept,
}

/// What a snapshot is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// A restore can begin with it.
    Complete {
        /// The log object that it is at: a restore reads this one and those after it.
        number: u64,
        /// The time of the state it shows, Unix milliseconds, by the log's own clock.
        at_ms: u64,
    },
    /// It is being written, or nothing is known against it.
    Unsure,
    /// It was begun and given up, or cannot be read.
    Useless,
}

/// What the bucket holds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stock {
    /// Numbers of the log objects.
    pub(crate) log: BTreeSet<u64>,
    /// Snapshots, in any order.
    pub(crate) snapshots: Vec<SnapshotFacts>,
    /// Epochs of the owner objects.
    pub(crate) owners: BTreeSet<u64>,
}

/// The objects that may be removed, in the order in which they must be: wherever it stops, what is left can be restored from, to
/// every moment from `oldest_ms` (Unix milliseconds) on.
pub(crate) fn decide(stock: &Stock, oldest_ms: u64) -> Vec<Key> {
    let mut removed = Vec::new();
    let complete = |s: &SnapshotFacts| match s.kept {
        Kept::Complete { number, at_ms } => Some((number, s.id, at_ms)),
        Kept::Unsure | Kept::Useless => None,
    };
    let base = stock.snapshots.iter().filter_map(complete).filter(|&(_, _, at_ms)| at_ms <= oldest_ms).max();
    if let Some((base, base_id, _)) = base {
        // Oldest first, and each one's manifest first: a snapshot is whole or not seen at all, and the log it needs is still
        // there.
        let mut older: Vec<_> = stock
            .snapshots
            .iter()
            .filter(|s| complete(s).is_some_and(|(number, id, _)| (number, id) < (base, base_id)))
            .collect();
        older.sort_by_key(|s| complete(s));
        removed.extend(older.iter().flat_map(|s| manifest_first(s)));
        removed.extend(stock.log.range(..base).map(|&number| Key::Log { number }));
    }
    let useless = stock.snapshots.iter().filter(|s| s.kept == Kept::Useless);
    removed.extend(useless.flat_map(manifest_first));
    let newest = stock.owners.last().copied().unwrap_or(0);
    removed
        .extend(stock.owners.range(..newest.saturating_sub(KEPT_OWNERS)).map(|&epoch| Key::Owner { epoch }));
    removed
}

fn manifest_first(snapshot: &SnapshotFacts) -> impl Iterator<Item = Key> + use<> {
    let mut keys = snapshot.keys.clone();
    keys.sort_by_key(|key| (!matches!(key, Key::SnapshotManifest { .. }), *key));
    keys.into_iter()
}

#[cfg(test)]
mod tests {
    use headrace_kv::CommitSeq;
    use proptest::prelude::*;

    use super::*;

    const PARTS: u32 = 2;

    fn snapshot(position: u64, random: u64, kept: Kept) -> SnapshotFacts {
        let id = SnapshotId { position: CommitSeq(position), random };
        let mut keys: Vec<_> = (0..PARTS).map(|part| Key::SnapshotPart { snapshot: id, part }).collect();
        if kept != Kept::Unsure {
            keys.push(Key::SnapshotManifest { snapshot: id });
        }
        SnapshotFacts { id, keys, kept }
    }

    /// A log of objects 0..n with rising times, a snapshot at 0 and at some others.
    fn stocks() -> impl Strategy<Value = (Stock, Vec<u64>)> {
        let times = prop::collection::vec(0u64..50, 1..20);
        let places = prop::collection::vec((any::<prop::sample::Index>(), 0u8..6), 0..6);
        (times, places, 0u64..200).prop_map(|(steps, places, owners)| {
            let mut at = 1_000;
            let times: Vec<u64> = steps
                .iter()
                .map(|step| {
                    at += step;
                    at
                })
                .collect();
            let complete = |number: u64| Kept::Complete { number, at_ms: times[number as usize] };
            let mut snapshots = vec![snapshot(0, 0, complete(0))];
            for (random, (place, kind)) in (1u64..).zip(places) {
                let number = place.index(times.len()) as u64;
                let kept = match kind {
                    0 => Kept::Unsure,
                    1 => Kept::Useless,
                    _ => complete(number),
                };
                snapshots.push(snapshot(number * 10, random, kept));
            }
            let log = (0..times.len() as u64).collect();
            (Stock { log, snapshots, owners: (1..=owners).collect() }, times)
        })
    }

    /// Whether the state at `at_ms` can be had from what is left.
    fn restorable(left: &BTreeSet<Key>, stock: &Stock, times: &[u64], at_ms: u64) -> bool {
        let base = stock
            .snapshots
            .iter()
            .filter(|s| left.contains(&Key::SnapshotManifest { snapshot: s.id }))
            .filter_map(|s| match s.kept {
                Kept::Complete { number, at_ms } => Some((number, at_ms, s)),
                _ => None,
            })
            .filter(|&(_, base_ms, _)| base_ms <= at_ms)
            .max_by_key(|&(number, _, s)| (number, s.id));
        let Some((number, _, chosen)) = base else { return false };
        let whole = chosen.keys.iter().all(|key| left.contains(key));
        let upto = times.iter().filter(|&&t| t <= at_ms).count() as u64;
        whole && (number..upto).all(|number| left.contains(&Key::Log { number }))
    }

    proptest! {
        /// After each single removal every moment within the retention can be restored to, and what remains at the end is
        /// no more than needed.
        #[test]
        fn the_retention_is_kept_at_every_step((stock, times) in stocks(), back in 0u64..1_200) {
            let now = *times.last().unwrap() + 10;
            let oldest = now - back.min(now - times[0]);
            let mut left: BTreeSet<Key> = stock.log.iter().map(|&number| Key::Log { number }).collect();
            left.extend(stock.snapshots.iter().flat_map(|s| s.keys.iter().copied()));
            left.extend(stock.owners.iter().map(|&epoch| Key::Owner { epoch }));
            let wanted: Vec<u64> = (oldest..=now).step_by(7).chain([now]).collect();
            for &at in &wanted {
                prop_assert!(restorable(&left, &stock, &times, at));
            }
            for key in decide(&stock, oldest) {
                prop_assert!(left.remove(&key), "{key} is not there, or named twice");
                for &at in &wanted {
                    prop_assert!(restorable(&left, &stock, &times, at), "after {key}, to {at}");
                }
            }
            for s in &stock.snapshots {
                let there = s.keys.iter().all(|key| left.contains(key));
                match s.kept {
                    Kept::Unsure => prop_assert!(there),
                    Kept::Useless => prop_assert!(!there),
                    Kept::Complete { .. } => {}
                }
            }
            // At most one snapshot is older than the retention.
            let old = stock.snapshots.iter().filter(|s| {
                matches!(s.kept, Kept::Complete { at_ms, .. } if at_ms <= oldest) && s.keys.iter().any(|k| left.contains(k))
            });
            prop_assert!(old.count() <= 1);
            // The successor of any recent owner is still to be seen.
            let newest = stock.owners.last().copied().unwrap_or(0);
            let recent = newest.saturating_sub(KEPT_OWNERS).max(1)..=newest;
            let all_there = recent.clone().all(|epoch| left.contains(&Key::Owner { epoch }));
            prop_assert!(all_there, "of {recent:?}");
        }
    }

    #[test]
    fn without_an_old_enough_snapshot_nothing_of_use_goes() {
        let complete = Kept::Complete { number: 3, at_ms: 500 };
        let stock = Stock {
            log: (0..9).collect(),
            snapshots: vec![snapshot(30, 1, complete)],
            owners: (1..4).collect(),
        };
        assert_eq!(decide(&stock, 499), Vec::new());
        let trimmed: Vec<_> = (0..3).map(|number| Key::Log { number }).collect();
        assert_eq!(decide(&stock, 500), trimmed);
    }
}
