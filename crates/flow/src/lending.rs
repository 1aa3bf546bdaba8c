//! Memory that one pool does not need and others can use until it does.
//!
//! Who writes rarely reads much at the same time: the budget of writes is lent to reads, and to what they fetched on its way to local
//! disks, while nobody writes, and called back with the first write. Borrowers give up what they can at once; what is in use comes back as
//! it is let go, and only then counts for the lender again: the sum never passes the ceiling.

use std::time::Duration;

/// The lender must have been idle for so long before it lends: between the writes of one program nothing is gained.
const QUIET: Duration = Duration::from_millis(500);

/// A pool that can be lent more than it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Borrower {
    /// What it has, bytes.
    pub own: u64,
    /// What it can be lent more, bytes.
    pub most: u64,
}

/// Who may hold how much now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms<const N: usize> {
    /// The borrowers' limits, bytes.
    pub limits: [u64; N],
    /// What the lender does without for each, bytes.
    pub lent: [u64; N],
}

impl<const N: usize> Terms<N> {
    /// What the lender does without, bytes.
    pub fn all_lent(&self) -> u64 {
        self.lent.iter().sum()
    }
}

/// Decides what is lent. The caller applies what is lent more before the limits, and the limits before what is lent less.
#[derive(Debug, Clone)]
pub struct Lending<const N: usize> {
    borrowers: [Borrower; N],
    terms: Terms<N>,
    /// When the lender will have been idle for long enough, if it is; at once as long as it has never been anything else.
    lends_from: Option<Duration>,
}

impl<const N: usize> Lending<N> {
    /// Lends nothing yet.
    pub fn new(borrowers: [Borrower; N]) -> Lending<N> {
        let terms = Terms { limits: borrowers.map(|borrower| borrower.own), lent: [0; N] };
        Lending { borrowers, terms, lends_from: Some(Duration::ZERO) }
    }

    /// What holds from now on. `idle`: the lender uses nothing and nobody waits for it; `wanted`: there is a use for more; `held`: what
    /// each borrower holds, bytes.
    pub fn settle(&mut self, now: Duration, idle: bool, wanted: bool, held: [u64; N]) -> Terms<N> {
        let lends = if idle {
            now >= *self.lends_from.get_or_insert(now.saturating_add(QUIET)) && wanted
        } else {
            self.lends_from = None;
            false
        };
        for (at, Borrower { own, most }) in self.borrowers.into_iter().enumerate() {
            let kept = self.terms.lent[at].min(held[at].saturating_sub(own));
            self.terms.lent[at] = if lends { most } else { kept };
            self.terms.limits[at] = if lends { own + most } else { own };
        }
        self.terms
    }

    /// What was decided last.
    pub fn terms(&self) -> Terms<N> {
        self.terms
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn one() -> Lending<1> {
        Lending::new([Borrower { own: 30, most: 60 }])
    }

    fn terms(limit: u64, lent: u64) -> Terms<1> {
        Terms { limits: [limit], lent: [lent] }
    }

    #[test]
    fn it_lends_what_lies_idle_and_calls_it_back() {
        let mut lending = one();
        assert_eq!(lending.settle(600 * MS, true, false, [0]), terms(30, 0), "nobody wants it");
        assert_eq!(lending.settle(600 * MS, true, true, [20]), terms(90, 60));
        let at_first = one().settle(Duration::ZERO, true, true, [0]);
        assert_eq!(at_first, terms(90, 60), "before anybody has written nobody is waited for");
        // The borrower gives back what it can, and the rest when it can.
        assert_eq!(lending.settle(601 * MS, false, true, [70]), terms(30, 40));
        assert_eq!(lending.settle(602 * MS, false, true, [31]), terms(30, 1));
        assert_eq!(lending.settle(603 * MS, false, true, [12]), terms(30, 0));
        assert_eq!(lending.settle(700 * MS, true, true, [12]).lent, [0], "the next write may come soon");
        assert_eq!(lending.settle(1300 * MS, true, true, [12]).lent, [60]);
    }

    #[test]
    fn a_lender_has_to_be_idle_for_some_time_without_a_break() {
        let mut lending = one();
        lending.settle(1_000 * MS, false, true, [0]);
        lending.settle(1_001 * MS, true, true, [0]);
        lending.settle(1_400 * MS, false, true, [0]);
        lending.settle(1_500 * MS, true, false, [0]);
        assert_eq!(lending.settle(1_500 * MS + QUIET - MS / 1_000, true, true, [0]).lent, [0]);
        assert_eq!(lending.settle(1_500 * MS + QUIET, true, true, [0]), terms(90, 60));
        assert_eq!(lending.terms(), terms(90, 60));
        assert_eq!(lending.settle(9_000 * MS, true, false, [50]), terms(30, 20), "nobody wants it any more");
        assert_eq!(lending.terms().all_lent(), 20);
    }

    #[test]
    fn each_borrower_gives_back_what_it_was_lent_itself() {
        let mut lending = Lending::new([Borrower { own: 30, most: 60 }, Borrower { own: 8, most: 16 }]);
        let lent = lending.settle(Duration::ZERO, true, true, [0, 0]);
        assert_eq!((lent, lent.all_lent()), (Terms { limits: [90, 24], lent: [60, 16] }, 76));
        assert_eq!(lending.settle(MS, false, true, [20, 20]), Terms { limits: [30, 8], lent: [0, 12] });
        assert_eq!(lending.settle(2 * MS, false, true, [50, 9]), Terms { limits: [30, 8], lent: [0, 1] });
    }

    proptest! {
        /// All keep to what they are told: together they never hold more than there is.
        #[test]
        fn the_sum_never_passes_the_ceiling(events in proptest::collection::vec((0u64..400, 0u64..120, any::<[u64; 2]>(), any::<bool>()), 1..200)) {
            let (borrowers, lender) = ([Borrower { own: 30, most: 45 }, Borrower { own: 10, most: 15 }], 80);
            let mut lending = Lending::new(borrowers);
            let (mut now, mut held, mut used, mut terms) = (Duration::ZERO, [0u64; 2], 0u64, lending.terms());
            for (wait, writes, wishes, wanted) in events {
                now += MS * wait as u32;
                used = writes.min(lender - terms.all_lent());
                // A borrower grows to its limit, and shrinks when it can.
                for at in 0..2 {
                    held[at] = (wishes[at] % 120).min(terms.limits[at].max(held[at].saturating_sub(10)));
                }
                let next = lending.settle(now, used == 0, wanted, held);
                // More is lent only of what nobody uses.
                prop_assert!(next.all_lent() <= terms.all_lent() || used == 0);
                terms = next;
                for at in 0..2 {
                    prop_assert!(held[at] <= borrowers[at].own + terms.lent[at]);
                }
                prop_assert!(held.iter().sum::<u64>() + used <= 30 + 10 + lender);
                prop_assert!(used + terms.all_lent() <= lender);
            }
            prop_assert!(held.iter().sum::<u64>() + used <= 30 + 10 + lender);
        }
    }
}
