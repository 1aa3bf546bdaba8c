//! Where nothing is known: what the first fetches bring while they come says how many are needed to bring as much all the time.
//!
//! They were sent together, so they come together, as fast as the network brings that many: like packets that are sent back to back (Keshav, "A
//! Control-Theoretic Approach to Flow Control", 1991). But for most of their time, far away, they only wait. By Little's law as many more are needed
//! as would wait meanwhile. To find that by doubling takes a round of fetches for each step, while the network is idle for most of it.

use std::time::Duration;

use super::Limit;
use super::round::Finished;

/// Less says little of how fast the bytes of a fetch follow each other, bytes.
pub const TELLING: u64 = 512 << 10;

/// Fewer bytes are no burst.
const LEAST: u64 = 1 << 20;

/// What has come since a time at which no fetch had its first byte, and the large fetches that have ended so far: how many, and sums of seconds and bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Burst {
    began: Duration,
    bytes: u64,
    ended: u32,
    latencies: f64,
    durations: f64,
    sizes: f64,
}

impl Burst {
    /// A fetch has its first byte, and no other one was coming.
    pub fn begins(&mut self, now: Duration) {
        (self.began, self.bytes) = (now, 0);
    }

    /// So many bytes have come.
    pub fn delivered(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
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
}

impl Limit {
    /// A fetch that is no longer in flight has ended well, and [nothing was measured](Limit::is_new) yet. If half of those that were sent have,
    /// what they brought together may be enough to begin with a higher level.
    ///
    /// Only where many more are needed: where the network is busy already, nothing is to be had from waiting fetches.
    pub(super) fn leap(&mut self, now: Duration, fetch: &Finished) {
        if fetch.bytes < TELLING {
            return;
        }
        self.burst.ended(fetch);
        let Burst { ended, latencies, durations, sizes, .. } = self.burst;
        let enough = ended as usize >= self.in_flight;
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
        // As much again, as if it had been found by doubling.
        self.begin_at(now, needed * (1.0 + self.tuning.grow), latency, per_byte);
    }
}
