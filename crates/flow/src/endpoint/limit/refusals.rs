//! What a refusal does to the level, and the way back: additive increase, multiplicative decrease (Chiu and Jain, 1989).

use std::time::Duration;

use super::{Limit, Phase};

/// The last burst of refusals.
#[derive(Debug, Clone, Copy)]
pub(super) struct Refused {
    last: Duration,
    cut: Duration,
    /// The level when it began.
    level: f64,
    /// Connections broke: nothing was refused.
    broken: bool,
    /// Whether it has returned to nearly there since.
    recovered: bool,
    /// When the next step back may be made.
    due: Duration,
}

impl Limit {
    pub(super) fn careful(&self, now: Duration) -> bool {
        self.refused.is_some_and(|refused| {
            let memory = if refused.broken { self.tuning.calm } else { self.tuning.memory };
            now.saturating_sub(refused.last) < memory
        })
    }

    /// Whether fetches were refused, and the level is not yet back at nearly where that began: what comes meanwhile is not what could.
    pub fn is_cut(&self) -> bool {
        self.refused.is_some_and(|refused| !refused.recovered)
    }

    /// A refusal of a fetch that was sent at `started`.
    pub(super) fn cut(&mut self, now: Duration, started: Duration, broken: bool) {
        let before = self.refused;
        // A pause in which hardly anything was sent does not end a burst.
        let answered = f64::from(std::mem::take(&mut self.since_refused)) >= self.base;
        let passed = |refused: &Refused| answered && now.saturating_sub(refused.last) >= self.tuning.calm;
        let calm = before.as_ref().is_none_or(passed);
        // While growing, the level before was good, and the base is where growing began.
        let base = match self.phase {
            Phase::Grow { before: Some(before), .. } => before.level.clamp(self.base, self.level),
            _ => self.base,
        };
        let level = before.filter(|_| !calm).map_or(base, |refused| refused.level);
        let cut = before.map_or(Duration::ZERO, |refused| refused.cut);
        // Those that were under way when the level was cut say nothing about the new level.
        let again = before.is_none() || started >= cut;
        let due = now.saturating_add(self.tuning.calm);
        let cut = if again { now } else { cut };
        self.refused = Some(Refused { last: now, cut, level, broken, recovered: false, due });
        if again {
            let floor = (level * self.tuning.cut_most.min(1.0)).min(base);
            self.reference = None;
            self.hold(now, (base * self.tuning.cut.clamp(0.1, 0.95)).max(floor));
            self.skip = 0;
            self.up_wait = 2;
        }
    }

    /// Back, in doublings, to nearly where refusals began, once they have ended.
    pub(super) fn recover(&mut self, now: Duration) -> bool {
        // Each step has to show whether it brings refusals.
        let next = now.saturating_add(self.duration().max(self.tuning.round_least.saturating_mul(2)));
        let Some(refused) = self.refused.as_mut().filter(|refused| !refused.recovered && now >= refused.due)
        else {
            return false;
        };
        let goal = (refused.level * 0.9).max(self.base);
        let level = (self.base * 2.0).min(goal);
        refused.recovered = level >= goal;
        refused.due = next;
        self.reference = None;
        self.hold(now, level);
        self.skip = 0;
        true
    }
}
