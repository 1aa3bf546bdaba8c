//! When a fetch is late enough to be sent a second time, after "The Tail at Scale" (Dean and Barroso, 2013): once it is later
//! than nearly all are, and as long as second attempts stay a small share of all fetches.

use std::time::Duration;

use super::latency::Quantile;

/// The constants of a [`Hedge`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tuning {
    /// A fetch is late when this share of all had its first byte sooner.
    pub quantile: f64,
    /// Second attempts for each first one. Two in a hundred cost little and cut the tail that the quantile leaves.
    pub share: f64,
    /// Second attempts that may be made at once, saved up while there were none.
    pub burst: f64,
    /// No fetch is late before this: below it, what is measured is our own machine.
    pub floor: Duration,
    /// No fetch is late before this many times the median: where latencies hardly differ, the last percent is no sign of trouble.
    pub medians: f64,
    /// What counts as late while fewer than `samples` latencies are known (the least of this and eight times the longest).
    pub unknown: Duration,
    /// Latencies that must be known before the quantile is believed.
    pub samples: f64,
    /// A latency counts half after so many more.
    pub half_life: u32,
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning {
            quantile: 0.99,
            share: 0.02,
            burst: 4.0,
            floor: Duration::from_millis(10),
            medians: 1.5,
            unknown: Duration::from_secs(2),
            samples: 100.0,
            half_life: 1_000,
        }
    }
}

/// Lateness and budget of second attempts at one endpoint.
#[derive(Debug, Clone)]
pub struct Hedge {
    tuning: Tuning,
    late: Quantile,
    median: Quantile,
    /// Pauses within a body: nearly all are shorter than this.
    pauses: Quantile,
    longest: Duration,
    tokens: f64,
}

impl Hedge {
    /// Nothing is known yet; one second attempt may be made.
    pub fn new(tuning: Tuning) -> Hedge {
        Hedge {
            late: Quantile::new(tuning.quantile, tuning.half_life),
            median: Quantile::new(0.5, tuning.half_life),
            pauses: Quantile::new(0.999, tuning.half_life.saturating_mul(16)),
            longest: Duration::ZERO,
            tokens: tuning.burst.min(1.0),
            tuning,
        }
    }

    /// A first attempt was sent.
    pub fn started(&mut self) {
        self.tokens = (self.tokens + self.tuning.share).min(self.tuning.burst);
    }

    /// A first byte took so long. For a fetch that was given up because its second attempt won: it would have taken at least so
    /// long (without these, the quantile would only know the quick ones, and creep down).
    pub fn answered(&mut self, latency: Duration) {
        self.late.record(latency);
        self.median.record(latency);
        self.longest = self.longest.max(latency);
    }

    /// Between two pieces of a body so much time passed.
    pub fn paused(&mut self, pause: Duration) {
        self.pauses.record(pause);
    }

    /// The usual latency.
    pub fn median(&self) -> Option<Duration> {
        self.median.get()
    }

    /// How long the first byte of a fetch may take before it is late.
    pub fn late(&self) -> Duration {
        let tuning = &self.tuning;
        let usual = match (self.late.get(), self.median.get()) {
            (Some(late), Some(median)) if self.late.weight() >= tuning.samples => {
                late.max(Duration::try_from_secs_f64(median.as_secs_f64() * tuning.medians).unwrap_or(late))
            }
            (Some(_), Some(_)) => self.longest.saturating_mul(8).min(tuning.unknown),
            _ => tuning.unknown,
        };
        usual.max(tuning.floor)
    }

    /// When a fetch is to be sent a second time if nothing (more) of it arrives: `last` is when it was sent or its newest bytes
    /// arrived, `first_byte` whether any did.
    pub fn due(&self, last: Duration, first_byte: bool) -> Duration {
        let late = self.late();
        let pause = if first_byte { self.pauses.get().map_or(late, |pause| pause.max(late)) } else { late };
        last.saturating_add(pause)
    }

    /// Whether the budget allows a second attempt.
    pub fn affordable(&self) -> bool {
        self.tokens >= 1.0
    }

