//! What a round says of the level it was at.

use std::time::Duration;

use super::round::Measure;
use super::{Limit, Phase};

impl Limit {
    /// Less was in flight than is allowed. Where even that queues, what is allowed beyond it would only come in bursts.
    pub(super) fn unused(&mut self, now: Duration, measure: &Measure) {
        let level = self.enough_if_queued(measure, self.slowdown(measure));
        let level = level.map(|level| level.max(measure.level * 0.7));
        let before = match self.phase {
            Phase::Grow { before, .. } => before.map(|before| before.rate),
            Phase::Hold => self.reference.or(self.held.map(|held| held.rate)),
            Phase::Up | Phase::Down { .. } => None,
        };
        // Where throughput has fallen as well, it is fetches that have become slower.
        let keeps_up = before.is_some_and(|before| measure.rate >= before * (1.0 - self.tuning.drop));
        match level.filter(|level| keeps_up && *level < self.level) {
            Some(level) => {
                self.reference = None;
                self.hold(now, level);
            }
            None if self.phase == Phase::Up && self.enough.is_some() => {
                let enough = self.enough.take().unwrap_or(self.base);
                self.reference = None;
                self.hold(now, enough);
            }
            // The readers' windows follow only now.
            None if self.phase == Phase::Up && self.after_drop.take().is_some() => {
                self.reference = None;
                self.hold(now, self.level);
            }
            None => self.void(now),
        }
    }

    pub(super) fn judge(&mut self, now: Duration, measure: Measure, counted: bool) {
        // Of fetches sent just now, only the quick ones have ended.
        let representative = match self.phase {
            Phase::Up | Phase::Grow { before: Some(_), .. } => false,
            Phase::Grow { .. } | Phase::Down { .. } => true,
            // Who was refused before anything was measured has nothing else to go by.
            Phase::Hold => self.baseline.latency.is_some() || self.refused.is_some(),
        };
        if counted && self.skip == 0 && representative && !self.deceives(&measure) {
            self.baseline.lower(&measure);
        }
        let allowed = self.allowed() as f64;
        if measure.level < allowed - (allowed * 0.1).max(0.5) {
            if let Some(enough) = self.collapsed(&measure) {
                self.reference = None;
                return self.hold(now, enough);
            }
            // The readers were the limit.
            return self.unused(now, &measure);
        }
        // What is still queued only makes a lower level look better than it is.
        let hopeless = matches!(self.phase, Phase::Down { .. })
            && self.reference.is_some_and(|reference| measure.rate < reference * 0.85);
        if self.skip > 0 && !hopeless {
            self.skip -= 1;
            return;
        }
        if matches!(self.phase, Phase::Down { .. }) && measure.level > self.level * 1.3 + 1.0 {
            return self.not_lower(now);
        }
        if self.judge_crowded(now, &measure) {
            return;
        }
        match self.phase {
            Phase::Grow { back, before, first } => self.judge_growth(now, measure, back, before, first),
            Phase::Hold => self.judge_hold(now, measure),
            Phase::Up => self.judge_up(now, measure),
            Phase::Down { proposed } => self.judge_down(now, measure, proposed),
        }
    }

    pub(super) fn judge_growth(
        &mut self,
        now: Duration,
        measure: Measure,
        back: f64,
        before: Option<Measure>,
        first: bool,
    ) {
        self.each = self.each.max(measure.rate / measure.level.max(0.5));
        let Some(before) = before else {
            // A level that was known another time came with how long unloaded fetches take: so its first round tells whether it queues already.
            let enough = self.knee(&measure).map(|knee| self.staffed(knee));
            if let Some(level) = enough.filter(|level| !self.fresh && *level <= self.level) {
                return self.found(now, level);
            }
            return self.grow(now, back, measure, first);
        };
        let (wider, faster) = (measure.wider_than(&before), measure.faster_than(&before));
        if wider < 1.05 {
            self.reference = None;
            return self.hold(now, self.level);
        }
        let (knee_before, knee) = (self.knee(&before), self.knee(&measure));
        let gain = match (knee_before, knee) {
            (Some(before), Some(now)) => now / before,
            _ => faster,
        };
        let worth = self.growth_worth();
        // The first fetches to end are the quick ones: where throughput has not grown at all, they deceive.
        let gain = if self.hardly_faster(&measure, &before) { gain.min(faster) } else { gain };
        if gain >= 1.0 + worth * (wider - 1.0) {
            self.fresh = false;
            // In the first search fetches become larger meanwhile: more would only queue, though more came than before. Later what is known of
            // unloaded ones may be of before a change.
            let slowdown = self.baseline.slowdown(&measure).or_else(|| self.slowdown_by_rate(&measure));
            let first_search = self.held.is_none();
            if let Some(level) = self.enough_if_queued(&measure, slowdown).filter(|_| first_search) {
                return self.found(now, level.min(self.level));
            }
            if gain >= 1.0 + worth.max(0.7) * (wider - 1.0) {
                self.baseline.set(&measure);
            }
            return self.grow(now, back, measure, false);
        }
        let level = if first && gain < 1.05 + self.noise {
            back
        } else if first {
            self.staffed(before.level * gain).clamp(back, self.level)
        } else {
            // Too high does no harm, and a lower level will be proposed.
            let unseen = if gain < 1.1 {
                measure.rate / self.each.max(1.0)
            } else {
                self.knee_if_queued(&measure, self.slowdown_by_rate(&measure)).unwrap_or(self.level)
            };
            // Growing has paid up to here, whatever is thought of how long fetches take.
            let paid = (measure.rate / self.each.max(1.0)).min(before.level);
            let knee = knee.map_or(unseen, |knee| knee.max(knee_before.unwrap_or(0.0)).max(paid));
            self.staffed(knee).clamp(before.level * 0.6, self.level)
        };
        let level = self.for_best(&measure, 0.0).map_or(level, |best| level.max(best.min(self.level)));
        self.reference = None;
        self.hold(now, level);
        if std::mem::take(&mut self.fresh) {
            // Growing never paid: what is known was measured under load, and the knee may be far below.
            self.down_step = 0.5;
            self.down_due = now;
        } else {
            self.down_due = now.saturating_add(self.down_wait);
        }
        self.up_wait = 2;
    }

