//! What one round of fetches looked like, and what an endpoint that is not loaded would have done.

use std::time::Duration;

/// A fetch that has ended well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finished {
    /// When it was sent.
    pub started: Duration,
    /// Its bytes.
    pub bytes: u64,
    /// From sending to the first byte.
    pub latency: Duration,
    /// From sending to the last byte.
    pub duration: Duration,
}

/// What is counted while a round lasts.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Round {
    pub began: Duration,
    /// Only fetches that were sent from here on say how long fetches take at the present level.
    pub cohort: Duration,
    /// As many as are allowed are in flight, or fewer: what is measured belongs to the present level.
    pub settled: bool,
    /// Bytes count from here on: fetches that were added take their latency to bring any.
    pub from: Duration,
    pub failed: u32,
    counted_to: Duration,
    /// Fetches in flight, times seconds; and of those, the ones whose first byte is there.
    area: f64,
    streaming: f64,
    bytes: u64,
    answered: u32,
    first_bytes: f64,
    finished: u32,
    durations: f64,
    latencies: f64,
    finished_bytes: f64,
}

/// A round that is over. Times in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Measure {
    /// Bytes per second.
    pub rate: f64,
    /// Fetches in flight, on average.
    pub level: f64,
    /// Of those, the ones whose first byte was there.
    pub streaming: f64,
    /// Fetches that ended, and the sums of their times and bytes.
    pub finished: u32,
    pub durations: f64,
    pub latencies: f64,
    pub bytes: f64,
    /// Seconds from the beginning of the level to that of the round: what is in flight brings bytes only after its latency.
    pub after: f64,
    /// Seconds of the round.
    pub seconds: f64,
}

impl Measure {
    /// Seconds that a fetch took on average, and its bytes; `None` if too few have ended.
    pub fn mean(&self) -> Option<(f64, f64)> {
        let count = f64::from(self.finished);
        (self.finished >= ENOUGH && self.bytes > 0.0).then(|| (self.durations / count, self.bytes / count))
    }

    /// How many times as many were in flight as in the round `before`.
    pub fn wider_than(&self, before: &Measure) -> f64 {
        self.level / before.level.max(0.1)
    }

    /// How many times as many bytes came in a second.
    pub fn faster_than(&self, before: &Measure) -> f64 {
        self.rate / before.rate.max(1.0)
    }

    /// Seconds that one fetch takes for each byte, once the first is there.
    pub fn per_byte(&self) -> Option<f64> {
        (self.rate > 0.0 && self.streaming > 0.0).then(|| self.streaming / self.rate)
    }
}

impl Round {
    /// A round at a new level: fetches that were sent before say nothing about it.
    pub fn at_new_level(now: Duration, settled: bool) -> Round {
        Round { began: now, cohort: now, from: now, counted_to: now, settled, ..Round::default() }
    }

    /// The same, at a higher level: throughput is not what it will be until the first bytes of what is added come.
    pub fn at_higher_level(now: Duration, ramp: Duration) -> Round {
        let from = now.saturating_add(ramp);
        Round { from, counted_to: from, ..Round::at_new_level(now, true) }
    }

    /// The next round at the same level.
    pub fn next(&self, now: Duration) -> Round {
        let (cohort, settled) = (self.cohort, self.settled);
        Round { began: now, cohort, from: now, counted_to: now, settled, ..Round::default() }
    }

    /// So many are in flight since the last call. To be called before it changes.
    pub fn advance(&mut self, now: Duration, in_flight: usize, streaming: usize) {
        let passed = now.saturating_sub(self.counted_to).as_secs_f64();
        self.area += in_flight as f64 * passed;
        self.streaming += streaming as f64 * passed;
        self.counted_to = self.counted_to.max(now);
    }

    /// Fetches in flight since bytes count, on average; `None` before.
    pub fn mean_level(&self, now: Duration) -> Option<f64> {
        let elapsed = now.saturating_sub(self.from).as_secs_f64();
        (elapsed > 0.0).then(|| self.area / elapsed)
    }

    pub fn delivered(&mut self, now: Duration, bytes: u64) {
        if now >= self.from {
            self.bytes = self.bytes.saturating_add(bytes);
        }
    }

    pub fn answered(&mut self, started: Duration, latency: f64) {
        if started >= self.cohort {
            self.answered = self.answered.saturating_add(1);
            self.first_bytes += latency;
        }
    }

    pub fn finished(&mut self, fetch: &Finished, latency: f64) {
        if fetch.started >= self.cohort {
            let streaming = fetch.duration.saturating_sub(fetch.latency).as_secs_f64();
            self.finished = self.finished.saturating_add(1);
            self.durations += latency + streaming;
            self.latencies += latency;
            self.finished_bytes += fetch.bytes as f64;
        }
    }

    /// Fetches sent at this level that have ended.
    pub fn count(&self) -> u32 {
        self.finished
    }

    pub fn any_bytes(&self) -> bool {
        self.bytes > 0
    }

