//! Memory that one pool does not need and another can use until it does.
//!
//! Who writes rarely reads much at the same time: the budget of writes is lent to reads while nobody writes, and called back with the first
//! write. The borrower gives up what it can at once; what is in use comes back as it is let go, and only then counts for the lender again:
//! the sum never passes the ceiling.

use std::time::Duration;

/// The lender must have been idle for so long before it lends: between the writes of one program nothing is gained.
const QUIET: Duration = Duration::from_millis(500);

/// Who may hold how much now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// The borrower's limit, bytes.
    pub limit: u64,
    /// What the lender does without, bytes.
    pub lent: u64,
}

/// Decides what is lent. The caller applies what is lent more before the limit, and the limit before what is lent less.
#[derive(Debug, Clone)]
pub struct Lending {
    own: u64,
    most: u64,
    lent: u64,
    /// When the lender will have been idle for long enough, if it is; at once as long as it has never been anything else.
    lends_from: Option<Duration>,
}

impl Lending {
    /// A borrower that has `own` bytes and can be lent `most` more.
    pub fn new(own: u64, most: u64) -> Lending {
        Lending { own, most, lent: 0, lends_from: Some(Duration::ZERO) }
    }

    /// What holds from now on. `idle`: the lender uses nothing and nobody waits for it; `wanted`: the borrower has a use for more;
    /// `held`: what the borrower holds, bytes.
    pub fn settle(&mut self, now: Duration, idle: bool, wanted: bool, held: u64) -> Terms {
        if !idle {
            self.lends_from = None;
        } else if now >= *self.lends_from.get_or_insert(now.saturating_add(QUIET)) && wanted {
            self.lent = self.most;
            return Terms { limit: self.own + self.most, lent: self.lent };
        }
        self.lent = self.lent.min(held.saturating_sub(self.own));
        Terms { limit: self.own, lent: self.lent }
    }

    /// Bytes lent.
    pub fn lent(&self) -> u64 {
        self.lent
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn it_lends_what_lies_idle_and_calls_it_back() {
        let mut lending = Lending::new(30, 60);
        assert_eq!(lending.settle(600 * MS, true, false, 0), Terms { limit: 30, lent: 0 }, "nobody wants it");
        assert_eq!(lending.settle(600 * MS, true, true, 20), Terms { limit: 90, lent: 60 });
        let at_first = Lending::new(30, 60).settle(Duration::ZERO, true, true, 0);
        assert_eq!(
            at_first,
            Terms { limit: 90, lent: 60 },
            "before anybody has written nobody is waited for"
        );
        // The borrower gives back what it can, and the rest when it can.
        assert_eq!(lending.settle(601 * MS, false, true, 70), Terms { limit: 30, lent: 40 });
        assert_eq!(lending.settle(602 * MS, false, true, 31), Terms { limit: 30, lent: 1 });
        assert_eq!(lending.settle(603 * MS, false, true, 12), Terms { limit: 30, lent: 0 });
        assert_eq!(lending.settle(700 * MS, true, true, 12).lent, 0, "the next write may come soon");
        assert_eq!(lending.settle(1300 * MS, true, true, 12).lent, 60);
    }

    #[test]
    fn a_lender_has_to_be_idle_for_some_time_without_a_break() {
        let mut lending = Lending::new(30, 60);
        lending.settle(1_000 * MS, false, true, 0);
        lending.settle(1_001 * MS, true, true, 0);
        lending.settle(1_400 * MS, false, true, 0);
        lending.settle(1_500 * MS, true, false, 0);
        assert_eq!(lending.settle(1_500 * MS + QUIET - MS / 1_000, true, true, 0).lent, 0);
        assert_eq!(lending.settle(1_500 * MS + QUIET, true, true, 0), Terms { limit: 90, lent: 60 });
        assert_eq!(lending.lent(), 60);
        assert_eq!(
            lending.settle(9_000 * MS, true, false, 50),
            Terms { limit: 30, lent: 20 },
            "nobody wants it any more"
        );
        assert_eq!(lending.lent(), 20);
    }

    proptest! {
        /// Both keep to what they are told: together they never hold more than there is.
        #[test]
        fn the_sum_never_passes_the_ceiling(events in proptest::collection::vec((0u64..400, 0u64..120, 0u64..120, any::<bool>()), 1..200)) {
            let (own, lender, most) = (30u64, 80, 60);
            let mut lending = Lending::new(own, most);
            let (mut now, mut held, mut used, mut terms) = (Duration::ZERO, 0u64, 0u64, Terms { limit: own, lent: 0 });
            for (wait, writes, reads, wanted) in events {
                now += MS * wait as u32;
                used = writes.min(lender - terms.lent);
                // The borrower grows to its limit, and shrinks when it can.
                held = reads.min(terms.limit.max(held.saturating_sub(10)));
                let next = lending.settle(now, used == 0, wanted, held);
                // More is lent only of what nobody uses.
                prop_assert!(next.lent <= terms.lent || used == 0);
                terms = next;
                prop_assert!(held <= own + terms.lent && held + used <= own + lender);
                prop_assert!(used + terms.lent <= lender);
            }
            prop_assert!(held + used <= own + lender);
        }
    }
}
