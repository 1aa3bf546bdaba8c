//! Where nothing is known: one for each reader.

use std::time::Duration;

use super::round::Round;
use super::{Limit, Phase};

/// So many readers count at most, in times the first level.
const MOST: f64 = 4.0;

impl Limit {
    /// So many readers wait for their first bytes, or read on. Until the first round is over as many are allowed, if that is more than the
    /// first level: without reading ahead they would be in flight as well, and a search that begins at a quarter of them takes two rounds
    /// more. [Once anything was measured](Limit::is_new) this does nothing.
    pub fn readers(&mut self, now: Duration, readers: u64) {
        let level = (readers as f64).min(MOST * self.tuning.first()).min(self.most);
        if level <= self.base || !self.is_new() {
            return;
        }
        self.base = level;
        self.level = level;
        self.phase = Phase::Grow { back: level, before: None, first: true };
        // Readers come one after the other, and what they wait for may go somewhat beyond what was allowed: that is no queue to be
        // waited for.
        self.round = Round::at_new_level(now, true);
    }
}
