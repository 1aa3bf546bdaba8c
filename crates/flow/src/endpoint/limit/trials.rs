//! Trials of a higher and of a lower level, and what follows from them.

use std::time::Duration;

use super::round::Measure;
use super::{Limit, Phase};

impl Limit {
    /// Throughput is not what it was `before`.
    pub(super) fn answer_drop(&mut self, now: Duration, before: Measure, measure: Measure) {
        let enough = self.enough(&before, &measure);
        self.try_up(now, self.needed(&before, &measure).max(self.tuning.up_after_drop));
        self.after_drop = Some(measure);
        // If more does not bring more, it is not each connection that is slower, but all of them together.
        self.enough = enough;
    }

    /// If fetches stream far more slowly than `before`: what the little that the network brings now needs, by Little's law.
    fn enough(&self, before: &Measure, measure: &Measure) -> Option<f64> {
        let (stream_before, stream) = before.per_byte().zip(measure.per_byte())?;
        let slower = stream > stream_before * (1.0 + self.tuning.queues).powi(2);
        let ((latency, per_byte), (_, bytes)) = self.unloaded().zip(before.mean())?;
        let level = self.level_for(measure.rate, latency + per_byte * bytes, bytes);
        (slower && level < self.base).then_some(level)
    }

    /// The same for a round in which less was in flight than is allowed, when the throughput is less than half of what it was.
    pub(super) fn collapsed(&self, measure: &Measure) -> Option<f64> {
        let before = self.held.filter(|_| self.phase == Phase::Hold)?;
        (measure.rate < before.rate / 2.0).then(|| self.enough(&before, measure)).flatten()
    }

    /// By which share the level is to rise, so that fetches which now take as long as in `now` bring what they did `before`: by
    /// Little's law, if they wait longer for their first bytes. If the bytes after it come more slowly, it is the network that brings
    /// less, and more in flight would only queue.
    pub(super) fn needed(&self, before: &Measure, now: &Measure) -> f64 {
        let slower = |(before, now): (f64, f64)| now > before * 1.3;
        match (before.per_byte().zip(now.per_byte()), now.mean()) {
            (Some(bodies), Some((seconds, bytes)))
                // Of far smaller ones more would be needed: that is not why throughput has dropped.
                if !slower(bodies) && before.mean().is_none_or(|(_, before)| bytes > before / 2.0) =>
            {
                (self.level_for(before.rate, seconds, bytes) / self.base - 1.0).clamp(0.0, 15.0)
            }
            _ => 0.0,
        }
    }

    pub(super) fn try_up(&mut self, now: Duration, step: f64) {
        self.up_tried = now;
        self.holds = 0;
        let step =
            if self.careful(now) { self.tuning.up / 2.0 } else { step.max((6.0 * self.noise).min(0.6)) };
        let level = (self.base * (1.0 + step)).max(self.base + 1.0).min(self.most);
        if level >= self.base + 0.5 {
            self.phase = Phase::Up;
            self.set_level(now, level);
        }
    }

    /// A level far below what the best lately needs is not rested at. Where first bytes take longer than they did and the others come as
    /// fast, more in flight makes up for it.
    pub(super) fn propose_best(&mut self, now: Duration, measure: &Measure) -> bool {
        let Some((best, _)) = self.best else { return false };
        let queued = |(usual, seen): (f64, f64)| seen > usual * (1.0 + self.tuning.queues);
        let queues = self.baseline.per_byte.zip(measure.per_byte()).is_some_and(queued);
        if queues && measure.rate < best * 0.6 {
            return false;
        }
        let latency = if queues || measure.finished == 0 {
            0.0
        } else {
            measure.latencies / f64::from(measure.finished)
        };
        let Some(level) = self.for_best(measure, latency) else { return false };
        let level = level.min(self.base * 2.0).min(self.most);
        let step = level / self.base - 1.0;
        let missing = measure.rate < best * (1.0 - self.tuning.drop);
        if self.careful(now)
            || self.up_wait >= 4
            || !missing
            || step < self.tuning.excess
            || level < self.base + 1.0
        {
            return false;
        }
        self.try_up(now, step);
        true
    }

