//! How fast the store takes what is written: [`Bandwidth`] of what it acknowledges.
//!
//! While nothing is acknowledged nothing is learned: a stall says nothing about how fast the store is when it is over. A store that has
//! become so slow that its acknowledgements are far apart looks like one, once; from the second such gap on it counts as slow.

use std::time::Duration;

use crate::endpoint::bandwidth::{Bandwidth, Tuning};

/// A gap between acknowledgements of so many times what a part takes is a stall.
const STALL: u32 = 4;
/// A new part has this share in what parts take.
const SHARE: u32 = 8;

/// See the [module](self).
#[derive(Debug)]
pub struct Drain {
    tuning: Tuning,
    bandwidth: Bandwidth,
    /// How long a part takes, a moving mean; zero before the first.
    took: Duration,
    /// The last acknowledgement, or when parts were sent after there were none.
    last: Duration,
    /// When the last stall ended.
    stalled: Option<Duration>,
}

impl Drain {
    /// Nothing was acknowledged yet.
    pub fn new(tuning: Tuning) -> Drain {
        let bandwidth = Bandwidth::new(tuning);
        Drain { tuning, bandwidth, took: Duration::ZERO, last: Duration::ZERO, stalled: None }
    }

    /// Parts are in flight again after there were none. That they all come back together, and others are sent at once, is no pause.
    pub fn resumed(&mut self, now: Duration) {
        if now.saturating_sub(self.last) >= self.tuning.interval_least {
            self.last = now;
            self.bandwidth.resumed(now);
        }
    }

    /// So many bytes, sent at `sent`, were acknowledged. `limited`: nobody waited to write more.
    pub fn delivered(&mut self, now: Duration, sent: Duration, bytes: u64, limited: bool) {
        let gap = now.saturating_sub(self.last);
        let flowed = self.last.saturating_sub(self.stalled.unwrap_or(Duration::ZERO));
        let last = std::mem::replace(&mut self.last, now);
        let usual = self.took.saturating_mul(STALL).max(self.tuning.interval_most);
        if gap > usual && flowed >= self.tuning.interval_most {
            self.stalled = Some(now);
            self.bandwidth.resumed(now);
            return;
        }
        // What was sent before a stall did not take all that time.
        let took = now.saturating_sub(sent.max(self.stalled.unwrap_or(Duration::ZERO)).min(last.max(sent)));
        self.took = if self.took.is_zero() { took } else { (self.took * (SHARE - 1) + took) / SHARE };
        self.bandwidth.delivered(now, bytes, self.took, limited);
    }

    /// Bytes per second; none before the first interval has passed.
    pub fn rate(&self) -> Option<u64> {
        self.bandwidth.get()
    }

    /// How long a part takes lately; zero before the first.
    pub fn took(&self) -> Duration {
        self.took
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const MIB: u64 = 1 << 20;

    /// Parts of a MiB, so many a second for so long, each of which takes `took`.
    fn deliver(
        drain: &mut Drain,
        now: &mut Duration,
        per_second: u32,
        time: Duration,
        took: Duration,
        limited: bool,
    ) {
        let end = *now + time;
        while *now < end {
            *now += Duration::from_secs(1) / per_second;
            drain.delivered(*now, now.saturating_sub(took), MIB, limited);
        }
    }

    fn near(drain: &Drain, mib: u64) -> bool {
        drain.rate().is_some_and(|rate| rate.abs_diff(mib * MIB) < mib * MIB / 20)
    }

    #[test]
    fn a_stall_changes_nothing_and_what_comes_after_it_counts() {
        for stall in [5_000 * MS, 60_000 * MS] {
            let mut drain = Drain::new(Tuning::default());
            let mut now = Duration::from_secs(100);
            drain.resumed(now);
            deliver(&mut drain, &mut now, 700, 1_000 * MS, 200 * MS, false);
            let before = drain.rate();
            assert!(near(&drain, 700), "{before:?}");
            let began = now;
            now += stall;
            for _ in 0..100 {
                // All that was sent before comes within a moment.
                drain.delivered(now, began, MIB, false);
                now += MS / 10;
                assert_eq!(drain.rate(), before);
            }
            deliver(&mut drain, &mut now, 300, 3_000 * MS, 200 * MS, false);
            assert!(near(&drain, 300), "{:?}", drain.rate());
            assert!(drain.took() < 500 * MS, "{:?}", drain.took());
        }
    }

    #[test]
    fn a_store_that_becomes_very_slow_is_not_taken_for_one_that_stalls() {
        for together in [1, 2, 4] {
            let mut drain = Drain::new(Tuning::default());
            let mut now = Duration::from_secs(100);
            drain.resumed(now);
            deliver(&mut drain, &mut now, 200, 2_000 * MS, 100 * MS, false);
            for _ in 0..4 {
                // One MiB a second, in bunches.
                now += together * 1_000 * MS;
                for _ in 0..together {
                    drain.delivered(now, now - together * 1_000 * MS, MIB, false);
                }
            }
            assert!(drain.rate().is_some_and(|rate| rate <= 2 * MIB), "{together}: {:?}", drain.rate());
        }
    }

    #[test]
    fn parts_that_come_back_together_are_one_delivery() {
        let mut drain = Drain::new(Tuning::default());
        let mut now = Duration::from_secs(100);
        drain.resumed(now);
        for _ in 0..10 {
            now += 450 * MS;
            for _ in 0..9 {
                drain.delivered(now, now - 449 * MS, MIB, false);
            }
            now += MS;
            drain.resumed(now);
        }
        assert!(near(&drain, 20), "{:?}", drain.rate());
    }

    #[test]
    fn a_writer_that_is_slower_than_the_store_says_nothing() {
        let mut drain = Drain::new(Tuning::default());
        let mut now = Duration::from_secs(100);
        drain.resumed(now);
        deliver(&mut drain, &mut now, 700, 1_000 * MS, 100 * MS, false);
        deliver(&mut drain, &mut now, 50, 20_000 * MS, 10 * MS, true);
        assert!(near(&drain, 700), "{:?}", drain.rate());
        now += Duration::from_secs(60);
        drain.resumed(now);
        deliver(&mut drain, &mut now, 350, 3_000 * MS, 100 * MS, false);
        assert!(near(&drain, 350), "{:?}", drain.rate());
    }
}
