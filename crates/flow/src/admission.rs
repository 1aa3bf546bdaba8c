//! Admission: a budget of bytes that counts what is in memory until it is let go: written data until the backend has
//! acknowledged it, read data until the reader has it.
//!
//! A request is granted at once while it fits and nobody waits before it; otherwise it queues, first come first served, so
//! that a large write is never starved by small ones. Nothing here sleeps or looks at a clock: the length of the queue is
//! limited by what is released, and by nothing else (the lesson of Crucible: count what is in flight, never what is stored).

use std::collections::VecDeque;

/// Identifies a waiting request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Ticket(u64);

/// What became of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admit {
    /// It may go ahead; give the bytes back with [`Budget::release`].
    Granted,
    /// It waits; a later [`Budget::release`] or [`Budget::cancel`] names its ticket when it is granted.
    Queued(Ticket),
}

/// A budget of bytes, shared by everyone who wants memory from one pool.
#[derive(Debug)]
pub struct Budget {
    limit: u64,
    used: u64,
    /// What of the limit another pool uses.
    lent: u64,
    queue: VecDeque<(Ticket, u64)>,
    queued: u64,
    next: u64,
}

impl Budget {
    /// A budget of `limit` bytes (at least 1).
    pub fn new(limit: u64) -> Self {
        Budget { limit: limit.max(1), used: 0, lent: 0, queue: VecDeque::new(), queued: 0, next: 0 }
    }

    /// Bytes granted and not yet given back.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// The limit, bytes.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Requests waiting.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// What those ask for together, bytes.
    pub fn waiting_bytes(&self) -> u64 {
        self.queued
    }

    /// What nobody uses and no other pool was lent, bytes.
    pub fn free(&self) -> u64 {
        self.limit.saturating_sub(self.used.saturating_add(self.lent))
    }

    /// Asks for `bytes`. A request larger than the whole budget is granted once nothing else is in use, so that it cannot
    /// wait for ever.
    pub fn request(&mut self, bytes: u64) -> Admit {
        if self.queue.is_empty() && self.fits(bytes) {
            self.used += bytes;
            return Admit::Granted;
        }
        let ticket = Ticket(self.next);
        self.next += 1;
        self.queue.push_back((ticket, bytes));
        self.queued = self.queued.saturating_add(bytes);
        Admit::Queued(ticket)
    }

    /// Gives `bytes` back; returns the requests that are granted by it, in the order they came.
    pub fn release(&mut self, bytes: u64) -> Vec<Ticket> {
        debug_assert!(bytes <= self.used, "released {bytes} of {} bytes", self.used);
        self.used = self.used.saturating_sub(bytes);
        self.grant()
    }

    /// Takes a waiting request back. `None` if it is not waiting (it was granted already, or never asked): then its bytes
    /// must be released. Otherwise the requests that are granted because it no longer stands before them.
    pub fn cancel(&mut self, ticket: Ticket) -> Option<Vec<Ticket>> {
        let at = self.queue.iter().position(|(t, _)| *t == ticket)?;
        if let Some((_, bytes)) = self.queue.remove(at) {
            self.queued = self.queued.saturating_sub(bytes);
        }
        Some(self.grant())
    }

    /// Bytes of the limit that another pool uses.
    pub fn lent(&self) -> u64 {
        self.lent
    }

    /// Does without `bytes` from now on; returns the requests that are granted because it is less than before. More than before is lent only
    /// if it is neither used nor waited for.
    pub fn lend(&mut self, bytes: u64) -> Vec<Ticket> {
        let free = self.queue.is_empty() && self.used.saturating_add(bytes) <= self.limit;
        if bytes <= self.lent || free {
            self.lent = bytes;
        }
        self.grant()
    }

    /// Counts `bytes` that can no longer be refused, beyond the limit if need be.
    pub fn force(&mut self, bytes: u64) {
        self.used = self.used.saturating_add(bytes);
    }

    fn fits(&self, bytes: u64) -> bool {
        (self.used == 0 && self.lent == 0)
            || self.used.saturating_add(self.lent).saturating_add(bytes) <= self.limit
    }

