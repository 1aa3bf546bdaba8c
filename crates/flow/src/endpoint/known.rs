//! What was learned of an endpoint another time: a search that begins where the last one ended is over at once.

use std::time::Duration;

use super::limit::TELLING;
use super::{Endpoint, Flight};

/// As short as this, times differ by chance.
const SHORT: Duration = Duration::from_millis(2);

/// What is known of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// From sending a fetch to its first byte, while the endpoint is not loaded.
    pub latency: Duration,
    /// From its first byte on, for each MiB.
    pub mib: Duration,
    /// Bytes per second, of all fetches together.
    pub rate: u64,
}

impl Known {
    /// Whether `bytes` bytes came as this says, the first of them after `latency`, the last `body` later: after half or twice the time, and at
    /// half the rate or more. What was learned was learned beside many others, and one alone is often faster.
    fn is_like(&self, latency: Duration, bytes: u64, body: Duration) -> bool {
        let most = |known: Duration| known.saturating_mul(2).max(known.saturating_add(SHORT));
        let known = self.mib.as_secs_f64() * bytes as f64 / f64::from(1 << 20);
        let known = Duration::try_from_secs_f64(known).unwrap_or(Duration::MAX);
        latency <= most(self.latency) && self.latency <= most(latency) && body <= most(known)
    }
}

impl Endpoint {
    /// What is known now; `None` before anything is. What was told by [`recall`](Endpoint::recall) and not needed is still known.
    pub fn known(&self) -> Option<Known> {
        let measured = || {
            let (latency, per_byte) = self.limit.unloaded()?;
            let mib = Duration::try_from_secs_f64(per_byte * f64::from(1 << 20)).ok()?;
            let latency = Duration::try_from_secs_f64(latency).ok()?;
            Some(Known { latency, mib, rate: self.bandwidth()? })
        };
        measured().or(self.recalled)
    }

    /// What was known another time. It is believed when a fetch comes as it says, if nothing else was measured until then.
    pub fn recall(&mut self, known: Known) {
        self.recalled = Some(known);
    }

    /// Bytes of a fetch have come: they may come as they did another time. True if that is believed from now on.
    pub(super) fn believe(&mut self, now: Duration, flight: &Flight) -> bool {
        let Some((known, latency)) = self.recalled.zip(flight.first_byte) else { return false };
        let body = now.saturating_sub(flight.started.saturating_add(latency));
        if flight.bytes < TELLING || !self.limit.is_new() || !known.is_like(latency, flight.bytes, body) {
            return false;
        }
        let per_byte = known.mib.as_secs_f64() / f64::from(1 << 20);
        let size = self.size.unwrap_or(0.0).max(1.0);
        self.limit.recall(now, known.rate as f64, known.latency.as_secs_f64(), per_byte, size);
        self.bandwidth.recall(now, known.rate);
        self.recalled = None;
        true
    }
}
