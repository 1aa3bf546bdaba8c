//! How long first bytes take: the least of the last seconds, and quantiles of late.

use std::time::Duration;

/// Buckets of the sliding window of [`LeastLatency`]: it forgets in steps of a tenth of the window.
const STEPS: usize = 10;

/// The least latency in a sliding window.
#[derive(Debug, Clone)]
pub struct LeastLatency {
    step: Duration,
    /// The least of each step, by step number modulo [`STEPS`].
    least: [Option<Duration>; STEPS],
    /// Number of the newest step.
    newest: u64,
}

impl LeastLatency {
    /// Forgets samples that are older than `window` (at least 10 ms), give or take a tenth.
    pub fn new(window: Duration) -> LeastLatency {
        let step = (window / STEPS as u32).max(Duration::from_millis(1));
        LeastLatency { step, least: [None; STEPS], newest: 0 }
    }

    /// One sample.
    pub fn record(&mut self, now: Duration, latency: Duration) {
        let number = u64::try_from(now.as_nanos() / self.step.as_nanos()).unwrap_or(u64::MAX);
        // Time that goes back counts as standing still.
        let passed = number.saturating_sub(self.newest).min(STEPS as u64);
        for back in 0..passed {
            self.slot(number.saturating_sub(back), |slot| *slot = None);
        }
        self.newest = self.newest.max(number);
        self.slot(self.newest, |slot| *slot = Some(slot.map_or(latency, |least| least.min(latency))));
    }

    /// The least of the window that ends with the newest sample.
    pub fn get(&self) -> Option<Duration> {
        self.least.iter().flatten().min().copied()
    }

    fn slot(&mut self, number: u64, change: impl FnOnce(&mut Option<Duration>)) {
        if let Some(slot) = self.least.get_mut((number % STEPS as u64) as usize) {
            change(slot);
        }
    }
}

/// Buckets for each doubling: neighbours are 9 % apart, and interpolation leaves an error of a few percent.
const PER_OCTAVE: f64 = 8.0;
/// Lower end of the first bucket, seconds. What is below it counts as it.
const SHORTEST: f64 = 1e-6;
/// 1 µs * 2^(224 / 8) = 268 s. What is above it counts as it.
const BUCKETS: usize = 224;
/// The quantile is looked up again after so many samples.
const REFRESH: u32 = 8;

/// One quantile of a stream of durations of which the newest count most: a histogram with logarithmic buckets whose counts
/// are halved after every so many samples.
///
/// (The P² estimator of Jain and Chlamtac, 1985, needs less memory, but it never forgets, and after a step it creeps.)
#[derive(Debug, Clone)]
pub struct Quantile {
    share: f64,
    half_life: u32,
    counts: Box<[f32; BUCKETS]>,
    total: f64,
    since_halved: u32,
    since_looked: u32,
    value: Option<Duration>,
}

impl Quantile {
    /// The duration that `share` (0 to 1) of the samples do not exceed; a sample counts half after `half_life` more.
    pub fn new(share: f64, half_life: u32) -> Quantile {
        Quantile {
            share: share.clamp(0.0, 1.0),
            half_life: half_life.max(8),
            counts: Box::new([0.0; BUCKETS]),
            total: 0.0,
            since_halved: 0,
            since_looked: 0,
            value: None,
        }
    }

    /// One sample.
    pub fn record(&mut self, sample: Duration) {
        let position = ((sample.as_secs_f64() / SHORTEST).max(1.0).log2() * PER_OCTAVE) as usize;
        if let Some(count) = self.counts.get_mut(position.min(BUCKETS - 1)) {
            *count += 1.0;
            self.total += 1.0;
        }
        self.since_halved += 1;
        if self.since_halved >= self.half_life {
            self.since_halved = 0;
            self.counts.iter_mut().for_each(|count| *count /= 2.0);
            self.total /= 2.0;
        }
        self.since_looked += 1;
        // The first samples move it most.
        if self.since_looked >= REFRESH || self.total < f64::from(REFRESH) {
            self.since_looked = 0;
            self.value = self.look();
        }
    }

