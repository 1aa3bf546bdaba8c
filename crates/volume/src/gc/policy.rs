//! What may be deleted: pure decisions.

use std::time::{Duration, SystemTime};

/// How long a segment is left alone after it died, and an object that metadata does not know after it was written.
///
/// Long enough for a reader that still has the old extents, for an upload that takes its time, and for clocks that
/// disagree; short enough that deleted data is gone the same day.
pub const DEFAULT_GRACE: Duration = Duration::from_secs(3600);

/// Added to the grace of an unknown object when the store does not say when it was written: its id tells when the write
/// began, and a write may be retried for long.
pub const UNDATED_GRACE: Duration = Duration::from_secs(24 * 3600);

/// What to do with an object in `segments/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Metadata knows it, or this process is writing it.
    Keep,
    /// Nobody knows it, but it may be an upload under way.
    Young,
    /// Nobody knows it and nobody will.
    Orphan,
}

/// What is known of an object in `segments/`.
#[derive(Clone, Copy, Debug)]
pub struct Sighting {
    /// When its id was made.
    pub created: SystemTime,
    /// When the store says it was written.
    pub modified: Option<SystemTime>,
    /// Whether this process is writing it.
    pub pending: bool,
    /// Whether metadata has a record of it.
    pub known: bool,
}

/// Whether an object may be deleted at `now`. The younger of its ages counts; times in the future are age zero.
pub fn judge(object: Sighting, now: SystemTime, grace: Duration) -> Verdict {
    if object.known || object.pending {
        return Verdict::Keep;
    }
    let old_enough = match object.modified {
        Some(modified) => is_older(object.created.max(modified), now, grace),
        None => is_older(object.created, now, grace.saturating_add(UNDATED_GRACE)),
    };
    if old_enough { Verdict::Orphan } else { Verdict::Young }
}

/// Whether a segment that died at `dead_since` may be deleted at `now`.
///
/// A segment that was made within the grace is left alone too: several files may share it, each naming it in a commit of
/// its own, and the first may be overwritten before the last commits.
pub fn is_dead_long_enough(
    created: SystemTime,
    dead_since: SystemTime,
    now: SystemTime,
    grace: Duration,
) -> bool {
    is_older(created.max(dead_since), now, grace)
}

fn is_older(time: SystemTime, now: SystemTime, age: Duration) -> bool {
    now.duration_since(time).is_ok_and(|elapsed| elapsed >= age)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(secs: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(secs)
    }

    proptest! {
        #[test]
        fn nothing_known_pending_or_young_is_ever_an_orphan(
            created in 0u64..1_000_000, modified in proptest::option::of(0u64..1_000_000), now in 0u64..1_000_000,
            grace in 0u64..100_000, pending: bool, known: bool,
        ) {
            let sighting = Sighting { created: at(created), modified: modified.map(at), pending, known };
            let verdict = judge(sighting, at(now), Duration::from_secs(grace));
            if verdict == Verdict::Orphan {
                prop_assert!(!known && !pending);
                prop_assert!(created + grace <= now);
                prop_assert!(modified.is_none_or(|m| m + grace <= now));
            }
            // And garbage does not stay for ever.
            let far = at(now) + Duration::from_secs(2_000_000);
            if !known && !pending {
                prop_assert_eq!(judge(sighting, far, Duration::from_secs(grace)), Verdict::Orphan);
            } else {
                prop_assert_eq!(judge(sighting, far, Duration::from_secs(grace)), Verdict::Keep);
            }
        }

        #[test]
        fn a_dead_segment_waits_for_the_younger_of_both_times(
            created in 0u64..1000, dead in 0u64..1000, now in 0u64..3000, grace in 0u64..1000,
        ) {
            let done = is_dead_long_enough(at(created), at(dead), at(now), Duration::from_secs(grace));
            prop_assert_eq!(done, created.max(dead) + grace <= now);
        }
    }

    #[test]
    fn clocks_that_disagree_keep_the_object() {
        let future = Sighting { created: at(10), modified: Some(at(5000)), pending: false, known: false };
        assert_eq!(judge(future, at(4000), Duration::from_secs(60)), Verdict::Young);
    }
}
