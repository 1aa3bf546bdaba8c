//! A rate kept by time: the generic cell rate algorithm (ITU-T I.371), without a burst to spend.

use std::time::{Duration, Instant};

use crate::Rate;

/// How late a sender may be and still catch up: the kernel's timers are so late, more is a pause of its own making.
const CATCH_UP: Duration = Duration::from_millis(4);
/// Bytes that pass at once: what the rate allows in four milliseconds, within these bounds. Fewer cost more wakes
/// for each byte.
const PIECES: std::ops::RangeInclusive<u64> = (16 << 10)..=(1 << 20);

/// When the bytes so far have passed.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    passed: Option<Instant>,
}

impl Pace {
    /// The time at which `bytes` more, that stand ready at `now`, may have passed.
    pub(crate) fn take(&mut self, bytes: u64, rate: Rate, now: Instant) -> Instant {
        let earliest = now.checked_sub(CATCH_UP).unwrap_or(now);
        let start = match self.passed {
            Some(passed) if passed >= earliest => passed,
            _ => now,
        };
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(rate.bytes_per_second());
        let time = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        let end = start.checked_add(time).unwrap_or(start);
        self.passed = Some(end);
        end
    }
}

/// Bytes to pass at once under a cap on all connections together.
pub(crate) fn piece(rate: Rate) -> u64 {
    (rate.bytes_per_second() / 250).clamp(*PIECES.start(), *PIECES.end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Senders of any pieces at any times, each waiting for its turn, are never faster than the rate.
        #[test]
        fn never_faster_than_the_rate(
            rate in 1_000u64..2_000_000_000,
            steps in prop::collection::vec((1u64..2_000_000, 0u64..5_000_000), 1..200),
        ) {
            let rate = Rate::per_second(rate).unwrap();
            let began = Instant::now() + Duration::from_secs(1);
            let (mut now, mut pace, mut sent) = (began, Pace::default(), 0u128);
            for (bytes, pause) in steps {
                now += Duration::from_nanos(pause);
                let when = pace.take(bytes, rate, now);
                now = now.max(when);
                sent += u128::from(bytes);
                let least = sent * 1_000_000_000 / u128::from(rate.bytes_per_second());
                prop_assert!((now - began).as_nanos() + 300 >= least, "{sent} bytes in {:?}", now - began);
            }
        }

        /// A sender that is always ready, woken up to a millisecond late, gets the whole rate.
        #[test]
        fn the_whole_rate_despite_late_wakes(
            rate in 10_000_000u64..2_000_000_000,
            late in prop::collection::vec(0u64..1_000_000, 100),
        ) {
            let rate = Rate::per_second(rate).unwrap();
            let began = Instant::now() + Duration::from_secs(1);
            let (mut now, mut pace, mut sent) = (began, Pace::default(), 0);
            for late in late {
                let when = pace.take(piece(rate), rate, now);
                now = now.max(when + Duration::from_nanos(late));
                sent += piece(rate);
            }
            let ideal = sent as f64 / rate.bytes_per_second() as f64;
            prop_assert!((now - began).as_secs_f64() <= ideal + 0.002, "{:?} for {ideal} s", now - began);
        }
    }
}
