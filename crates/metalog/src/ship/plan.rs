//! When the log is shipped: a pure decision over what waits and for how long.

use std::time::Duration;

/// The numbers of the decision.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShipPolicy {
    /// Age of the oldest commit that is not shipped at which it is shipped although nobody waits for it.
    pub linger: Duration,
    /// Bytes of changes that are shipped although they are young and nobody waits for them.
    pub press_bytes: u64,
    /// Bytes of changes put into one object; a single larger group makes an object of its own.
    pub max_object_bytes: u64,
}

impl Default for ShipPolicy {
    fn default() -> ShipPolicy {
        ShipPolicy { linger: Duration::from_secs(1), press_bytes: 4 << 20, max_object_bytes: 8 << 20 }
    }
}

/// What waits to be shipped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Backlog {
    /// Groups that are durable here and not shipped.
    pub(crate) groups: u64,
    /// Bytes of their changes.
    pub(crate) bytes: u64,
    /// Time since the oldest of them was committed.
    pub(crate) age: Duration,
    /// Somebody waits for something that is durable here and not shipped.
    pub(crate) awaited: bool,
}

/// What to do now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// Write an object.
    Ship,
    /// Nothing, until an event comes or this time has passed.
    Wait(Option<Duration>),
}

impl ShipPolicy {
    /// The next step. `retry_in` is the time left until a failed attempt may be repeated.
    pub(crate) fn step(&self, backlog: &Backlog, retry_in: Option<Duration>) -> Step {
        if backlog.groups == 0 {
            return Step::Wait(None);
        }
        if let Some(wait) = retry_in
            && !wait.is_zero()
        {
            return Step::Wait(Some(wait));
        }
        if retry_in.is_some() || backlog.awaited || backlog.bytes >= self.press_bytes {
            return Step::Ship;
        }
        match self.linger.checked_sub(backlog.age) {
            None | Some(Duration::ZERO) => Step::Ship,
            wait => Step::Wait(wait),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn backlogs() -> impl Strategy<Value = Backlog> {
        (0u64..4, 0u64..(8 << 20), 0u64..3_000, any::<bool>()).prop_map(|(groups, bytes, age, awaited)| {
            Backlog { groups, bytes, age: Duration::from_millis(age), awaited }
        })
    }

    proptest! {
        /// Nothing that is there is left without a date, and nothing is done when there is nothing to do.
        #[test]
        fn what_waits_has_a_date(backlog in backlogs(), retry in proptest::option::of(0u64..5_000)) {
            let policy = ShipPolicy::default();
            let retry = retry.map(Duration::from_millis);
            match policy.step(&backlog, retry) {
                Step::Ship => {
                    prop_assert!(backlog.groups > 0);
                    prop_assert!(retry.is_none_or(|r| r.is_zero()));
                }
                Step::Wait(None) => prop_assert_eq!(backlog.groups, 0),
                Step::Wait(Some(wait)) => {
                    prop_assert!(!wait.is_zero() && backlog.groups > 0);
                    // After the wait it is shipped.
                    let later = Backlog { age: backlog.age + wait, ..backlog };
                    prop_assert_eq!(policy.step(&later, retry.map(|r| r.saturating_sub(wait))), Step::Ship);
                }
            }
        }
    }

    #[test]
    fn a_waiter_does_not_wait_for_the_linger_and_does_not_hammer_a_store_that_is_gone() {
        let policy = ShipPolicy::default();
        let young = Backlog { groups: 1, bytes: 10, age: Duration::from_millis(1), awaited: false };
        assert_eq!(policy.step(&young, None), Step::Wait(Some(Duration::from_millis(999))));
        let awaited = Backlog { awaited: true, ..young };
        assert_eq!(policy.step(&awaited, None), Step::Ship);
        let pause = Duration::from_secs(2);
        assert_eq!(policy.step(&awaited, Some(pause)), Step::Wait(Some(pause)));
        assert_eq!(policy.step(&Backlog { bytes: 4 << 20, ..young }, None), Step::Ship);
    }
}