    /// The estimate; `None` before the first sample.
    pub fn get(&self) -> Option<Duration> {
        self.value
    }

    /// How many samples it rests on (old ones count less).
    pub fn weight(&self) -> f64 {
        self.total
    }

    fn look(&self) -> Option<Duration> {
        let wanted = self.share * self.total;
        let mut below = 0.0;
        let mut last = None;
        for (index, count) in self.counts.iter().enumerate() {
            let count = f64::from(*count);
            if count > 0.0 {
                let inside = ((wanted - below) / count).clamp(0.0, 1.0);
                last = Some(SHORTEST * ((index as f64 + inside) / PER_OCTAVE).exp2());
                below += count;
                if below >= wanted {
                    break;
                }
            }
        }
        last.map(Duration::from_secs_f64)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::model::Random;
    use super::*;

    fn exact(samples: &[f64], share: f64) -> f64 {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted[((share * sorted.len() as f64) as usize).min(sorted.len() - 1)]
    }

    #[test]
    fn quantiles_are_within_ten_percent_also_of_heavy_tails() {
        for seed in 0..20 {
            let mut random = Random::new(seed);
            for tail in [0.0, 0.02] {
                let samples: Vec<f64> = (0..4_000).map(|_| random.latency(0.02, 0.4, tail)).collect();
                for share in [0.5, 0.9, 0.99] {
                    let mut quantile = Quantile::new(share, 1_000_000);
                    samples.iter().for_each(|sample| quantile.record(Duration::from_secs_f64(*sample)));
                    let got = quantile.get().expect("there were samples").as_secs_f64();
                    let low = exact(&samples, share - 0.003) * 0.92;
                    let high = exact(&samples, (share + 0.003).min(1.0)) * 1.08;
                    assert!((low..=high).contains(&got), "p{share} {got}, not in {low}..{high}");
                }
            }
        }
    }

    #[test]
    fn a_quantile_follows_a_step_both_ways() {
        let mut random = Random::new(1);
        let mut quantile = Quantile::new(0.99, 256);
        for (latency, samples) in [(0.02, 2_000), (0.2, 300), (0.02, 2_500)] {
            (0..samples)
                .for_each(|_| quantile.record(Duration::from_secs_f64(random.latency(latency, 0.1, 0.0))));
            let got = quantile.get().expect("there were samples").as_secs_f64();
            assert!((latency..latency * 1.6).contains(&got), "{got} after a step to {latency}");
        }
    }

    proptest! {
        /// The window keeps the least and lets go of it: compared with a list of all samples.
        #[test]
        fn the_least_is_that_of_the_window(samples in proptest::collection::vec((0u64..3_000, 1u64..1_000), 1..200)) {
            let window = Duration::from_secs(10);
            let mut least = LeastLatency::new(window);
            let mut all: Vec<(Duration, Duration)> = Vec::new();
            let mut now = Duration::ZERO;
            for (step, latency) in samples {
                now += Duration::from_millis(step);
                let latency = Duration::from_millis(latency);
                least.record(now, latency);
                all.push((now, latency));
                let of = |age: Duration| all.iter().filter(|(at, _)| *at + age >= now).map(|(_, latency)| *latency).min();
                let got = least.get();
                prop_assert!(got >= of(window) && got <= of(window - window / 10), "{got:?}");
            }
        }

        /// Any durations at any time, back and forth: no panic, and the answer is one that was possible.
        #[test]
        fn any_sample_is_taken(samples in proptest::collection::vec((any::<u64>(), any::<u64>()), 1..100), share in 0.0f64..1.0) {
            let mut least = LeastLatency::new(Duration::ZERO);
            let mut quantile = Quantile::new(share, 0);
            for (now, sample) in samples {
                least.record(Duration::from_nanos(now), Duration::from_nanos(sample));
                quantile.record(Duration::from_secs(sample >> 20));
                prop_assert!(least.get().is_some());
                prop_assert!(quantile.get().expect("one") <= Duration::from_secs(400));
            }
        }
    }
}
