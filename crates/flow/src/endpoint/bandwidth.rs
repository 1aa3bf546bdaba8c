//! How fast an endpoint delivers: the most of the last intervals, after BBR (Cardwell, Cheng, Gunn, Yeganeh, Jacobson:
//! "BBR: Congestion-Based Congestion Control", 2016).
//!
//! An interval is about as long as one fetch takes, so that fetches which come in bursts are not taken for speed. Intervals in
//! which the readers wanted less than was allowed may only raise the estimate: they say nothing about what is possible. Nor do those in which
//! less was allowed than there had been because fetches were refused. What the first fetches bring while they come may only raise it as well
//! (`limit/burst.rs`): for most of an interval they only wait.

use std::time::Duration;

/// Intervals that are remembered.
const INTERVALS: usize = 10;

/// The constants of a [`Bandwidth`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tuning {
    /// Shortest interval: below it, scheduling and interrupts are what is measured.
    pub interval_least: Duration,
    /// Longest interval: a change is to be seen within two seconds, so several must fit.
    pub interval_most: Duration,
    /// An interval that is older than this no longer counts, if newer ones came that were not limited by the readers.
    pub window: Duration,
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning {
            interval_least: Duration::from_millis(20),
            interval_most: Duration::from_millis(500),
            window: Duration::from_secs(2),
        }
    }
}

/// The delivery rate of one endpoint.
#[derive(Debug, Clone)]
pub struct Bandwidth {
    tuning: Tuning,
    /// End and bytes per second of the last intervals.
    samples: [Option<(Duration, f64)>; INTERVALS],
    next: usize,
    began: Duration,
    bytes: u64,
    /// The readers were the limit at some time in this interval.
    limited: bool,
}

impl Bandwidth {
    /// Nothing was delivered yet.
    pub fn new(tuning: Tuning) -> Bandwidth {
        Bandwidth {
            tuning,
            samples: [None; INTERVALS],
            next: 0,
            began: Duration::ZERO,
            bytes: 0,
            limited: false,
        }
    }

    /// Fetches are in flight again after there were none: what came in between is nobody's rate.
    pub fn resumed(&mut self, now: Duration) {
        (self.began, self.bytes, self.limited) = (now, 0, false);
    }

