//! Whether the holder found in a bucket still lives: the decision, without clock and I/O.

use std::time::Duration;

use crate::ObjectHash;

/// What a look at the owner objects showed of the highest epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// The highest epoch; 0 if there is none.
    pub epoch: u64,
    /// Of its owner object's stored bytes, which change at every renewal.
    pub mark: ObjectHash,
    /// Whether it needs no watching: nobody ever held the volume, the holder released it, or the holder was the dead
    /// process before us in our own state directory.
    pub free: bool,
    /// The holder's lease.
    pub lease: Duration,
    /// When the look began, on our own clock.
    pub asked: Duration,
    /// When it was answered.
    pub answered: Duration,
}

/// What a look means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nobody holds the volume.
    Free,
    /// The holder renewed its lease, or another one came.
    Alive,
    /// The holder did not renew its lease for longer than it lasts.
    Dead {
        /// How long it was watched.
        silent: Duration,
    },
    /// Not known yet: look again after this time.
    Wait(Duration),
}

/// Watches one holder.
#[derive(Debug, Clone, Default)]
pub struct Watch {
    first: Option<Look>,
}

/// How long a holder must be silent to count as dead: longer than its lease, because clocks do not run at quite the same rate.
pub fn silence(lease: Duration) -> Duration {
    lease.saturating_add(lease / 4)
}

impl Watch {
    /// Takes in a look at the owners. What counts is the time between the answer of the first and the beginning of the last look:
    /// nothing is taken for granted about when within a request the store looked.
    pub fn observe(&mut self, look: Look) -> Verdict {
        if look.free {
            return Verdict::Free;
        }
        let Some(first) = self.first.filter(|first| first.epoch <= look.epoch) else {
            self.first = Some(look);
            return Verdict::Wait(pause(look.lease));
        };
        if first.epoch != look.epoch || first.mark != look.mark {
            return Verdict::Alive;
        }
        let silent = look.asked.saturating_sub(first.answered);
        let needed = silence(look.lease);
        if silent >= needed {
            return Verdict::Dead { silent };
        }
        Verdict::Wait(pause(look.lease).min(needed - silent))
    }
}

/// Between two looks.
fn pause(lease: Duration) -> Duration {
    lease / 8
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LEASE: Duration = Duration::from_secs(30);

    fn look(epoch: u64, mark: u8, at: u64) -> Look {
        let at = Duration::from_millis(at);
        let mark = ObjectHash([mark; 32]);
        Look { epoch, mark, free: false, lease: LEASE, asked: at, answered: at }
    }

    #[test]
    fn a_renewal_or_a_new_holder_shows_life() {
        for seen in [look(3, 2, 9), look(4, 1, 9)] {
            let mut watch = Watch::default();
            assert!(matches!(watch.observe(look(3, 1, 0)), Verdict::Wait(_)));
            assert_eq!(watch.observe(seen), Verdict::Alive);
        }
    }

    #[test]
    fn what_is_free_is_free_at_once_even_when_it_was_watched() {
        let free = Look { free: true, ..look(3, 2, 9) };
        assert_eq!(Watch::default().observe(free), Verdict::Free);
        let mut watch = Watch::default();
        watch.observe(look(3, 1, 0));
        assert_eq!(watch.observe(free), Verdict::Free);
    }

    proptest! {
        /// Dead only after a whole silence between the answer to the first look and the question of the last; and then certainly.
        #[test]
        fn the_silent_are_dead_in_time(steps in prop::collection::vec((0u64..20_000, 0u64..20_000), 1..60)) {
            let mut watch = Watch::default();
            let (mut now, mut first) = (0, None);
            for (pause, answer) in steps {
                now += pause;
                let asked = now;
                now += answer;
                let look = Look { answered: Duration::from_millis(now), ..look(7, 1, asked) };
                let verdict = watch.observe(look);
                let first = *first.get_or_insert(now);
                let silent = Duration::from_millis(asked.saturating_sub(first));
                if silent >= silence(LEASE) {
                    prop_assert_eq!(verdict, Verdict::Dead { silent });
                } else {
                    let Verdict::Wait(wait) = verdict else { panic!("{verdict:?}") };
                    prop_assert!(!wait.is_zero() && silent + wait <= silence(LEASE));
                }
            }
        }
    }
}
