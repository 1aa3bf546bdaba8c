//! What a run shows.

use super::controller::Gauges;
use std::time::Duration;

/// How finely bytes are counted over time.
pub const BIN: Duration = Duration::from_millis(50);
/// Over such pieces of time throughput is said to be steady or not.
pub const STEADY: Duration = Duration::from_millis(250);

/// Bytes over time: what one reader took, or what came for all.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Series {
    bins: Vec<f64>,
}

impl Series {
    /// So many bytes between two times, evenly.
    pub fn took(&mut self, from: Duration, until: Duration, bytes: u64) {
        let (from, until) = (in_bins(from), in_bins(until));
        let last = until.floor() as usize;
        if self.bins.len() <= last {
            self.bins.resize(last + 1, 0.0);
        }
        let length = until - from;
        if length <= 0.0 {
            self.bins[last] += bytes as f64;
            return;
        }
        for bin in from.floor() as usize..=last {
            let part = (until.min((bin + 1) as f64) - from.max(bin as f64)).max(0.0);
            self.bins[bin] += bytes as f64 * part / length;
        }
    }

    /// Bytes in a piece of time, to a part of a bin.
    pub fn bytes(&self, from: Duration, until: Duration) -> f64 {
        let (from, until) = (in_bins(from), in_bins(until));
        let first = from.floor() as usize;
        let last = (until.ceil() as usize).min(self.bins.len());
        (first..last)
            .map(|bin| self.bins[bin] * (until.min((bin + 1) as f64) - from.max(bin as f64)).clamp(0.0, 1.0))
            .sum()
    }

    /// Bytes per second in a piece of time.
    pub fn rate(&self, from: Duration, until: Duration) -> f64 {
        let length = until.saturating_sub(from).as_secs_f64();
        if length > 0.0 { self.bytes(from, until) / length } else { 0.0 }
    }

    /// All of several together.
    pub fn sum<'a>(all: impl IntoIterator<Item = &'a Series>) -> Series {
        let mut sum = Series::default();
        for one in all {
            if sum.bins.len() < one.bins.len() {
                sum.bins.resize(one.bins.len(), 0.0);
            }
            for (total, bytes) in sum.bins.iter_mut().zip(&one.bins) {
                *total += bytes;
            }
        }
        sum
    }

    /// Coefficient of variation of the throughput of each [`STEADY`] in a piece of time.
    pub fn variation(&self, from: Duration, until: Duration) -> f64 {
        let mut rates = Vec::new();
        let mut at = from;
        while at + STEADY <= until {
            rates.push(self.rate(at, at + STEADY));
            at += STEADY;
        }
        let mean = rates.iter().sum::<f64>() / rates.len().max(1) as f64;
        if mean <= 0.0 {
            return 0.0;
        }
        let variance = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / rates.len() as f64;
        variance.sqrt() / mean
    }

    /// How long after `from` it first took `rate` bytes per second over a [`STEADY`] piece of time; none if never before `until`.
    pub fn reaches(&self, rate: f64, from: Duration, until: Duration) -> Option<Duration> {
        let mut at = from;
        while at + STEADY <= until {
            if self.rate(at, at + STEADY) >= rate {
                return Some(at - from);
            }
            at += BIN;
        }
        None
    }
}

fn in_bins(time: Duration) -> f64 {
    time.as_secs_f64() / BIN.as_secs_f64()
}

/// Jain's fairness index (Jain, Chiu and Hawe, 1984): 1 if all have the same, 1/n if one has everything.
pub fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    if squares > 0.0 { sum * sum / (shares.len() as f64 * squares) } else { 1.0 }
}

/// The state of all endpoints together at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// When.
    pub at: Duration,
    /// Gets in flight.
    pub in_flight: usize,
    /// Bytes that are there or on their way.
    pub held: u64,
    /// What may be held by all of them.
    pub ceiling: u64,
    /// Bytes that have come over the network so far.
    pub fetched: u64,
    /// What controllers rest on, added up.
    pub gauges: Gauges,
}

/// What one run showed.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// What each reader took, in the order of their specs.
    pub readers: Vec<Series>,
    /// Every [`BIN`], what was going on.
    pub samples: Vec<Sample>,
    /// Reads that failed.
    pub errors: u64,
    /// Bytes that came over the network.
    pub fetched: u64,
    /// Bytes of answered reads.
    pub answered: u64,
    /// Of those that came, the share that no read got (the worst endpoint).
    pub wasted: f64,
    /// Most bytes that a controller said it held.
    pub peak_held: u64,
    /// Most bytes that really were there or on their way to one controller.
    pub peak: u64,
    /// The most by which either was above the ceiling of its time, bytes.
    pub above_ceiling: u64,
    /// Most gets in flight.
    pub peak_gets: usize,
    /// Gets sent.
    pub fetches: u64,
    /// Of those, second attempts.
    pub hedges: u64,
    /// What a controller did that it must not, or that it stood still.
    pub violations: Vec<String>,
}

impl Outcome {
    /// All readers together.
    pub fn total(&self) -> Series {
        Series::sum(&self.readers)
    }

    /// What came over the network.
    pub fn arrived(&self) -> Series {
        let mut arrived = Series::default();
        for pair in self.samples.windows(2) {
            arrived.took(pair[0].at, pair[1].at, pair[1].fetched - pair[0].fetched);
        }
        arrived
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn bytes_are_spread_over_the_time_they_took() {
        let mut series = Series::default();
        series.took(ms(125), ms(375), 250_000);
        assert!((series.bytes(ms(0), ms(250)) - 125_000.0).abs() < 1.0);
        assert!((series.rate(ms(150), ms(350)) - 1e6).abs() < 1.0);
        assert_eq!(series.rate(ms(400), ms(900)), 0.0);
        series.took(ms(500), ms(500), 7);
        assert!((series.bytes(ms(500), ms(550)) - 7.0).abs() < 1e-9);
    }

    #[test]
    fn steady_does_not_vary_and_a_square_wave_does() {
        let mut steady = Series::default();
        steady.took(ms(0), ms(10_000), 1 << 30);
        assert!(steady.variation(ms(0), ms(10_000)) < 1e-9);
        let mut wave = Series::default();
        for second in 0..10 {
            wave.took(ms(1000 * second), ms(1000 * second + 500), 1 << 20);
        }
        assert!((wave.variation(ms(0), ms(10_000)) - 1.0).abs() < 1e-6);
    }

    #[test]
    fn a_rate_is_reached_when_it_is_reached() {
        let mut series = Series::default();
        series.took(ms(0), ms(1_000), 1_000);
        series.took(ms(1_000), ms(2_000), 10_000);
        let at = series.reaches(9_000.0, ms(0), ms(2_000)).expect("reached");
        assert!((ms(900)..=ms(1_000)).contains(&at), "{at:?}");
        assert_eq!(series.reaches(20_000.0, ms(0), ms(2_000)), None);
    }

    #[test]
    fn jain_is_one_for_equals_and_a_quarter_for_one_of_four() {
        assert!((jain(&[3.0; 4]) - 1.0).abs() < 1e-12);
        assert!((jain(&[5.0, 0.0, 0.0, 0.0]) - 0.25).abs() < 1e-12);
    }
}