    fn growth_worth(&self) -> f64 {
        self.tuning.grow_worth.clamp(0.01, 0.9)
    }

    /// Whether a higher level has not even brought a third of what would be worth having it.
    pub(super) fn hardly_faster(&self, measure: &Measure, before: &Measure) -> bool {
        measure.faster_than(before) < 1.0 + self.growth_worth() * (measure.wider_than(before) - 1.0) / 3.0
    }

    /// The level that was searched for. A lower one is not tried at once.
    pub(super) fn found(&mut self, now: Duration, level: f64) {
        self.reference = None;
        self.down_due = now.saturating_add(self.down_wait);
        self.hold(now, level);
    }

    /// The level for a round whose fetches are sure to queue, as they took so many times longer than unloaded; `None` if they need not.
    fn enough_if_queued(&self, measure: &Measure, slowdown: Option<f64>) -> Option<f64> {
        self.knee_if_queued(measure, slowdown).map(|knee| self.staffed(knee))
    }

    fn knee_if_queued(&self, measure: &Measure, slowdown: Option<f64>) -> Option<f64> {
        let queued = slowdown.filter(|slowdown| *slowdown > 1.0 + self.tuning.queues);
        queued.map(|slowdown| measure.level / slowdown.max(1.0))
    }

    pub(super) fn grow(&mut self, now: Duration, back: f64, measure: Measure, first: bool) {
        self.each = self.each.max(measure.rate / measure.level.max(0.5));
        if self.level >= self.most {
            return self.found(now, self.level);
        }
        self.phase = Phase::Grow { back, before: Some(measure), first };
        self.set_level(now, (self.level * (1.0 + self.tuning.grow.clamp(0.1, 3.0))).max(self.level + 1.0));
    }

    pub(super) fn judge_hold(&mut self, now: Duration, measure: Measure) {
        let Some(reference) = self.reference else {
            self.reference = Some(measure.rate);
            if let Some(before) = self.dropped.take() {
                self.answer_drop(now, before, measure);
            } else {
                self.held = Some(measure);
                let proposal = self.knee(&measure).map(|knee| self.staffed(knee));
                let far = proposal.filter(|level| self.base > level * 2.0 + 2.0 && now >= self.proposal_due);
                if !self.propose_best(now, &measure)
                    && let Some(level) = far
                {
                    // Too much in flight keeps everybody waiting when the network becomes slower: not to be put up with for long.
                    self.try_down(now, level.max(self.base * 0.5), true);
                }
            }
            return;
        };
        let change = measure.rate / reference.max(1.0) - 1.0;
        if change > self.tuning.rise.max(3.0 * self.noise) && !self.careful(now) && self.base < self.most {
            self.reference = Some(measure.rate);
            self.note(change);
            self.search_again();
            self.each = 0.0;
            return self.grow(now, self.base, measure, true);
        }
        if change < -self.tuning.drop.max(3.0 * self.noise).min(0.6) {
            self.reference = None;
            self.dropped = self.held;
            self.search_again();
            return;
        }
        self.note(change);
        self.held = Some(Measure { rate: reference, ..measure });
        self.reference = Some(reference + (measure.rate - reference) / 4.0);
        self.holds = self.holds.saturating_add(1);
        let by_rate = (self.each > 0.0).then(|| reference / self.each);
        if self.baseline.latency.is_none()
            && by_rate.is_some_and(|knee| self.base <= self.staffed(knee) * 1.1 + 1.0)
        {
            self.baseline.lower(&measure);
        }
        let proposal = self.knee(&measure).or(by_rate).map(|knee| self.staffed(knee));
        let excess = proposal.filter(|level| self.base > level * (1.0 + self.tuning.excess) + 1.0);
        let waited = now.saturating_sub(self.up_tried) >= self.tuning.up_every && self.holds >= 2;
        if self.propose_best(now, &measure) {
            return;
        }
        if let Some(level) = excess.filter(|_| now >= self.proposal_due && change > -0.04) {
            self.try_down(now, level.max(self.base * 0.5), true);
        } else if self.holds >= self.up_wait || waited {
            self.try_up(now, self.tuning.up);
        } else if now >= self.down_due && self.noise <= 0.05 && (self.base >= 2.5 || self.down_step >= 0.5) {
            self.try_down(
                now,
                (self.base * (1.0 - self.down_step.clamp(0.01, 0.6))).min(self.base - 1.0),
                false,
            );
        }
    }
}