    fn grant(&mut self) -> Vec<Ticket> {
        let mut granted = Vec::new();
        while let Some(&(ticket, bytes)) = self.queue.front() {
            if !self.fits(bytes) {
                break;
            }
            self.queue.pop_front();
            self.queued = self.queued.saturating_sub(bytes);
            self.used += bytes;
            granted.push(ticket);
        }
        granted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_request_larger_than_the_budget_goes_ahead_alone() {
        let mut budget = Budget::new(10);
        assert_eq!(budget.request(4), Admit::Granted);
        let Admit::Queued(big) = budget.request(50) else { panic!("must wait for the first") };
        assert_eq!(budget.release(4), vec![big]);
        assert!(matches!(budget.request(1), Admit::Queued(_)));
    }

    #[test]
    fn a_small_request_does_not_overtake_a_large_one() {
        let mut budget = Budget::new(10);
        assert_eq!(budget.request(8), Admit::Granted);
        let Admit::Queued(large) = budget.request(6) else { panic!("no room") };
        let Admit::Queued(small) = budget.request(1) else { panic!("must stand in line") };
        assert_eq!(budget.cancel(large), Some(vec![small]));
    }

    #[test]
    fn a_request_that_fits_exactly_is_granted_and_a_byte_more_is_not() {
        let mut budget = Budget::new(10);
        assert_eq!((budget.request(4), budget.request(6)), (Admit::Granted, Admit::Granted));
        assert_eq!((budget.used(), budget.limit(), budget.waiting()), (10, 10, 0));
        assert_eq!(budget.release(4), []);
        let Admit::Queued(ticket) = budget.request(5) else { panic!("one byte too many") };
        assert_eq!((budget.used(), budget.waiting(), budget.waiting_bytes()), (6, 1, 5));
        assert_eq!(budget.cancel(ticket), Some(vec![]));
        assert_eq!((budget.waiting(), budget.waiting_bytes()), (0, 0));
        assert_eq!(budget.cancel(ticket), None, "it does not wait any more");
        assert_eq!(Budget::new(0).limit(), 1);
    }

    #[test]
    fn tickets_are_never_the_same() {
        let mut budget = Budget::new(1);
        budget.request(1);
        let (first, second) = (budget.request(1), budget.request(1));
        assert_ne!(first, second);
        assert_eq!(budget.release(1).len(), 1);
        assert!(![first, second].contains(&budget.request(1)));
    }

    #[test]
    fn only_what_nobody_uses_or_waits_for_is_lent() {
        let mut budget = Budget::new(10);
        budget.request(4);
        budget.lend(7);
        assert_eq!(budget.lent(), 0, "four of ten are in use");
        budget.lend(6);
        assert_eq!(budget.lent(), 6);
        let Admit::Queued(ticket) = budget.request(1) else { panic!("all is used or lent") };
        budget.lend(7);
        assert_eq!(budget.lent(), 6, "somebody waits");
        assert_eq!(budget.lend(5), [ticket], "what comes back is for those who wait");
        assert_eq!((budget.lent(), budget.used()), (5, 5));
    }

    #[test]
    fn while_something_is_lent_a_request_larger_than_all_waits() {
        let mut budget = Budget::new(10);
        budget.lend(1);
        let Admit::Queued(large) = budget.request(11) else { panic!("it would not be alone") };
        budget.lend(2);
        assert_eq!(budget.lent(), 1, "nothing is in use, but somebody waits");
        assert_eq!(budget.lend(0), [large]);
        let mut budget = Budget::new(10);
        budget.lend(10);
        assert!(matches!(budget.request(1), Admit::Queued(_)));
    }

    #[test]
    fn what_cannot_be_refused_is_counted_beyond_the_limit() {
        let mut budget = Budget::new(10);
        budget.request(6);
        budget.force(7);
        assert_eq!(budget.used(), 13);
        assert!(matches!(budget.request(1), Admit::Queued(_)));
        assert_eq!((budget.release(3).len(), budget.release(1).len()), (0, 1));
    }

    proptest! {
        /// Whatever comes: the limit holds (but for one oversized request alone), order is kept, nobody is forgotten.
        #[test]
        fn limit_order_and_liveness(limit in 1u64..100, requests in prop::collection::vec((1u64..150, any::<bool>()), 1..100)) {
            let mut budget = Budget::new(limit);
            let mut held: VecDeque<u64> = VecDeque::new();
            let mut waiting: VecDeque<(Ticket, u64)> = VecDeque::new();
            let settle = |granted: Vec<Ticket>, held: &mut VecDeque<u64>, waiting: &mut VecDeque<(Ticket, u64)>| {
                for ticket in granted {
                    let (expected, bytes) = waiting.pop_front().expect("granted one that did not wait");
                    assert_eq!(ticket, expected, "out of order");
                    held.push_back(bytes);
                }
            };
            for (bytes, release) in requests {
                match budget.request(bytes) {
                    Admit::Granted => held.push_back(bytes),
                    Admit::Queued(ticket) => waiting.push_back((ticket, bytes)),
                }
                prop_assert!(budget.used() <= limit || held.len() == 1);
                prop_assert_eq!(budget.waiting_bytes(), waiting.iter().map(|(_, bytes)| bytes).sum::<u64>());
                if release && let Some(bytes) = held.pop_front() {
                    settle(budget.release(bytes), &mut held, &mut waiting);
                }
                prop_assert_eq!(budget.used(), held.iter().sum::<u64>());
                prop_assert!(waiting.is_empty() || !held.is_empty(), "everybody waits and nobody holds anything");
            }
            while let Some(bytes) = held.pop_front() {
                settle(budget.release(bytes), &mut held, &mut waiting);
            }
            prop_assert!(waiting.is_empty());
            prop_assert_eq!(budget.used(), 0);
        }
    }
}
