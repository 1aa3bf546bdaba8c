//! When all requests to one server hold off, because it asked one of them for time: a pure state machine.
//!
//! A server that is overloaded answers some requests with "slow down". Slowing down only those would leave the load where it is,
//! so whoever is told shares it. Pauses that the server did not measure grow while it goes on asking and shrink as it answers.

use std::time::Duration;

/// Shortest pause of our own choosing.
const BASE: Duration = Duration::from_millis(100);
/// Longest pause of our own choosing.
const CAP: Duration = Duration::from_secs(5);
/// Doublings of the base that reach the cap.
const MAX_STRIKES: u32 = 6;

/// The pause of one server. Times are since any fixed origin.
#[derive(Debug, Clone)]
pub struct Pause {
    until: Duration,
    strikes: u32,
    /// Longest time a server can make us hold off.
    limit: Duration,
}

impl Pause {
    /// No pause. A server that asks for more than `limit` gets that.
    pub fn new(limit: Duration) -> Pause {
        Pause { until: Duration::ZERO, strikes: 0, limit }
    }

    /// The server asked for fewer requests, and named the time if it gave one.
    pub fn throttled(&mut self, now: Duration, asked: Option<Duration>) {
        let length = match asked.filter(|asked| !asked.is_zero()) {
            Some(asked) => asked,
            // Requests that were under way when the pause began are not told anything new.
            None if now < self.until => return,
            None => BASE.saturating_mul(1 << self.strikes.min(MAX_STRIKES)).min(CAP),
        };
        if now >= self.until {
            self.strikes = (self.strikes + 1).min(MAX_STRIKES);
        }
        self.until = self.until.max(now.saturating_add(length.min(self.limit)));
    }

    /// The server did what it was asked to.
    pub fn succeeded(&mut self) {
        self.strikes = self.strikes.saturating_sub(1);
    }

    /// How long to hold off from `now`.
    pub fn remaining(&self, now: Duration) -> Duration {
        self.until.saturating_sub(now)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    #[test]
    fn what_the_server_asks_for_is_granted_up_to_the_limit() {
        let mut pause = Pause::new(LIMIT);
        pause.throttled(Duration::from_secs(10), Some(Duration::from_secs(3)));
        assert_eq!(pause.remaining(Duration::from_secs(11)), Duration::from_secs(2));
        pause.throttled(Duration::from_secs(11), Some(Duration::from_secs(86_400)));
        assert_eq!(pause.remaining(Duration::from_secs(11)), LIMIT);
    }

    #[test]
    fn a_burst_of_refusals_is_one_pause_and_answers_shorten_the_next() {
        let mut pause = Pause::new(LIMIT);
        for _ in 0..50 {
            pause.throttled(Duration::from_secs(1), None);
        }
        assert_eq!(pause.remaining(Duration::from_secs(1)), BASE);
        pause.throttled(Duration::from_secs(2), None);
        assert_eq!(pause.remaining(Duration::from_secs(2)), 2 * BASE);
        (0..10).for_each(|_| pause.succeeded());
        pause.throttled(Duration::from_secs(3), None);
        assert_eq!(pause.remaining(Duration::from_secs(3)), BASE);
    }

    #[test]
    fn a_pause_is_over_at_its_end_and_the_next_is_longer() {
        let mut pause = Pause::new(LIMIT);
        let mut now = Duration::from_secs(1);
        let mut lengths = Vec::new();
        for _ in 0..8 {
            pause.throttled(now, None);
            let length = pause.remaining(now);
            lengths.push(length);
            // Whoever was under way meanwhile is not told anything new.
            pause.throttled(now + length - Duration::from_nanos(1), None);
            assert_eq!(pause.remaining(now), length);
            now += length;
        }
        let doubled: Vec<Duration> = (0..8).map(|n| (BASE * (1 << n)).min(CAP)).collect();
        assert_eq!(lengths, doubled);
    }

    proptest! {
        /// Nothing a server says keeps us away for longer than the limit, and nothing shortens a pause it asked for.
        #[test]
        fn a_pause_is_bounded_and_never_cut(events in proptest::collection::vec((0u64..5_000, proptest::option::of(0u64..200_000), any::<bool>()), 1..100)) {
            let mut pause = Pause::new(LIMIT);
            let mut now = Duration::ZERO;
            for (step, asked, success) in events {
                now += Duration::from_millis(step);
                let before = pause.remaining(now);
                if success {
                    pause.succeeded();
                } else {
                    pause.throttled(now, asked.map(Duration::from_millis));
                    prop_assert!(!pause.remaining(now).is_zero());
                }
                prop_assert!(pause.remaining(now) >= before);
                prop_assert!(pause.remaining(now) <= LIMIT);
            }
        }
    }
}
