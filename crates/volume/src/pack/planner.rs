//! When to pack: a state machine with no clock and no I/O.
//!
//! Packing waits for a full segment, so that objects are large, but not for ever, so that metadata stays small: the
//! less there is to pack, the longer it may wait. Values that die young (temporary files) are then never written to the
//! store at all.

use std::time::Duration;

/// How long a backlog of at least a quarter of a segment waits for more.
pub const WAIT_SOME: Duration = Duration::from_secs(5);
/// How long any smaller backlog waits for more.
pub const WAIT_LITTLE: Duration = Duration::from_secs(30);
/// First pause after a failure or a round that moved nothing; doubles up to [`PAUSE_MAX`].
pub const PAUSE_MIN: Duration = Duration::from_secs(1);
/// Longest pause.
pub const PAUSE_MAX: Duration = Duration::from_secs(60);
/// How often the backlog is looked at when nothing else is due.
pub const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackStep {
    /// Nothing yet; ask again after this time at the latest.
    Wait(Duration),
    /// Pack up to this many bytes, then say how it went.
    Pack {
        /// Bytes of backlog to take.
        max_bytes: u64,
    },
}

/// Decides when inline values are moved to segments.
#[derive(Clone, Debug)]
pub struct PackPlanner {
    segment_size: u64,
    /// When the present backlog was first seen.
    since: Option<Duration>,
    /// Not before this time, and the pause that led there.
    pause: Option<(Duration, Duration)>,
}

impl PackPlanner {
    /// A planner for segments of `segment_size` bytes.
    pub fn new(segment_size: u32) -> PackPlanner {
        PackPlanner { segment_size: u64::from(segment_size.max(1)), since: None, pause: None }
    }

    /// What to do at `now` (time since any fixed moment, not going back) with `inline_bytes` waiting.
    pub fn step(&mut self, now: Duration, inline_bytes: u64) -> PackStep {
        if inline_bytes == 0 {
            self.since = None;
            self.pause = None;
            return PackStep::Wait(LOOK_AGAIN);
        }
        let since = *self.since.get_or_insert(now);
        let wait = match inline_bytes {
            b if b >= self.segment_size => Duration::ZERO,
            b if b >= self.segment_size / 4 => WAIT_SOME,
            _ => WAIT_LITTLE,
        };
        let due = since.saturating_add(wait).max(self.pause.map_or(Duration::ZERO, |(until, _)| until));
        match due.checked_sub(now) {
            Some(left) if !left.is_zero() => PackStep::Wait(left.min(LOOK_AGAIN)),
            _ => PackStep::Pack { max_bytes: self.round_bytes(inline_bytes) },
        }
    }

    /// A round ended at `now`, having moved `bytes`. A round that moved nothing though there was something (the values
    /// belong to files that were deleted, or are damaged) is followed by a growing pause.
    pub fn packed(&mut self, now: Duration, bytes: u64) {
        // What is left now starts to wait anew: it came while the round was running, or was more than one round takes.
        self.since = None;
        if bytes > 0 { self.pause = None } else { self.back_off(now) }
    }

    /// A round failed at `now`.
    pub fn failed(&mut self, now: Duration) {
        self.back_off(now);
    }

    fn back_off(&mut self, now: Duration) {
        let pause = self.pause.map_or(PAUSE_MIN, |(_, last)| last.saturating_mul(2).min(PAUSE_MAX));
        self.pause = Some((now.saturating_add(pause), pause));
    }

    /// Whole segments while there is more than one; all of it otherwise. At most four segments a round, so that a round
    /// is never long.
    fn round_bytes(&self, inline_bytes: u64) -> u64 {
        let whole = inline_bytes / self.segment_size;
        if whole == 0 { inline_bytes } else { whole.min(4).saturating_mul(self.segment_size) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SEGMENT: u32 = 16 << 20;

    fn secs(s: u64) -> Duration {
        Duration::from_secs(s)
    }

    #[test]
    fn a_full_segment_is_packed_at_once_and_a_small_backlog_waits() {
        let mut planner = PackPlanner::new(SEGMENT);
        let full = u64::from(SEGMENT);
        assert_eq!(planner.clone().step(secs(0), full), PackStep::Pack { max_bytes: full });
        assert!(matches!(planner.step(secs(0), 10), PackStep::Wait(_)));
        assert!(matches!(planner.step(WAIT_LITTLE - Duration::from_millis(1), 10), PackStep::Wait(_)));
        assert_eq!(planner.step(WAIT_LITTLE, 10), PackStep::Pack { max_bytes: 10 });
    }

    #[test]
    fn failures_pause_longer_and_longer() {
        let mut planner = PackPlanner::new(SEGMENT);
        let mut now = secs(100);
        let full = u64::from(SEGMENT);
        let mut pauses = Vec::new();
        for _ in 0..9 {
            planner.failed(now);
            let start = now;
            while matches!(planner.step(now, full), PackStep::Wait(_)) {
                now += Duration::from_millis(100);
            }
            pauses.push((now - start).as_secs());
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        planner.packed(now, full);
        assert!(matches!(planner.step(now, full), PackStep::Pack { .. }));
    }

    #[derive(Clone, Debug)]
    enum Event {
        Grow(u64),
        Advance(u64),
        Fail,
    }

    fn event() -> impl Strategy<Value = Event> {
        prop_oneof![
            (1u64..40 << 20).prop_map(Event::Grow),
            (1u64..20_000).prop_map(Event::Advance),
            Just(Event::Fail),
        ]
    }

    proptest! {
        /// Whatever happens: nothing is packed when there is nothing; a round never takes more than there is; no wait is
        /// longer than the promised one; and a backlog is packed at the latest after the longest wait plus pause.
        #[test]
        fn every_backlog_is_packed_in_time(events in proptest::collection::vec(event(), 1..200)) {
            let mut planner = PackPlanner::new(SEGMENT);
            let (mut now, mut backlog) = (Duration::ZERO, 0u64);
            let mut waiting_since: Option<Duration> = None;
            for event in events {
                match event {
                    Event::Grow(bytes) => backlog += bytes,
                    Event::Advance(ms) => now += Duration::from_millis(ms),
                    Event::Fail => {}
                }
                match planner.step(now, backlog) {
                    PackStep::Pack { max_bytes } => {
                        prop_assert!(backlog > 0 && max_bytes > 0 && max_bytes <= backlog);
                        prop_assert!(max_bytes <= 4 * u64::from(SEGMENT));
                        if matches!(event, Event::Fail) {
                            planner.failed(now);
                        } else {
                            backlog -= max_bytes;
                            planner.packed(now, max_bytes);
                        }
                        waiting_since = None;
                    }
                    PackStep::Wait(time) => {
                        prop_assert!(time <= LOOK_AGAIN && !time.is_zero());
                        if backlog > 0 {
                            let since = *waiting_since.get_or_insert(now);
                            prop_assert!(now - since < WAIT_LITTLE + PAUSE_MAX);
                        }
                    }
                }
            }
        }
    }
}
