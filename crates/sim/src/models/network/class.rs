//! Transfers of one interface that have the same limit, and so always the same rate.

use super::TransferId;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// Parts of a byte that are counted: rounding loses less than one of them per event.
const PARTS: u64 = 1 << 10;
const NANOS: u128 = 1_000_000_000;

#[derive(Debug)]
pub(super) struct Class {
    /// Bytes per second that a member may get at most.
    pub limit: u64,
    /// Bytes per second that each gets now.
    pub rate: u64,
    members: u64,
    /// What each member would have got since the beginning, in [`PARTS`] of a byte.
    served: u64,
    /// Who waits for which value of `served`. Entries of transfers that left or wait for something else are dropped when met.
    waiting: BinaryHeap<Reverse<(u64, TransferId)>>,
}

impl Class {
    pub fn new(limit: u64) -> Class {
        Class { limit, rate: 0, members: 0, served: 0, waiting: BinaryHeap::new() }
    }

    pub fn members(&self) -> u64 {
        self.members
    }

    pub fn join(&mut self) {
        self.members += 1;
    }

    /// One leaves; whether it was the last.
    pub fn leave(&mut self) -> bool {
        self.members -= 1;
        self.members == 0
    }

    /// The transfer waits for so many bytes from now on; the value it waits for.
    pub fn wait(&mut self, id: TransferId, bytes: u64) -> u64 {
        self.wait_from(id, self.served, bytes)
    }

    /// The same, counted from an earlier value.
    pub fn wait_from(&mut self, id: TransferId, from: u64, bytes: u64) -> u64 {
        let target = from.saturating_add(bytes.saturating_mul(PARTS));
        self.waiting.push(Reverse((target, id)));
        target
    }

    /// Bytes missing to that value, rounded up.
    pub fn missing(&self, target: u64) -> u64 {
        target.saturating_sub(self.served).div_ceil(PARTS)
    }

    pub fn advance(&mut self, elapsed: Duration) {
        let served = u128::from(self.rate) * u128::from(PARTS) * elapsed.as_nanos() / NANOS;
        self.served = self.served.saturating_add(u64::try_from(served).unwrap_or(u64::MAX));
    }

    /// One entry whose value is reached.
    pub fn reached(&mut self) -> Option<(u64, TransferId)> {
        let &Reverse(first) = self.waiting.peek()?;
        if first.0 > self.served {
            return None;
        }
        self.waiting.pop();
        Some(first)
    }

    /// Time until the first value that a transfer still waits for is reached; none if nothing moves.
    pub fn until_next(&mut self, live: impl Fn(TransferId, u64) -> bool) -> Option<Duration> {
        loop {
            let &Reverse((target, id)) = self.waiting.peek()?;
            if !live(id, target) {
                self.waiting.pop();
                continue;
            }
            let rate = u128::from(self.rate) * u128::from(PARTS);
            if rate == 0 {
                return None;
            }
            // Rounded up: at that time the value is surely reached.
            let nanos = (u128::from(target.saturating_sub(self.served)) * NANOS).div_ceil(rate);
            return Some(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)));
        }
    }
}
