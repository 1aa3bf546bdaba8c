//! A level that follows from what was known another time. What the endpoint needs is so many *bytes* in flight: how many fetches that are
//! depends on how large they are, and those that a stream begins with are small.

use std::time::Duration;

use super::{Limit, Phase};

/// A level at which nothing was tried yet is believed up to so many times the first one, however large fetches are.
pub(super) const MOST: f64 = 8.0;

/// The level follows when what is needed differs by so much: it is what a trial would see.
const FEWER: f64 = 0.8;
pub(super) const MORE: f64 = 1.25;

/// What was known, and what the level is for.
#[derive(Debug, Clone, Copy)]
pub(super) struct KnownFor {
    /// Bytes per second.
    rate: f64,
    /// Of a fetch.
    bytes: f64,
}

impl Limit {
    /// Begins with what brought `rate` bytes per second another time, where unloaded fetches took `latency` seconds and `per_byte` for each byte
    /// after it, and lately have `bytes` bytes, within the bounds of [`begin_at`](Limit::begin_at): the network may be a slower one, though a
    /// single fetch does not tell. Where those that are sent then stream as fast as one alone, it goes on from what they bring
    /// ([`leap_on`](Limit::leap_on)). To be called while [it is new](Limit::is_new).
    pub fn recall(&mut self, now: Duration, rate: f64, latency: f64, per_byte: f64, bytes: f64) {
        // So few do not hold each other up.
        self.burst.leaps(now, self.tuning.first(), 1.0 / per_byte);
        self.begin_at(now, self.level_for(rate, latency + per_byte * bytes, bytes), MOST, latency, per_byte);
        self.known_for = Some(KnownFor { rate, bytes });
    }

    /// Begins at a level, though no round was judged yet, but with no fewer than usual and no more than `most` times as many. Unloaded fetches
    /// take `latency` seconds and `per_byte` for each byte after it: so the first round tells whether that is too many.
    pub(super) fn begin_at(&mut self, now: Duration, level: f64, most: f64, latency: f64, per_byte: f64) {
        self.baseline.latency = Some(latency);
        self.baseline.per_byte = (per_byte > 0.0).then_some(per_byte);
        self.fresh = false;
        self.known_for = None;
        self.base = level.clamp(self.tuning.first(), most * self.tuning.first()).clamp(self.least, self.most);
        self.phase = Phase::Grow { back: self.base, before: None, first: true };
        self.set_level(now, self.base);
    }

    /// Fetches have so many bytes lately, on average. As long as a level that was known is searched on from, as many bytes stay in flight; in its
    /// first round more, if they were fewer than what was known only because they were in so many small fetches.
    pub fn averaged(&mut self, now: Duration, bytes: f64) {
        let Phase::Grow { back, before, first } = self.phase else { return };
        let Some((known, (latency, per_byte))) = self.known_for.zip(self.unloaded()) else { return };
        let share = (latency / bytes + per_byte) / (latency / known.bytes + per_byte);
        if (FEWER..MORE).contains(&share) {
            return;
        }
        self.known_for = Some(KnownFor { bytes, ..known });
        let needed = self.level_for(known.rate, latency + per_byte * bytes, bytes);
        let most = MOST * self.tuning.first();
        let follow = |level: f64| match before {
            None => (level * share).max(needed).min(most),
            Some(_) => level * share,
        };
        self.base = follow(self.base).clamp(self.least, self.most);
        self.phase = Phase::Grow { back: follow(back), before, first };
        self.set_level(now, follow(self.level));
    }
}
