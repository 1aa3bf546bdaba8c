//! Measures of a mode: throughput over the time in which readers waited.

use std::time::Duration;

use super::Tuning;

/// Bytes over time, after a time that does not count.
#[derive(Debug, Clone, Copy)]
pub(super) struct Meter {
    settle: Duration,
    time: Duration,
    bytes: u64,
}

impl Meter {
    pub fn after(settle: Duration) -> Meter {
        Meter { settle, time: Duration::ZERO, bytes: 0 }
    }

    pub fn time(&mut self, passed: Duration) {
        let rest = passed.saturating_sub(self.settle);
        self.settle = self.settle.saturating_sub(passed);
        self.time = self.time.saturating_add(rest);
    }

    pub fn bytes(&mut self, bytes: u64) {
        if self.settle.is_zero() {
            self.bytes = self.bytes.saturating_add(bytes);
        }
    }

    /// Time that counts so far.
    pub fn measured(&self) -> Duration {
        self.time
    }

    /// Bytes per second.
    pub fn rate(&self) -> f64 {
        if self.time.is_zero() { 0.0 } else { self.bytes as f64 / self.time.as_secs_f64() }
    }
}

/// What a trial has shown.
#[derive(Debug, Clone, Copy)]
pub(super) struct Verdict {
    /// Bytes per second of the mode once it was under way.
    pub rate: f64,
    /// How long the trial took, and the bytes per second over all of it.
    pub time: Duration,
    pub mean: f64,
}

/// The other mode, tried for a while: one piece after the other.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trial {
    whole: Meter,
    slice: Meter,
    /// Rates of the two pieces before.
    before: [Option<f64>; 2],
    /// Times it was begun again.
    stalls: u32,
    waited: Duration,
}

impl Trial {
    pub fn new(settle: Duration) -> Trial {
        Trial {
            whole: Meter::after(Duration::ZERO),
            slice: Meter::after(settle),
            before: [None; 2],
            stalls: 0,
            waited: Duration::ZERO,
        }
    }

    /// The piece that was being measured is worth nothing.
    pub fn again(&mut self, settle: Duration) {
        self.slice = Meter::after(settle);
        self.stalls = self.stalls.saturating_add(1);
    }

    pub fn time(&mut self, passed: Duration) {
        self.whole.time(passed);
        self.slice.time(passed);
    }

    /// Time that counts for nothing; of that there is a limit as well.
    pub fn wait(&mut self, passed: Duration) {
        self.waited = self.waited.saturating_add(passed);
    }

    pub fn bytes(&mut self, bytes: u64) {
        self.whole.bytes(bytes);
        self.slice.bytes(bytes);
    }

    /// Says whether it has been tried long enough; `kept` is what the kept mode delivers, bytes per second.
    pub fn verdict(&mut self, tuning: &Tuning, kept: f64) -> Option<Verdict> {
        let verdict = |rate| Some(Verdict { rate, time: self.whole.measured(), mean: self.whole.rate() });
        let over = self.whole.measured() >= tuning.trial_most;
        if over && (self.stalls > 0 || self.before[0].is_none()) {
            return verdict(0.0);
        }
        if self.waited >= tuning.trial_most {
            return verdict(0.0);
        }
        let time = self.slice.measured();
        // Far slower: what more of it would show is not worth what it costs.
        if time >= tuning.slice && self.slice.rate() < kept * tuning.give_up {
            return verdict(self.slice.rate());
        }
        let enough = self.slice.bytes >= tuning.slice_bytes || time >= tuning.slice.saturating_mul(4);
        if !over && (time < tuning.slice || !enough) {
            return None;
        }
        let rate = self.slice.rate();
        let [last, earlier] = self.before;
        if over {
            return verdict(last.unwrap_or(rate).max(if time < tuning.slice { 0.0 } else { rate }));
        }
        let growing = last.is_none_or(|last| rate > last * 1.15);
        if growing {
            self.before = [Some(rate), last];
            self.slice = Meter::after(Duration::ZERO);
            return None;
        }
        let mean = (rate + last.unwrap_or(rate)) / 2.0;
        // Close to a decision either way: one more piece is cheap, a wrong decision is not.
        if earlier.is_none() && mean > kept * 0.8 && mean < kept * (1.0 + 3.0 * tuning.margin) {
            self.before = [Some(mean), Some(mean)];
            self.slice = Meter::after(Duration::ZERO);
            return None;
        }
        verdict(mean)
    }
}

#[cfg(test)]
mod tests;