    pub(super) fn judge_up(&mut self, now: Duration, measure: Measure) {
        let step = self.level / self.base - 1.0;
        let reference = self.reference.unwrap_or(measure.rate);
        let mut gain = measure.rate / reference.max(1.0) - 1.0;
        let after_drop = self.after_drop.take();
        if let Some(before) = after_drop.and_then(|before| self.knee(&before)) {
            // Bytes of before the drop may have been counted before; how long fetches take now is not to be mistaken.
            let knee = self.knee(&measure).map_or(0.0, |knee| knee / before - 1.0);
            gain = gain.max(if knee >= 0.7 * step { knee } else { 0.0 });
        }
        if let Some(enough) = self.enough.take().filter(|_| gain < self.tuning.grow_worth.min(0.9) * step) {
            self.reference = None;
            return self.hold(now, enough);
        }
        if gain < self.tuning.worth.min(0.9) * step {
            self.up_wait = self.up_wait.saturating_mul(2).min(8);
            return self.hold(now, self.base);
        }
        let level = self.level;
        self.reference = Some(measure.rate);
        self.up_wait = 1;
        self.hold(now, level);
        if gain >= 0.6 * step && !self.careful(now) {
            self.skip = 0;
            self.each = 0.0;
            if after_drop.is_some() {
                // It is not the endpoint that does less: fetches have become slower.
                self.baseline.slower(&measure);
            }
            self.grow(now, level, measure, true);
        }
    }

    pub(super) fn try_down(&mut self, now: Duration, level: f64, proposed: bool) {
        let level = level.max(self.least);
        if level.round() >= self.base.round() {
            self.down_due = now.saturating_add(self.down_wait);
            return;
        }
        self.phase = Phase::Down { proposed };
        // What is queued at the endpoint keeps it busy for a while, whatever the level.
        self.skip = u32::from(level < self.base * 0.7);
        self.set_level(now, level);
    }

    pub(super) fn judge_down(&mut self, now: Duration, measure: Measure, proposed: bool) {
        let reference = self.reference.unwrap_or(measure.rate);
        let lost = (self.tuning.worth * (1.0 - self.level / self.base)).min(0.03) + self.noise / 2.0;
        if measure.rate >= reference * (1.0 - lost) {
            let level = if proposed {
                self.level
            } else {
                (self.level * self.base).sqrt().min(self.level * 1.15 + 1.0)
            };
            self.down_step = (self.down_step * 2.0).min(0.5);
            self.down_wait = self.tuning.down_every;
            self.down_due = now;
            self.up_wait = 4;
            return self.hold(now, level);
        }
        let mut back = self.base;
        if measure.rate < reference * (self.level / self.base) * (1.0 - 2.0 * self.tuning.drop) {
            // So much is not the level's doing. Where bodies come more slowly too, it is the network, and the lower level is nearer.
            let bodies = self.held.as_ref().and_then(Measure::per_byte).zip(measure.per_byte());
            if bodies.is_some_and(|(before, now)| now > before * (1.0 + self.tuning.queues)) {
                back = self.level;
            }
            self.dropped = self.held.map(|held| Measure { rate: reference, ..held });
            self.search_again();
        }
        if proposed {
            // It was not loaded at all: fetches have become slower.
            self.baseline.set(&measure);
            self.each = measure.rate / measure.level.max(0.5);
        }
        self.down_step = self.tuning.down;
        self.down_due = now.saturating_add(self.down_wait);
        self.proposal_due = self.down_due;
        self.down_wait = self.down_wait.saturating_mul(2).min(self.tuning.down_rarest);
        self.up_wait = 2;
        self.reference = None;
        self.hold(now, back);
    }

    /// Readers wait for more than a lower level allows: it could not be tried.
    pub(super) fn not_lower(&mut self, now: Duration) {
        self.down_step = self.tuning.down;
        self.down_due = now.saturating_add(self.down_wait);
        self.proposal_due = self.down_due;
        self.down_wait = self.down_wait.saturating_mul(2).min(self.tuning.down_rarest);
        self.hold(now, self.base);
    }
}
