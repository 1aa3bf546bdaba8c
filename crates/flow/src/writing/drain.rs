//! How fast the store takes what is written: the most of the last rounds, as [`Bandwidth`] keeps it.
//!
//! Parts are large, and those that share a network are often acknowledged together: any fixed time may have the ends of twice as many in it
//! as it has room for, and a window made by that is twice as long. So what is measured is a *round*: from one acknowledgement until as many bytes
//! were acknowledged as were in flight at the next one (a round trip of BBR; Cardwell et al., 2016). Its rate is what was acknowledged in it or,
//! if that is less, what by Little's law flows where so much is in flight for so long: the former is too much where a round has two bursts in
//! it, the latter while a queue is only filling.
//!
//! While nothing is acknowledged nothing is learned: a stall says nothing about how fast the store is when it is over. A store that has
//! become so slow that its acknowledgements are far apart looks like one, once; from the second such gap on it counts as slow.

use std::time::Duration;

use crate::endpoint::bandwidth::{Bandwidth, Tuning};

/// A gap between acknowledgements of so many times what a part takes is a stall.
const STALL: u32 = 4;
/// A new part has this share in what parts take.
const SHARE: u32 = 8;

/// What came of a round.
#[derive(Debug, Clone, Copy)]
pub struct Measured {
    /// Bytes per second.
    pub rate: f64,
    /// Seconds that a part was in flight.
    pub life: f64,
    /// Parts in flight, by Little's law.
    pub parts: f64,
    /// When the first of its parts was sent.
    pub since: Duration,
}

/// What was acknowledged since a moment.
#[derive(Debug, Default)]
struct Round {
    began: Duration,
    bytes: u64,
    /// What was in flight at its first acknowledgement.
    whole: u64,
    /// When the first of these was sent.
    since: Option<Duration>,
    /// Somebody waited to write more at some of its acknowledgements.
    waited: bool,
    /// Bytes in flight, times seconds, until `at`.
    area: f64,
    at: Duration,
    /// Bytes acknowledged, times the seconds that they were in flight.
    lives: f64,
    /// The same of parts, of whatever size.
    part_lives: f64,
}

impl Round {
    fn flew(&mut self, now: Duration, flying: u64) {
        self.area += flying as f64 * now.saturating_sub(self.at.max(self.began)).as_secs_f64();
        self.at = now;
    }

    /// Seconds that a part was in flight, of mean size.
    fn life(&self) -> f64 {
        self.lives / (self.bytes as f64).max(1.0)
    }

    /// Bytes per second.
    fn rate(&self, now: Duration) -> f64 {
        let passed = now.saturating_sub(self.began).as_secs_f64().max(1e-9);
        let bytes = self.bytes as f64;
        (bytes / passed).min(self.area / passed / self.life().max(1e-9))
    }
}

/// See the [module](self).
#[derive(Debug)]
pub struct Drain {
    tuning: Tuning,
    bandwidth: Bandwidth,
    round: Round,
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
        Drain {
            tuning,
            bandwidth,
            round: Round::default(),
            took: Duration::ZERO,
            last: Duration::ZERO,
            stalled: None,
        }
    }

    /// Parts are in flight again after there were none. That they all come back together, and others are sent at once, is no pause.
    pub fn resumed(&mut self, now: Duration) {
        if now.saturating_sub(self.last) >= self.tuning.interval_least {
            self.last = now;
            self.begin(now);
        }
    }

    fn begin(&mut self, now: Duration) {
        self.round = Round { began: now, at: now, ..Round::default() };
    }

    /// Until now so many bytes were in flight, since it was last told.
    pub fn flew(&mut self, now: Duration, flying: u64) {
        self.round.flew(now, flying);
    }

    /// So many bytes, sent at `sent`, were acknowledged, of `flying` that were in flight. `limited`: nobody waited to write more. The
    /// round that is over by this, if somebody did in it.
    pub fn delivered(
        &mut self,
        now: Duration,
        sent: Duration,
        bytes: u64,
        flying: u64,
        limited: bool,
    ) -> Option<Measured> {
        let gap = now.saturating_sub(self.last);
        let flowed = self.last.saturating_sub(self.stalled.unwrap_or(Duration::ZERO));
        let last = std::mem::replace(&mut self.last, now);
        let usual = self.took.saturating_mul(STALL).max(self.tuning.interval_most);
        if gap > usual && flowed >= self.tuning.interval_most {
            self.stalled = Some(now);
            self.begin(now);
            return None;
        }
        // What was sent before a stall did not take all that time.
        let took = now.saturating_sub(sent.max(self.stalled.unwrap_or(Duration::ZERO)).min(last.max(sent)));
        self.took = if self.took.is_zero() { took } else { (self.took * (SHARE - 1) + took) / SHARE };
        let round = &mut self.round;
        round.flew(now, flying);
        if round.bytes == 0 {
            round.whole = flying;
        }
        round.bytes = round.bytes.saturating_add(bytes);
        round.lives += bytes as f64 * took.as_secs_f64();
        round.part_lives += took.as_secs_f64();
        round.since = Some(round.since.map_or(sent, |since| since.min(sent)));
        round.waited |= !limited;
        let passed = now.saturating_sub(round.began);
        // A store that has become slower takes long for what was in flight before.
        let usual =
            |rate: u64| Duration::try_from_secs_f64(2.0 * round.whole as f64 / (rate as f64).max(1.0));
        let usual = self.bandwidth.get().and_then(|rate| usual(rate).ok());
        let most = usual.map_or(self.tuning.window, |usual| usual.max(self.tuning.interval_most));
        let over = round.bytes >= round.whole || passed >= most;
        if !over || passed < self.tuning.interval_least.max(Duration::from_micros(1)) {
            return None;
        }
        let (rate, waited) = (round.rate(now), round.waited);
        let measured = Measured {
            rate,
            life: round.life(),
            parts: round.part_lives / passed.as_secs_f64(),
            since: round.since.unwrap_or(sent),
        };
        self.bandwidth.measured(now, rate, !waited);
        self.begin(now);
        waited.then_some(measured)
    }

    /// Bytes per second; none before the first round is over.
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
            drain.delivered(*now, now.saturating_sub(took), MIB, in_flight(per_second, took), limited);
        }
    }

    fn in_flight(per_second: u32, took: Duration) -> u64 {
        ((f64::from(per_second) * took.as_secs_f64()) as u64).max(1) * MIB
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
            for left in (1..=100).rev() {
                // All that was sent before comes within a moment.
                drain.delivered(now, began, MIB, left * MIB, false);
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
                for left in (1..=u64::from(together)).rev() {
                    drain.delivered(now, now - together * 1_000 * MS, MIB, left * MIB, false);
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
            for left in (1..=9).rev() {
                drain.delivered(now, now - 449 * MS, MIB, left * MIB, false);
            }
            now += MS;
            drain.resumed(now);
        }
        assert!(near(&drain, 20), "{:?}", drain.rate());
    }

    #[test]
    fn parts_that_end_within_half_of_the_time_they_take_are_no_faster_for_it() {
        let mut drain = Drain::new(Tuning::default());
        let mut now = Duration::from_secs(100);
        drain.resumed(now);
        for _ in 0..10 {
            // Twelve in flight, which are 20 a second; they end within 0.3 s, and nothing for another 0.3 s.
            now += 300 * MS;
            for _ in 0..12 {
                now += 25 * MS;
                drain.delivered(now, now - 600 * MS, MIB, 12 * MIB, false);
            }
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
