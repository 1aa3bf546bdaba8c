//! A token bucket: how long to wait so that no more than so many bytes a second are taken.
//!
//! Kept as the moment until which everything taken so far is paid for (a "virtual scheduling" bucket), so that there is nothing to
//! refill.

use std::time::Duration;

/// What a pause earns at most: fetches come in lumps, and a lull between two is made up for.
pub const CREDIT: Duration = Duration::from_millis(500);

const NANOS: u128 = 1_000_000_000;

/// The bucket. Times are since any fixed moment and do not go backwards.
#[derive(Debug, Clone)]
pub struct TokenBucket {
    /// Bytes a second, at least 1.
    rate: u64,
    /// When all that was taken is paid for.
    paid: Duration,
}

impl TokenBucket {
    /// Lets `rate` bytes a second pass from `now` on; empty at first.
    pub fn new(rate: u64, now: Duration) -> TokenBucket {
        TokenBucket { rate: rate.max(1), paid: now }
    }

    /// Takes `bytes`, and says how long to wait before they may pass. In any stretch of time, what passes after its first
    /// bytes is at most what the rate allows in it and in [`CREDIT`].
    pub fn take(&mut self, now: Duration, bytes: u64) -> Duration {
        let from = self.paid.max(now.saturating_sub(CREDIT));
        self.paid = from.saturating_add(self.cost(bytes));
        self.paid.saturating_sub(now)
    }

    /// How long the rate needs for so many bytes, rounded up.
    fn cost(&self, bytes: u64) -> Duration {
        let nanos = (u128::from(bytes) * NANOS).div_ceil(u128::from(self.rate));
        let seconds = u64::try_from(nanos / NANOS).unwrap_or(u64::MAX);
        // Less than a second of them: it fits.
        Duration::new(seconds, (nanos % NANOS) as u32)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_first_bytes_wait_as_all_others_do() {
        let mut bucket = TokenBucket::new(1000, Duration::ZERO);
        assert_eq!(bucket.take(Duration::ZERO, 500), Duration::from_millis(500));
        assert_eq!(bucket.take(Duration::ZERO, 1000), Duration::from_millis(1500));
        assert_eq!(bucket.take(Duration::from_secs(1), 1), Duration::from_millis(501));
    }

    #[test]
    fn a_long_pause_earns_little() {
        let mut bucket = TokenBucket::new(1000, Duration::ZERO);
        let later = Duration::from_secs(3600);
        assert_eq!(bucket.take(later, 500), Duration::ZERO);
        assert_eq!(bucket.take(later, 500), Duration::from_millis(500));
    }

    #[test]
    fn absurd_numbers_do_no_harm() {
        let mut bucket = TokenBucket::new(0, Duration::MAX);
        assert_eq!(bucket.take(Duration::ZERO, u64::MAX), Duration::MAX);
        let mut bucket = TokenBucket::new(u64::MAX, Duration::ZERO);
        assert_eq!(bucket.take(Duration::ZERO, u64::MAX), Duration::from_secs(1));
    }

    /// When each of a series passes: what came before it in time, and how many bytes it is.
    fn pass(rate: u64, series: &[(u64, u64)]) -> Vec<(Duration, u64)> {
        let mut bucket = TokenBucket::new(rate, Duration::ZERO);
        let mut now = Duration::ZERO;
        let mut passed = Vec::new();
        for (gap, bytes) in series {
            now += Duration::from_nanos(*gap);
            passed.push((now + bucket.take(now, *bytes), *bytes));
        }
        passed
    }

    proptest! {
        #[test]
        fn no_stretch_of_time_lets_more_pass_than_the_rate_allows(
            rate in 1_u64..1 << 30,
            series in prop::collection::vec((0_u64..2_000_000_000, 0_u64..1 << 24), 1..60),
        ) {
            let passed = pass(rate, &series);
            // From the beginning, nothing at all may be too early.
            let mut sum = 0;
            for (at, bytes) in &passed {
                sum += u128::from(*bytes);
                prop_assert!(sum * NANOS <= (*at + CREDIT).as_nanos() * u128::from(rate));
            }
            for first in 0..passed.len() {
                let mut sum = 0;
                for (at, bytes) in &passed[first + 1..] {
                    sum += u128::from(*bytes);
                    let stretch = *at - passed[first].0 + CREDIT;
                    prop_assert!(sum * NANOS <= stretch.as_nanos() * u128::from(rate));
                }
            }
        }

        #[test]
        fn whoever_always_wants_more_gets_the_whole_rate(
            rate in 1_u64..1 << 30,
            series in prop::collection::vec(1_u64..1 << 24, 1..60),
        ) {
            let series: Vec<(u64, u64)> = series.into_iter().map(|bytes| (0, bytes)).collect();
            let passed = pass(rate, &series);
            let bytes: u128 = passed.iter().map(|(_, bytes)| u128::from(*bytes)).sum();
            let last = passed.last().map(|(at, _)| at.as_nanos()).unwrap_or_default();
            // Rounded up by less than a nanosecond each time.
            prop_assert!(last <= (bytes * NANOS).div_ceil(u128::from(rate)) + series.len() as u128);
        }
    }
}
