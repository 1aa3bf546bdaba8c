//! The lease of one epoch, as a state machine: no clock, no I/O. Times are of one clock that never goes back.

use std::time::Duration;

/// How a renewal finds out whether a later epoch was claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// Look at the next epoch's key. Enough while the lease is valid: nobody can have come and gone.
    Next,
    /// List the owners: after a lapse several may have come and gone, and their objects been removed.
    All,
}

/// What is to be done now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Todo {
    /// Rewrite the owner object, and *after that* look for a later epoch, as `Check` says.
    Renew(Check),
    /// Nothing before this time.
    WaitUntil(Duration),
    /// Nothing ever again.
    Stop,
}

/// The lease of one epoch.
#[derive(Debug, Clone)]
pub struct Lease {
    length: Duration,
    valid_until: Duration,
    next: Duration,
    /// When the renewal that is under way began.
    renewing: Option<Duration>,
    ended: bool,
}

impl Lease {
    /// The lease of an epoch that was claimed by a request made at `claimed_at`.
    pub fn new(length: Duration, claimed_at: Duration) -> Lease {
        Lease {
            length,
            valid_until: claimed_at.saturating_add(length),
            next: claimed_at.saturating_add(length / 3),
            renewing: None,
            ended: false,
        }
    }

    /// Up to when it is valid; zero if it will never be again.
    pub fn valid_until(&self) -> Duration {
        if self.ended { Duration::ZERO } else { self.valid_until }
    }

    /// Whether it is valid at `now`.
    pub fn is_valid(&self, now: Duration) -> bool {
        now < self.valid_until()
    }

    /// What is to be done at `now`. A renewal that this asks for has begun.
    pub fn poll(&mut self, now: Duration) -> Todo {
        if self.ended {
            return Todo::Stop;
        }
        if now < self.next {
            return Todo::WaitUntil(self.next);
        }
        self.renewing = Some(now);
        Todo::Renew(if self.is_valid(now) { Check::Next } else { Check::All })
    }

    /// The renewal under way succeeded, and found no later epoch: the lease runs from when it *began*, as others may have seen
    /// it any time since.
    pub fn renewed(&mut self) {
        if let Some(began) = self.renewing.take() {
            self.valid_until = self.valid_until.max(began.saturating_add(self.length));
            self.next = began.saturating_add(self.length / 3);
        }
    }

    /// The renewal under way failed at `now`, or nothing is known of it.
    pub fn failed(&mut self, now: Duration) {
        self.renewing = None;
        self.next = now.saturating_add(self.retry_after());
    }

    /// A renewal takes no longer than this before it counts as failed.
    pub fn patience(&self) -> Duration {
        self.length
    }

    fn retry_after(&self) -> Duration {
        self.length / 20
    }

    /// It is over: a later epoch was seen, a number of the log was lost, or it was released.
    pub fn end(&mut self) {
        self.ended = true;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LEASE: Duration = Duration::from_secs(30);

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_lease_runs_from_the_beginning_of_the_renewal() {
        let mut lease = Lease::new(LEASE, seconds(100));
        assert_eq!(lease.poll(seconds(105)), Todo::WaitUntil(seconds(110)));
        assert_eq!(lease.poll(seconds(112)), Todo::Renew(Check::Next));
        assert!(lease.is_valid(seconds(129)) && !lease.is_valid(seconds(130)));
        lease.renewed();
        assert!(lease.is_valid(seconds(141)) && !lease.is_valid(seconds(142)));
    }

    #[test]
    fn after_a_lapse_all_owners_are_looked_at() {
        let mut lease = Lease::new(LEASE, seconds(0));
        assert_eq!(lease.poll(seconds(5000)), Todo::Renew(Check::All));
        lease.failed(seconds(5010));
        assert!(!lease.is_valid(seconds(5011)));
        assert!(matches!(lease.poll(seconds(5010)), Todo::WaitUntil(_)));
        assert_eq!(lease.poll(seconds(5020)), Todo::Renew(Check::All));
        lease.renewed();
        assert!(lease.is_valid(seconds(5049)));
        assert_eq!(lease.poll(seconds(5045)), Todo::Renew(Check::Next));
    }

    #[derive(Debug, Clone)]
    enum Event {
        Pass(u64),
        Renewed,
        Failed,
        End,
    }

    fn events() -> impl Strategy<Value = Vec<Event>> {
        prop::collection::vec(
            prop_oneof![
                6 => (0u64..20_000).prop_map(Event::Pass),
                3 => Just(Event::Renewed),
                2 => Just(Event::Failed),
                1 => Just(Event::End),
            ],
            0..200,
        )
    }

    proptest! {
        /// Valid only within a lease of the beginning of something that succeeded; ended for ever; never stuck.
        #[test]
        fn validity_is_never_more_than_was_earned(events in events()) {
            let mut now = seconds(1000);
            let mut lease = Lease::new(LEASE, now);
            let (mut earned, mut began, mut over) = (now, None, false);
            for event in events {
                match event {
                    Event::Pass(ms) => now += Duration::from_millis(ms),
                    Event::Renewed if began.is_some() => {
                        lease.renewed();
                        earned = began.take().unwrap();
                    }
                    Event::Failed if began.take().is_some() => lease.failed(now),
                    Event::End => {
                        lease.end();
                        over = true;
                    }
                    _ => {}
                }
                prop_assert_eq!(lease.is_valid(now), !over && now < earned + LEASE);
                if began.is_none() {
                    match lease.poll(now) {
                        Todo::Renew(check) => {
                            prop_assert!(!over);
                            prop_assert_eq!(check == Check::Next, lease.is_valid(now));
                            began = Some(now);
                        }
                        Todo::WaitUntil(until) => prop_assert!(until > now && until <= now + LEASE / 3),
                        Todo::Stop => prop_assert!(over),
                    }
                }
            }
        }
    }
}
