//! When to try again after a failure: a pure state machine, no clock and no sleep of its own.
//!
//! Waits grow by "decorrelated jitter" (Marc Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015): each wait is
//! drawn between the base and three times the wait before it, up to a cap. Clients that failed together so do not come back
//! together. There is no maximum number of attempts: the deadline rules.
//!
//! Nor does anybody wait for much longer than half of the time for which it has failed: who asks again that late finds out late that the
//! trouble is over, and a reader may wait for nothing else.

use std::time::Duration;

/// What kind of failure it was, as far as trying again is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Failure {
    /// The network or the other side broke; trying again may help.
    Transient,
    /// The other side asked for fewer requests; wait longer from the start.
    Throttled,
    /// Trying again cannot help.
    Permanent,
}

/// What to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Wait this long, then try again.
    Wait(Duration),
    /// Report the failure.
    GiveUp,
}

/// The numbers of a [`Backoff`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Shortest wait after a [`Failure::Transient`].
    pub base: Duration,
    /// Shortest wait after a [`Failure::Throttled`].
    pub throttled_base: Duration,
    /// Longest wait of our own choosing; a server's "retry after" may be longer.
    pub cap: Duration,
    /// No wait ends at or after this time since the start.
    pub deadline: Duration,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            base: Duration::from_millis(50),
            throttled_base: Duration::from_millis(400),
            cap: Duration::from_secs(5),
            deadline: Duration::from_secs(60),
        }
    }
}

/// A wait is up to so many times as long as the one before it.
const TIMES: u32 = 3;

impl Policy {
    /// The longest wait of an operation that has failed for so long.
    fn longest(&self, failed_for: Duration) -> Duration {
        self.cap.min((failed_for / 2).max(self.throttled_base.saturating_mul(TIMES)))
    }
}

/// The retry state of one operation.
#[derive(Debug, Clone)]
pub struct Backoff {
    policy: Policy,
    previous: Duration,
    failures: u32,
    random: SplitMix64,
}

impl Backoff {
    /// A fresh state. Operations that run at the same time need different seeds.
    pub fn new(policy: Policy, seed: u64) -> Backoff {
        Backoff { policy, previous: Duration::ZERO, failures: 0, random: SplitMix64(seed) }
    }

    /// An attempt failed at `now` (time since the operation began). `retry_after` is what the server asked for, if it did:
    /// we never come back earlier.
    pub fn failed(&mut self, now: Duration, failure: Failure, retry_after: Option<Duration>) -> Decision {
        self.failures = self.failures.saturating_add(1);
        let base = match failure {
            Failure::Permanent => return Decision::GiveUp,
            Failure::Transient => self.policy.base,
            Failure::Throttled => self.policy.throttled_base,
        };
        let low = base.min(self.policy.cap);
        let longest = self.policy.longest(now);
        let high = self.previous.max(low).saturating_mul(TIMES).clamp(low, longest.max(low));
        let own = self.random.between(low, high);
        self.previous = own;
        // Sleeping up to the deadline only to fail would help nobody: leave at least as much time as is slept.
        let own = own.min(self.remaining(now) / 2);
        let wait = own.max(retry_after.unwrap_or(Duration::ZERO));
        match now.checked_add(wait) {
            Some(end) if own >= low && end < self.policy.deadline => Decision::Wait(wait),
            _ => Decision::GiveUp,
        }
    }

    /// `wait`, made up to a quarter longer: those who wait for the same moment do not all come at once.
    pub fn spread(&mut self, wait: Duration) -> Duration {
        wait.saturating_add(self.random.between(Duration::ZERO, wait / 4))
    }

    /// How many attempts have failed so far.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Time left until the deadline.
    pub fn remaining(&self, now: Duration) -> Duration {
        self.policy.deadline.saturating_sub(now)
    }
}

/// Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators" (2014). Spreads waits; nothing secret hangs on it.
#[derive(Debug, Clone)]
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in `low..=high`; needs `low <= high`.
    fn between(&mut self, low: Duration, high: Duration) -> Duration {
        let span = u64::try_from(high.saturating_sub(low).as_nanos()).unwrap_or(u64::MAX);
        let share = (u128::from(self.next()) * (u128::from(span) + 1)) >> 64;
        low + Duration::from_nanos(u64::try_from(share).unwrap_or(span))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn policies() -> impl Strategy<Value = Policy> {
        (1u64..2_000, 1u64..5_000, 1u64..20_000, 0u64..120_000).prop_map(
            |(base, throttled, cap, deadline)| Policy {
                base: Duration::from_millis(base),
                throttled_base: Duration::from_millis(throttled),
                cap: Duration::from_millis(cap),
                deadline: Duration::from_millis(deadline),
            },
        )
    }

    fn failures() -> impl Strategy<Value = (Failure, Option<Duration>, Duration)> {
        (
            prop_oneof![4 => Just(Failure::Transient), 2 => Just(Failure::Throttled), 1 => Just(Failure::Permanent)],
            proptest::option::of((0u64..30_000).prop_map(Duration::from_millis)),
            // What the attempt itself took.
            (0u64..3_000).prop_map(Duration::from_millis),
        )
    }

    proptest! {
        /// Whatever happens: no wait passes the deadline, none is shorter than asked for or longer than the cap (unless the
        /// server asked), and a permanent failure ends it.
        #[test]
        fn waits_stay_inside_their_bounds(policy in policies(), seed: u64, events in proptest::collection::vec(failures(), 1..200)) {
            let mut backoff = Backoff::new(policy, seed);
            let mut now = Duration::ZERO;
            for (failure, retry_after, took) in events {
                now += took;
                let base = if failure == Failure::Throttled { policy.throttled_base } else { policy.base };
                match backoff.failed(now, failure, retry_after) {
                    Decision::GiveUp => {
                        let low = base.min(policy.cap);
                        prop_assert!(
                            failure == Failure::Permanent
                                || now + 2 * low > policy.deadline
                                || now + retry_after.unwrap_or_default() >= policy.deadline
                        );
                    }
                    Decision::Wait(wait) => {
                        prop_assert!(failure != Failure::Permanent);
                        prop_assert!(now + wait < policy.deadline);
                        prop_assert!(wait >= base.min(policy.cap));
                        prop_assert!(wait <= policy.cap.max(retry_after.unwrap_or_default()));
                        prop_assert!(wait >= retry_after.unwrap_or_default());
                        now += wait;
                    }
                }
            }
        }

        /// Every operation ends: with attempts that take no time at all there are at most deadline / base of them.
        #[test]
        fn it_ends(policy in policies(), seed: u64) {
            let mut backoff = Backoff::new(policy, seed);
            let mut now = Duration::ZERO;
            while let Decision::Wait(wait) = backoff.failed(now, Failure::Transient, None) {
                now += wait;
            }
            let shortest = policy.base.min(policy.cap);
            prop_assert!(u128::from(backoff.failures()) <= policy.deadline.as_nanos() / shortest.as_nanos() + 1);
        }
    }

    #[test]
    fn two_clients_do_not_come_back_together() {
        let waits = |seed| {
            let mut backoff = Backoff::new(Policy::default(), seed);
            (0..8).map(|_| backoff.failed(Duration::ZERO, Failure::Transient, None)).collect::<Vec<_>>()
        };
        assert_ne!(waits(1)[0], waits(2)[0]);
        assert_eq!(waits(3), waits(3), "the same seed must give the same waits");
    }

    #[test]
    fn numbers_are_those_of_the_published_generator() {
        let mut random = SplitMix64(0);
        let first = [random.next(), random.next(), random.next()];
        assert_eq!(first, [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f]);
    }

    #[test]
    fn every_wait_between_two_is_drawn_both_included() {
        let mut random = SplitMix64(1);
        let (low, high) = (Duration::from_nanos(5), Duration::from_nanos(8));
        let mut seen = [0u32; 4];
        for _ in 0..400 {
            let drawn = random.between(low, high).as_nanos() as usize;
            seen[drawn - 5] += 1;
        }
        assert!(seen.iter().all(|count| (60..140).contains(count)), "{seen:?}");
        assert_eq!(random.between(high, high), high);
    }

    #[test]
    fn waits_grow_from_the_base_to_the_cap() {
        let policy = Policy { deadline: Duration::from_secs(86_400), ..Policy::default() };
        for (failure, base) in
            [(Failure::Transient, policy.base), (Failure::Throttled, policy.throttled_base)]
        {
            let mut mean = [Duration::ZERO; 20];
            for seed in 0..200 {
                let mut backoff = Backoff::new(policy, seed);
                let (mut most, mut now) = (base, Duration::ZERO);
                for slot in &mut mean {
                    let Decision::Wait(wait) = backoff.failed(now, failure, None) else {
                        panic!("there is time")
                    };
                    most = (most * 3).min(policy.cap);
                    assert!(wait >= base && wait <= most, "{wait:?} of {base:?} to {most:?}");
                    let soon = (now / 2).max(policy.throttled_base * 3);
                    assert!(wait <= soon, "{wait:?} after {now:?}");
                    *slot += wait / 200;
                    now += wait;
                }
                assert_eq!(backoff.failures(), 20);
            }
            assert!(mean[0] > base && mean[0] < base * 3, "{:?}", mean[0]);
            assert!(mean[6] > mean[0].mul_f64(1.5), "{mean:?}");
            assert!(mean[19] > policy.cap / 4, "{mean:?}");
        }
    }

    #[test]
    fn half_of_the_time_that_is_left_is_for_the_attempt() {
        let policy =
            Policy { base: Duration::from_secs(1), cap: Duration::from_secs(1), ..Policy::default() };
        let mut backoff = Backoff::new(policy, 1);
        assert_eq!(backoff.remaining(Duration::from_secs(58)), Duration::from_secs(2));
        let second = Duration::from_secs(1);
        assert_eq!(backoff.failed(58 * second, Failure::Transient, None), Decision::Wait(second));
        assert_eq!(
            backoff.failed(58 * second + Duration::from_nanos(2), Failure::Transient, None),
            Decision::GiveUp
        );
        // A server may ask for longer, but not for all that is left.
        let all = 2 * second;
        assert_eq!(backoff.failed(58 * second, Failure::Transient, Some(all)), Decision::GiveUp);
        let less = all - Duration::from_nanos(1);
        assert_eq!(backoff.failed(58 * second, Failure::Transient, Some(less)), Decision::Wait(less));
    }

    #[test]
    fn waits_are_spread_by_up_to_a_quarter() {
        let mut backoff = Backoff::new(Policy::default(), 1);
        let wait = Duration::from_secs(8);
        let spread: Vec<Duration> = (0..200).map(|_| backoff.spread(wait)).collect();
        assert!(spread.iter().all(|one| *one >= wait && *one <= wait.mul_f64(1.25)));
        let (least, most) = (spread.iter().min(), spread.iter().max());
        assert!(least < Some(&wait.mul_f64(1.02)) && most > Some(&wait.mul_f64(1.23)), "{least:?} {most:?}");
    }

    #[test]
    fn a_long_outage_is_asked_about_rarely() {
        let policy = Policy { deadline: Duration::from_secs(3600), ..Policy::default() };
        let mut backoff = Backoff::new(policy, 7);
        let mut now = Duration::ZERO;
        while let Decision::Wait(wait) = backoff.failed(now, Failure::Transient, None) {
            now += wait;
        }
        // Waits settle around half the cap: 3600 s / 2.5 s.
        assert!((700..3600).contains(&backoff.failures()), "{}", backoff.failures());
    }

    #[test]
    fn a_server_that_asks_for_more_time_than_there_is_ends_it() {
        let mut backoff = Backoff::new(Policy::default(), 1);
        let asked = Some(Duration::from_secs(120));
        assert_eq!(backoff.failed(Duration::ZERO, Failure::Throttled, asked), Decision::GiveUp);
    }
}