    /// Mean time to the first byte of this round, seconds.
    pub fn latency(&self) -> Option<f64> {
        (self.answered > 0).then(|| self.first_bytes / f64::from(self.answered))
    }

    pub fn measure(&self, now: Duration, in_flight: usize) -> Measure {
        let elapsed = now.saturating_sub(self.from).as_secs_f64();
        Measure {
            rate: if elapsed > 0.0 { self.bytes as f64 / elapsed } else { 0.0 },
            level: self.mean_level(now).unwrap_or(in_flight as f64),
            streaming: if elapsed > 0.0 { self.streaming / elapsed } else { 0.0 },
            finished: self.finished,
            durations: self.durations,
            latencies: self.latencies,
            bytes: self.finished_bytes,
            after: self.from.saturating_sub(self.cohort).as_secs_f64(),
            seconds: elapsed,
        }
    }
}

/// Fetches a round must have finished to say how long they take.
const ENOUGH: u32 = 6;
/// Fetches after which a slightly lower mean is believed.
const MANY: u32 = 64;
/// Below this mean size, the time between the first and the last byte is not that of the connection, bytes.
const LARGE: f64 = 128.0 * 1024.0;

/// How long a fetch takes while the endpoint is not loaded: to its first byte, and for each byte after.
///
/// Means, not minima: what a slot of the endpoint delivers depends on the mean time of a fetch, its tail included.
#[derive(Debug, Clone, Default)]
pub(super) struct Baseline {
    /// Seconds to the first byte.
    pub latency: Option<f64>,
    /// Seconds for each byte of one connection.
    pub per_byte: Option<f64>,
    /// Rounds since the last look for a lower mean: fetches, seconds to first bytes, seconds of bodies, bytes.
    batch: (u32, f64, f64, f64),
}

impl Baseline {
    /// How many times longer than unloaded the fetches of a round took; `None` if that cannot be told.
    pub fn slowdown(&self, measure: &Measure) -> Option<f64> {
        let bodies = (measure.durations - measure.latencies).max(0.0);
        let expected = f64::from(measure.finished) * self.latency?
            + self.per_byte.map_or(bodies, |per_byte| per_byte * measure.bytes);
        (measure.finished >= ENOUGH && expected > 0.0 && measure.durations > 0.0)
            .then(|| measure.durations / expected)
    }

    /// An unloaded fetch takes no longer than the fetches of any round did on average.
    pub fn lower(&mut self, measure: &Measure) {
        if measure.finished < ENOUGH {
            return;
        }
        let bodies = (measure.durations - measure.latencies).max(0.0);
        let (latency, per_byte) = Self::means(measure.finished, measure.latencies, bodies, measure.bytes);
        // Far lower: at once. A little lower: only when many agree, since the least of many noisy means is too low.
        Self::lower_one(&mut self.latency, latency, 0.7);
        Self::lower_one(&mut self.per_byte, per_byte, 0.7);
        let (count, latencies, all_bodies, bytes) = &mut self.batch;
        *count = count.saturating_add(measure.finished);
        *latencies += measure.latencies;
        *all_bodies += bodies;
        *bytes += measure.bytes;
        if *count >= MANY {
            let (latency, per_byte) = Self::means(*count, *latencies, *all_bodies, *bytes);
            Self::lower_one(&mut self.latency, latency, 0.97);
            Self::lower_one(&mut self.per_byte, per_byte, 0.97);
            self.batch = Default::default();
        }
    }

    /// It is known that the endpoint was not loaded in this round.
    pub fn set(&mut self, measure: &Measure) {
        if measure.finished < ENOUGH {
            return;
        }
        let bodies = (measure.durations - measure.latencies).max(0.0);
        let (latency, per_byte) = Self::means(measure.finished, measure.latencies, bodies, measure.bytes);
        for (known, seen) in [(&mut self.latency, latency), (&mut self.per_byte, per_byte)] {
            if let Some(seen) = seen {
                // Nearly the same: what is known rests on more.
                *known =
                    Some(known.filter(|known| seen < known * 1.4 && *known < seen * 1.4).unwrap_or(seen));
            }
        }
        self.batch = Default::default();
    }

    /// First bytes take longer than what is known; the rest is as it was.
    pub fn slower(&mut self, measure: &Measure) {
        if measure.finished >= ENOUGH {
            self.latency = Some(measure.latencies / f64::from(measure.finished));
            self.batch = Default::default();
        }
    }

    fn means(count: u32, latencies: f64, bodies: f64, bytes: f64) -> (Option<f64>, Option<f64>) {
        let count = f64::from(count.max(1));
        (Some(latencies / count), (bytes / count >= LARGE && bodies > 0.0).then(|| bodies / bytes))
    }

    fn lower_one(known: &mut Option<f64>, seen: Option<f64>, below: f64) {
        if let Some(seen) = seen
            && known.is_none_or(|known| seen < known * below)
        {
            *known = Some(seen);
        }
    }
}