    /// A second attempt is made. `false` if the budget does not allow it.
    pub fn take(&mut self) -> bool {
        let take = self.affordable();
        if take {
            self.tokens -= 1.0;
        }
        take
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::model::Random;
    use super::*;

    /// 20,000 fetches whose second attempt, if there is one, is a new draw: latencies without and with hedging, and the share.
    fn run(seed: u64, sigma: f64, tail: f64) -> (Vec<f64>, Vec<f64>, f64) {
        let mut random = Random::new(seed);
        let mut hedge = Hedge::new(Tuning::default());
        let (mut plain, mut hedged, mut second) = (Vec::new(), Vec::new(), 0);
        for _ in 0..20_000 {
            hedge.started();
            let latency = random.latency(0.02, sigma, tail);
            let due = hedge.due(Duration::ZERO, false).as_secs_f64();
            let mut got = latency;
            if latency > due && hedge.take() {
                second += 1;
                got = latency.min(due + random.latency(0.02, sigma, tail));
            }
            hedge.answered(Duration::from_secs_f64(got.max(due.min(latency))));
            plain.push(latency);
            hedged.push(got);
        }
        plain.sort_by(f64::total_cmp);
        hedged.sort_by(f64::total_cmp);
        (plain, hedged, f64::from(second) / 20_000.0)
    }

    #[test]
    fn the_tail_is_cut_at_two_percent_of_extra_fetches() {
        for seed in 0..10 {
            let (plain, hedged, share) = run(seed, 0.3, 0.01);
            assert!(share <= 0.0203, "{share}");
            assert!(share >= 0.004, "it hedges at all: {share}");
            let p999 = plain.len() * 999 / 1000;
            assert!(hedged[p999] < plain[p999] / 2.0, "p99.9 {} without, {} with", plain[p999], hedged[p999]);
        }
    }

    #[test]
    fn where_latencies_hardly_differ_nothing_is_hedged() {
        let (_, _, share) = run(3, 0.05, 0.0);
        assert!(share < 0.001, "{share}");
    }

    #[test]
    fn a_hung_first_fetch_is_noticed() {
        let mut hedge = Hedge::new(Tuning::default());
        hedge.started();
        assert_eq!(hedge.due(Duration::ZERO, false), Tuning::default().unknown);
        assert!(hedge.take());
        assert!(!hedge.take(), "one is all there is at the start");
        hedge.answered(Duration::from_millis(20));
        assert!(hedge.due(Duration::ZERO, false) <= Duration::from_millis(200));
    }

    #[test]
    fn few_latencies_say_only_what_is_far_too_late() {
        let mut hedge = Hedge::new(Tuning::default());
        for n in 0..99 {
            hedge.answered(Duration::from_millis(20));
            assert_eq!(hedge.late(), Duration::from_millis(160), "after {n}");
        }
        hedge.answered(Duration::from_millis(20));
        assert!(hedge.late() < Duration::from_millis(40), "now nearly all are known: {:?}", hedge.late());
        assert!(hedge.median().is_some_and(|median| median.as_millis().abs_diff(20) <= 2));
    }

    proptest! {
        /// Never more than the share and the burst, whatever is asked for; lateness never falls below the floor.
        #[test]
        fn the_budget_holds(events in proptest::collection::vec((any::<bool>(), 0u64..10_000_000_000), 1..2_000)) {
            let mut hedge = Hedge::new(Tuning::default());
            let (mut first, mut second) = (0u32, 0u32);
            for (hedging, nanos) in events {
                if hedging {
                    second += u32::from(hedge.take());
                } else {
                    first += 1;
                    hedge.started();
                    hedge.answered(Duration::from_nanos(nanos));
                    hedge.paused(Duration::from_nanos(nanos));
                }
                prop_assert!(f64::from(second) <= 0.02 * f64::from(first) + Tuning::default().burst);
                let last = Duration::from_secs(1);
                prop_assert!(hedge.due(last, false) >= last + Tuning::default().floor);
                prop_assert!(hedge.due(last, true) >= hedge.due(last, false));
            }
            hedge.answered(Duration::MAX);
            prop_assert!(hedge.due(Duration::MAX, true) == Duration::MAX);
        }
    }
}
