//! Where nothing is known: what the first fetches bring while they come says how many are needed to bring as much all the time.
//!
//! They were sent together, so they come together, as fast as the network brings that many: like packets that are sent back to back (Keshav, "A
//! Control-Theoretic Approach to Flow Control", 1991). But for most of their time, far away, they only wait. By Little's law as many more are needed
//! as would wait meanwhile. To find that by doubling takes a round of fetches for each step, while the network is idle for most of it.
//!
//! Those that are sent then come together, too. If each of them streams about as fast as each of the first ones, it is their number that limits, and
//! not the network: so it goes on from what they bring, before they have ended. The same holds of those that are sent for what was known another time.

use std::time::Duration;

use super::Limit;
use super::recalled::{MORE, MOST};
use super::round::Finished;

/// Less says little of how fast the bytes of a fetch follow each other, bytes.
pub const TELLING: u64 = 512 << 10;

/// Fewer bytes are no burst.
const LEAST: u64 = 1 << 20;

/// A level that follows from how fast many fetches stream is believed up to so many times the first one.
const MOST_SEEN: f64 = 4.0 * MOST;

/// The level was raised for what a burst brought, or another time had brought.
#[derive(Debug, Clone, Copy)]
struct Leap {
    at: Duration,
    /// So many fetches told it, and each brings so many bytes per second where they do not hold each other up: in the first burst, or another time.
    streaming: f64,
    each: f64,
    /// The first byte of a fetch that was sent since then is there.
    answered: bool,
}

/// What has come since a time at which no fetch had its first byte, or since the first byte of those that were sent for a higher level; and the
/// large fetches that have ended so far: how many, and sums of seconds and bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Burst {
    began: Duration,
    bytes: u64,
    /// Seconds that fetches have streamed, all of them together, up to a time.
    streamed: f64,
    at: Duration,
    ended: u32,
    latencies: f64,
    durations: f64,
    sizes: f64,
    leap: Option<Leap>,
    /// Bytes per second that were found, and not asked for yet.
    found: Option<f64>,
}

impl Burst {
    /// How many fetches have their first byte changes; until now it was `before`.
    pub fn streaming(&mut self, now: Duration, before: usize) {
        self.advance(now, before);
        if before == 0 {
            self.begins(now);
        }
    }

    /// The first byte of a fetch that was sent at `started` has come.
    pub fn answered(&mut self, now: Duration, started: Duration) {
        let Some(leap) = self.leap.as_mut().filter(|leap| !leap.answered && started >= leap.at) else {
            return;
        };
        leap.answered = true;
        self.begins(now);
    }

    /// So many bytes have come, of so many fetches that stream.
    pub fn delivered(&mut self, now: Duration, streaming: usize, bytes: u64) {
        self.advance(now, streaming);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// The level is raised, as so many fetches brought so many bytes per second each.
    pub fn leaps(&mut self, now: Duration, streaming: f64, each: f64) {
        self.leap = Some(Leap { at: now, streaming, each, answered: false });
    }

    fn begins(&mut self, now: Duration) {
        (self.began, self.bytes) = (now, 0);
        (self.at, self.streamed) = (now, 0.0);
    }

    fn advance(&mut self, now: Duration, streaming: usize) {
        self.streamed += streaming as f64 * now.saturating_sub(self.at).as_secs_f64();
        self.at = self.at.max(now);
    }

    fn ended(&mut self, fetch: &Finished) {
        self.ended = self.ended.saturating_add(1);
        self.latencies += fetch.latency.as_secs_f64();
        self.durations += fetch.duration.as_secs_f64();
        self.sizes += fetch.bytes as f64;
    }

    /// Bytes per second; a burst that is shorter than `least` counts as that long. `None` if it is too small to say anything.
    fn rate(&self, now: Duration, least: Duration) -> Option<f64> {
        let seconds = now.saturating_sub(self.began).max(least).as_secs_f64();
        (self.bytes >= LEAST && seconds > 0.0).then(|| self.bytes as f64 / seconds)
    }

    /// Bytes per second of each fetch, on average. Infinite if all has come in no time.
    fn each(&self) -> f64 {
        self.bytes as f64 / self.streamed
    }

    /// Whether it has lasted for long enough, and brought enough, to say how fast each fetch streams.
    fn tells(&self, now: Duration, least: Duration) -> bool {
        now.saturating_sub(self.began) >= least && self.bytes >= LEAST && self.streamed > 0.0
    }
}

impl Limit {
    /// Bytes per second that fetches brought together while nothing was known, since it was asked last.
    pub fn take_burst(&mut self) -> Option<f64> {
        self.burst.found.take()
    }

    /// A fetch that is no longer in flight has ended well, and [nothing was measured](Limit::is_new) yet. If as many have as are in flight yet, or
    /// as are allowed, what they brought together may be enough to begin with a higher level.
    ///
    /// Only where many more are needed: where the network is busy already, nothing is to be had from waiting fetches.
    pub(super) fn leap(&mut self, now: Duration, fetch: &Finished) {
        if fetch.bytes < TELLING {
            return;
        }
        self.burst.ended(fetch);
        let Burst { ended, latencies, durations, sizes, .. } = self.burst;
        let enough = ended as usize >= self.in_flight.min(self.allowed());
        let Some(rate) = self.burst.rate(now, self.tuning.burst_least).filter(|_| enough) else { return };
        let count = f64::from(ended);
        let (latency, bytes) = (latencies / count, sizes / count);
        let per_byte = (durations - latencies).max(0.0) / sizes;
        let waiting = rate * latency / bytes;
        let needed = waiting + rate * per_byte;
        let worth = self.tuning.burst_worth;
        if waiting < self.base * worth || needed < self.base * (1.0 + worth) {
            return;
        }
        self.burst.found = Some(rate);
        self.burst.leaps(now, count, self.burst.each());
        // As much again, as if it had been found by doubling.
        self.begin_at(now, needed * (1.0 + self.tuning.grow), MOST, latency, per_byte);
    }

    /// Bytes have come. If those that were sent since the level was raised stream about as fast as the first ones did, though they are many more, it is
    /// raised for what they bring; if not, the network is what limits, and it is searched on from here.
    pub(super) fn leap_on(&mut self, now: Duration) {
        let Some(leap) = self.burst.leap.filter(|leap| leap.answered) else { return };
        if !self.is_untried() {
            self.burst.leap = None;
            return;
        }
        let (streaming, worth) = (self.streaming as f64, self.tuning.burst_worth);
        if 2 * self.streaming < self.in_flight || streaming < leap.streaming * (1.0 + worth) {
            return;
        }
        let unloaded = self.unloaded().filter(|_| self.burst.tells(now, self.tuning.burst_least));
        let Some((latency, per_byte)) = unloaded else { return };
        let each = self.burst.each();
        let rate = each * streaming;
        let needed = streaming + rate * latency / self.flying.max(1.0);
        self.burst.found = Some(rate);
        if each < leap.each * self.tuning.burst_keeps || needed < self.base * MORE {
            self.burst.leap = None;
            return;
        }
        self.burst.leaps(now, streaming, leap.each);
        self.begin_at(now, needed * (1.0 + self.tuning.grow), MOST_SEEN, latency, per_byte);
    }
}
