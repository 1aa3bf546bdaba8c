//! While the processors of this machine are the limit.
//!
//! They are shared by all that is in flight and by who reads it, so that the throughput of the network differs by two and three times from one
//! round to the next at one level: a trial says nothing then, and more seem to pay. What is in flight beyond the knee costs processor time itself,
//! since each connection brings less at a time. So there the level is no matter of trials. It is what Little's law says of the throughput lately.

use std::time::Duration;

use super::round::Measure;
use super::{Limit, Phase};

/// What is known while they are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Crowd {
    /// Bytes per second lately.
    pub rate: f64,
    /// How it was before the level was lowered, while it is not known whether that cost anything.
    lowered: Option<Lowered>,
    /// Bytes and seconds since a higher level is tried.
    trial: Option<(f64, f64)>,
    /// When one is tried next, how much later the next one if that is in vain, and the throughput at the last one.
    due: Duration,
    wait: Duration,
    tried_at: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Lowered {
    at: Duration,
    level: f64,
    rate: f64,
}

impl Limit {
    /// Whether the processors of this machine are the limit from now on.
    pub fn processors(&mut self, busy: bool) {
        self.busy = busy;
        if !busy {
            self.crowd = None;
        }
    }

    /// Whether a round says nothing of unloaded fetches: what has come while there was no time for it is read at once then, and looks fast.
    pub(super) fn deceives(&self, measure: &Measure) -> bool {
        self.busy && self.slowdown(measure).is_some_and(|slowdown| slowdown >= 1.0)
    }

    /// Sees to it that it rests at the level that is enough, if processors are the limit; returns whether that is all there is to do.
    pub(super) fn judge_crowded(&mut self, now: Duration, measure: &Measure) -> bool {
        if !self.busy {
            return false;
        }
        let mut crowd = self.crowd.unwrap_or_else(|| {
            let known = self.reference.filter(|_| self.phase == Phase::Hold);
            let (rate, wait) = (known.unwrap_or(measure.rate), self.tuning.crowd_up);
            Crowd { rate, lowered: None, trial: None, due: now.saturating_add(wait), wait, tried_at: 0.0 }
        });
        if let Some(trial) = crowd.trial.take().filter(|_| self.phase == Phase::Up) {
            self.judge_trial(now, measure, crowd, trial);
            return true;
        }
        let share = measure.seconds / self.tuning.crowd_over.as_secs_f64().max(1e-3);
        crowd.rate += share.clamp(0.0, 0.6) * (measure.rate - crowd.rate);
        self.crowd = Some(crowd);
        let Some((latency, per_byte)) = self.unloaded().filter(|_| self.flying > 0.0) else { return false };
        let queues = self.slowdown(measure).is_some_and(|slowdown| slowdown > 1.0 + self.tuning.crowds);
        // The first round of a search has nothing to be compared with.
        let first = matches!(self.phase, Phase::Grow { before: None, .. });
        if first || (!queues && self.phase != Phase::Hold) {
            return false;
        }
        let enough = self.level_for(crowd.rate, latency + per_byte * self.flying, self.flying);
        match self.phase {
            Phase::Grow { .. } => {
                self.fresh = false;
                self.found(now, enough.min(self.level));
            }
            Phase::Up => {
                (self.after_drop, self.enough) = (None, None);
                self.hold(now, self.base);
            }
            Phase::Down { .. } => self.hold(now, self.level),
            Phase::Hold => self.rest_crowded(now, measure, crowd, enough),
        }
        true
    }

    /// A higher level is tried now and then: what is known of unloaded fetches may be of before a change, and then they do not queue.
    fn judge_trial(&mut self, now: Duration, measure: &Measure, mut crowd: Crowd, trial: (f64, f64)) {
        let (bytes, seconds) = (trial.0 + measure.rate * measure.seconds, trial.1 + measure.seconds);
        if seconds < self.tuning.crowd_over.as_secs_f64() {
            crowd.trial = Some((bytes, seconds));
            self.crowd = Some(crowd);
            return;
        }
        let (gain, step) = (bytes / seconds / crowd.rate.max(1.0) - 1.0, self.level / self.base - 1.0);
        if gain >= 0.5 * step {
            self.baseline.set(measure);
            self.crowd = None;
            (self.base, self.each) = (self.level, 0.0);
            return self.grow(now, self.level, *measure, true);
        }
        crowd.due = now.saturating_add(crowd.wait);
        crowd.wait = crowd.wait.saturating_mul(2).min(self.tuning.down_rarest);
        self.crowd = Some(crowd);
        self.hold(now, self.base);
    }

    fn rest_crowded(&mut self, now: Duration, measure: &Measure, mut crowd: Crowd, enough: f64) {
        self.dropped = None;
        self.reference = Some(crowd.rate);
        self.held = Some(*measure);
        crowd.lowered =
            crowd.lowered.filter(|lowered| now.saturating_sub(lowered.at) <= self.tuning.crowd_over * 4);
        if let Some(lowered) = crowd.lowered
            && crowd.rate < lowered.rate * self.tuning.crowd_keeps
        {
            // They did not queue: others take the processors' time, and fetches have become slower.
            self.baseline.set(measure);
            self.crowd = None;
            return self.hold(now, lowered.level);
        }
        if crowd.rate < crowd.tried_at * self.tuning.crowd_keeps {
            (crowd.due, crowd.wait, crowd.tried_at) = (now, self.tuning.crowd_up, crowd.rate);
        }
        let slack = 1.0 + self.tuning.excess / 2.0;
        let level = if self.base > enough * slack + 1.0 {
            let before = Lowered { at: now, level: self.base, rate: crowd.rate };
            crowd.lowered = crowd.lowered.or(Some(before));
            enough.max(self.base * 0.7)
        } else if enough > self.base * slack + 1.0 && !self.careful(now) {
            enough.min(self.base * 1.4)
        } else {
            self.base
        };
        if level.round() != self.base.round() {
            self.hold(now, level);
        } else if now >= crowd.due && self.base < self.most {
            (crowd.trial, crowd.tried_at) = (Some((0.0, 0.0)), crowd.rate);
            self.try_up(now, self.tuning.up_after_drop);
        }
        self.crowd = Some(crowd);
    }
}
