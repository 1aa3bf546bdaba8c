//! How fast to read: a pure decision, without a clock.

use std::time::Duration;

/// What a whole pass may take when nobody asks for a rate.
pub const PASS: Duration = Duration::from_secs(30 * 24 * 3600);
/// Slowest rate chosen, bytes per second: so that small volumes are through in days.
pub const SLOWEST: u64 = 64 << 10;
/// Fastest rate chosen, bytes per second: little beside what a disk does for its users.
pub const FASTEST: u64 = 8 << 20;

/// Shortest time between the beginnings of two passes at a rate that was asked for.
pub(super) const DAILY: Duration = Duration::from_secs(24 * 3600);

/// How fast stored data is read again to see whether it is still good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Scrub {
    /// For a volume in a local directory, fast enough to be through in 30 days, from 64 KiB to 8 MiB a second; never for
    /// one in a remote store, where reading costs money and the store checks itself.
    #[default]
    Auto,
    /// Never.
    Off,
    /// So many bytes a second.
    Rate(u64),
}

impl Scrub {
    /// Bytes a second for a volume with `bytes` of data; `None`: not at all.
    pub fn rate(self, is_local: bool, bytes: u64) -> Option<u64> {
        match self {
            Scrub::Off | Scrub::Rate(0) => None,
            Scrub::Rate(rate) => Some(rate),
            Scrub::Auto if is_local => Some((bytes / PASS.as_secs()).clamp(SLOWEST, FASTEST)),
            Scrub::Auto => None,
        }
    }

    /// Least time from the beginning of one pass to that of the next.
    pub fn interval(self) -> Duration {
        if self == Scrub::Auto { PASS } else { DAILY }
    }
}

/// Spreads reads over time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pacer {
    /// Not before this time may the next read begin.
    next: Duration,
}

impl Pacer {
    /// How long to wait at `now` (time since any fixed moment, not going back) after a read of `bytes` at `rate`. Time in
    /// which nothing was read is not made up for.
    pub fn wait(&mut self, now: Duration, bytes: u64, rate: u64) -> Duration {
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1));
        let takes = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        self.next = self.next.max(now).saturating_add(takes);
        self.next.saturating_sub(now)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn remote_stores_are_left_alone_unless_asked() {
        assert_eq!(Scrub::Auto.rate(false, 1 << 40), None);
        assert_eq!(Scrub::Rate(5).rate(false, 0), Some(5));
        assert_eq!(Scrub::Off.rate(true, 1 << 40), None);
        assert_eq!(Scrub::Auto.rate(true, 0), Some(SLOWEST));
        assert_eq!(Scrub::Auto.rate(true, u64::MAX), Some(FASTEST));
        let terabytes = 5 << 40;
        let rate = Scrub::Auto.rate(true, terabytes).unwrap();
        assert!(terabytes / rate <= PASS.as_secs() + 10);
    }

    proptest! {
        /// Whoever waits as told never reads faster than the rate, but for the last piece.
        #[test]
        fn the_rate_is_kept(rate in 1u64..1 << 30, reads in prop::collection::vec((1u64..1 << 22, 0u64..2000), 1..50)) {
            let (mut pacer, mut now, mut total) = (Pacer::default(), Duration::ZERO, 0u64);
            for (bytes, idle_ms) in reads {
                now += Duration::from_millis(idle_ms);
                total += bytes;
                now += pacer.wait(now, bytes, rate);
                prop_assert!(u128::from(total) <= now.as_nanos() * u128::from(rate) / 1_000_000_000 + u128::from(rate / 1_000_000 + 50));
            }
        }
    }
}