    /// So many bytes arrived. `duration`: how long fetches take lately. `limited`: fewer are in flight than is allowed.
    pub fn delivered(&mut self, now: Duration, bytes: u64, duration: Duration, limited: bool) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.limited |= limited;
        let passed = now.saturating_sub(self.began);
        let least = self.tuning.interval_least.max(Duration::from_micros(1));
        if passed >= duration.min(self.tuning.interval_most).max(least) {
            self.measured(now, self.bytes as f64 / passed.as_secs_f64(), self.limited);
            self.resumed(now);
        }
    }

    /// An interval that somebody else has measured ends: so many bytes per second, of readers or writers who were the limit or not.
    pub fn measured(&mut self, now: Duration, rate: f64, limited: bool) {
        if !limited || self.rate().is_none_or(|most| rate > most) {
            self.push(now, rate);
        }
    }

    /// So many bytes per second are known from another time.
    pub fn recall(&mut self, now: Duration, rate: u64) {
        self.push(now, rate as f64);
    }

    /// Bytes per second; `None` before the first interval has passed.
    pub fn get(&self) -> Option<u64> {
        self.rate().map(|rate| rate as u64)
    }

    fn rate(&self) -> Option<f64> {
        self.samples.iter().flatten().map(|(_, rate)| *rate).max_by(f64::total_cmp)
    }

    fn push(&mut self, now: Duration, rate: f64) {
        for sample in &mut self.samples {
            if sample.is_some_and(|(at, _)| at.saturating_add(self.tuning.window) < now) {
                *sample = None;
            }
        }
        if let Some(slot) = self.samples.get_mut(self.next) {
            *slot = Some((now, rate));
        }
        self.next = (self.next + 1) % INTERVALS;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Delivers at `rate` bytes per second for `time`, a piece every millisecond.
    fn deliver(bandwidth: &mut Bandwidth, now: &mut Duration, rate: u64, time: Duration, limited: bool) {
        let end = *now + time;
        while *now < end {
            *now += MS;
            bandwidth.delivered(*now, rate / 1_000, 50 * MS, limited);
        }
    }

    #[test]
    fn it_follows_steps_within_two_seconds_and_ignores_idle_readers() {
        let mut bandwidth = Bandwidth::new(Tuning::default());
        let mut now = Duration::from_secs(100);
        bandwidth.resumed(now);
        let near = |bandwidth: &Bandwidth, rate: u64| {
            bandwidth.get().is_some_and(|got| got.abs_diff(rate) < rate / 50)
        };
        deliver(&mut bandwidth, &mut now, 100_000_000, 200 * MS, false);
        assert!(near(&bandwidth, 100_000_000));
        deliver(&mut bandwidth, &mut now, 1_000_000_000, 200 * MS, false);
        assert!(near(&bandwidth, 1_000_000_000));
        deliver(&mut bandwidth, &mut now, 5_000_000, Duration::from_secs(60), true);
        assert!(near(&bandwidth, 1_000_000_000), "slow readers say nothing about the endpoint");
        deliver(&mut bandwidth, &mut now, 100_000_000, Duration::from_secs(2), false);
        assert!(near(&bandwidth, 100_000_000), "{:?}", bandwidth.get());
        deliver(&mut bandwidth, &mut now, 300_000_000, 200 * MS, true);
        assert!(near(&bandwidth, 300_000_000), "they may raise it");
    }

    #[test]
    fn one_new_interval_is_enough_to_forget_what_is_older_than_the_window() {
        let mut bandwidth = Bandwidth::new(Tuning::default());
        let mut now = Duration::ZERO;
        deliver(&mut bandwidth, &mut now, 1_000_000_000, 100 * MS, false);
        deliver(&mut bandwidth, &mut now, 5_000_000, 3_000 * MS, true);
        assert_eq!(bandwidth.get(), Some(1_000_000_000), "nothing else was possible to see");
        deliver(&mut bandwidth, &mut now, 100_000_000, 110 * MS, false);
        assert!(bandwidth.get().is_some_and(|got| got < 150_000_000), "{:?}", bandwidth.get());
    }

    #[test]
    fn a_pause_is_not_taken_for_slowness() {
        let mut bandwidth = Bandwidth::new(Tuning::default());
        let mut now = Duration::ZERO;
        for _ in 0..20 {
            now += Duration::from_secs(3);
            bandwidth.resumed(now);
            deliver(&mut bandwidth, &mut now, 100_000_000, 60 * MS, false);
        }
        assert!(bandwidth.get().is_some_and(|got| got > 95_000_000), "{:?}", bandwidth.get());
    }

    #[test]
    fn the_most_of_the_last_ten_intervals_counts_for_two_seconds() {
        let mut bandwidth = Bandwidth::new(Tuning::default());
        let mut now = Duration::from_secs(100);
        bandwidth.resumed(now);
        deliver(&mut bandwidth, &mut now, 500_000_000, 50 * MS, false);
        for interval in 1..20 {
            deliver(&mut bandwidth, &mut now, 100_000_000, 50 * MS, false);
            let fast = bandwidth.get().is_some_and(|got| got > 490_000_000);
            assert_eq!(fast, interval < 10, "after {interval}");
        }
    }

    proptest! {
        /// No input makes it panic, and it never reports more than the most that arrived in the shortest interval.
        #[test]
        fn it_is_bounded_by_what_arrived(events in proptest::collection::vec((0u64..10_000_000_000, any::<u32>(), any::<u64>(), any::<bool>()), 1..200)) {
            let mut bandwidth = Bandwidth::new(Tuning::default());
            let mut now = Duration::ZERO;
            let mut all = 0u64;
            for (step, bytes, duration, limited) in events {
                now += Duration::from_nanos(step);
                all += u64::from(bytes);
                bandwidth.delivered(now, u64::from(bytes), Duration::from_nanos(duration), limited);
                prop_assert!(bandwidth.get().unwrap_or(0) <= all.saturating_mul(50));
            }
            bandwidth.delivered(Duration::MAX, u64::MAX, Duration::MAX, false);
            bandwidth.delivered(Duration::ZERO, u64::MAX, Duration::ZERO, true);
        }
    }
}
