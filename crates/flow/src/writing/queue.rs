//! Requests that wait, in turns by file: deficit round robin (Shreedhar and Varghese, 1995). Those of one file come in their order.
//!
//! A file keeps the credit of rounds in which it did not wait. So one that writes little at a time, and asks again only when it was
//! answered, gets as many bytes as others: with what fits it may pass whoever has the next turn but no room yet, until its credit is used
//! up. There is none for anybody before that one had his turn, so he waits no longer than the others are owed.

use std::collections::{HashMap, VecDeque};

use super::slab::{Key, Slab};
use super::{FileId, Ticket};

#[derive(Debug)]
struct Waiter {
    file: FileId,
    bytes: u64,
    before: Option<Key>,
    behind: Option<Key>,
}

#[derive(Debug, Default)]
struct Line {
    first: Option<Key>,
    last: Option<Key>,
    /// Bytes that it may still have in this round.
    credit: u64,
    /// The round of that credit.
    round: u64,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Queue {
    quantum: u64,
    /// Credit that is kept for a file that does not wait, at most.
    keep: u64,
    waiters: Slab<Waiter>,
    bytes: u64,
    lines: HashMap<FileId, Line>,
    ring: VecDeque<FileId>,
    round: u64,
}

/// So many are looked at behind the one who has the turn and no room.
const LOOK: usize = 32;

/// What a request costs of its file's credit: an empty one is not for nothing, and rounds are not to run out.
fn cost(bytes: u64) -> u64 {
    bytes.clamp(1, u64::from(u32::MAX))
}

impl Queue {
    /// Nobody waits. `quantum`: bytes of a turn. `keep`: bytes of credit that a file keeps for when it waits again.
    pub fn new(quantum: u64, keep: u64) -> Queue {
        Queue {
            quantum: quantum.max(1),
            keep,
            waiters: Slab::new(),
            bytes: 0,
            lines: HashMap::new(),
            ring: VecDeque::new(),
            round: 0,
        }
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiters.len()
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What they ask for together.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether a request of this file waits.
    pub fn waits(&self, file: FileId) -> bool {
        self.lines.get(&file).is_some_and(|line| line.first.is_some())
    }

    /// One more waits, behind those of its file.
    pub fn push(&mut self, file: FileId, bytes: u64) -> Ticket {
        let round = self.round;
        self.keep = self.keep.max(cost(bytes));
        // A new one has its first credit with the next round: files that come and go must not pass those who stay.
        let line = self.lines.entry(file).or_insert_with(|| Line { round, ..Line::default() });
        let key = self.waiters.insert(Waiter { file, bytes, before: line.last, behind: None });
        if let Some(last) = line.last.and_then(|last| self.waiters.get_mut(last)) {
            last.behind = Some(key);
        }
        line.last = Some(key);
        if line.first.is_none() {
            line.first = Some(key);
            self.ring.push_back(file);
        }
        self.bytes = self.bytes.saturating_add(bytes);
        Ticket(key)
    }

    /// This one does not wait any more: its file, and what it asked for. `None` if it did not anyhow.
    pub fn cancel(&mut self, ticket: Ticket) -> Option<(FileId, u64)> {
        let waiter = self.waiters.remove(ticket.0)?;
        if let Some(before) = waiter.before.and_then(|key| self.waiters.get_mut(key)) {
            before.behind = waiter.behind;
        }
        if let Some(behind) = waiter.behind.and_then(|key| self.waiters.get_mut(key)) {
            behind.before = waiter.before;
        }
        if let Some(line) = self.lines.get_mut(&waiter.file) {
            if waiter.before.is_none() {
                line.first = waiter.behind;
            }
            if waiter.behind.is_none() {
                line.last = waiter.before;
            }
            // The first of all, unless somebody gave up.
            if line.first.is_none()
                && let Some(at) = self.ring.iter().position(|file| *file == waiter.file)
            {
                self.ring.remove(at);
            }
        }
        self.bytes = self.bytes.saturating_sub(waiter.bytes);
        Some((waiter.file, waiter.bytes))
    }

    /// Whose turn it is, and what he asks for. It stays his until he is taken or gives up.
    pub fn front(&mut self) -> Option<(Ticket, FileId, u64)> {
        loop {
            let mut rounds = u64::MAX;
            for _ in 0..self.ring.len() {
                let file = *self.ring.front()?;
                let first = self.lines.get(&file).and_then(|line| line.first);
                let (key, waiter) = first.and_then(|key| Some((key, self.waiters.get(key)?)))?;
                let bytes = waiter.bytes;
                let credit = self.credit(file, bytes);
                if credit >= cost(bytes) {
                    return Some((Ticket(key), file, bytes));
                }
                rounds = rounds.min((cost(bytes) - credit).div_ceil(self.quantum));
                self.ring.rotate_left(1);
            }
            if self.ring.is_empty() {
                return None;
            }
            // All have used up theirs: as many rounds as the first to have enough again needs.
            self.round = self.round.saturating_add(rounds);
        }
    }

    /// Takes the one of [`front`](Queue::front).
    pub fn pop(&mut self) -> Option<(Ticket, FileId, u64)> {
        let (ticket, file, bytes) = self.front()?;
        self.cancel(ticket);
        let line = self.lines.get_mut(&file)?;
        line.credit = line.credit.saturating_sub(cost(bytes));
        Some((ticket, file, bytes))
    }

    /// Whether a request of a file of which none waits may pass those who wait; its credit is less then.
    pub fn pass(&mut self, file: FileId, bytes: u64) -> bool {
        if self.waits(file) || !self.lines.contains_key(&file) || self.credit(file, 0) < cost(bytes) {
            return false;
        }
        if let Some(line) = self.lines.get_mut(&file) {
            line.credit -= cost(bytes);
        }
        true
    }

    /// Takes one behind [`front`](Queue::front) that asks for no more than `room`, and has credit for it.
    pub fn pop_behind(&mut self, room: u64) -> Option<(Ticket, FileId, u64)> {
        for index in 1..self.ring.len().min(LOOK) {
            let file = *self.ring.get(index)?;
            let key = self.lines.get(&file)?.first?;
            let bytes = self.waiters.get(key)?.bytes;
            if bytes <= room && self.credit(file, bytes) >= cost(bytes) {
                self.cancel(Ticket(key));
                let line = self.lines.get_mut(&file)?;
                line.credit = line.credit.saturating_sub(cost(bytes));
                return Some((Ticket(key), file, bytes));
            }
        }
        None
    }

    /// Nothing of this file is left anywhere: whether it comes back nobody knows.
    pub fn forget(&mut self, file: FileId) {
        if !self.waits(file) {
            self.lines.remove(&file);
        }
    }

    /// The credit of a file now; at most what is kept, or what `bytes` cost.
    fn credit(&mut self, file: FileId, bytes: u64) -> u64 {
        let (round, quantum, keep) = (self.round, self.quantum, self.keep);
        let Some(line) = self.lines.get_mut(&file) else { return 0 };
        let earned = (round - line.round).saturating_mul(quantum);
        let most = keep.max(quantum).max(cost(bytes).saturating_add(quantum));
        (line.credit, line.round) = (line.credit.saturating_add(earned).min(most.max(line.credit)), round);
        line.credit
    }

    #[cfg(test)]
    pub(super) fn lines(&self) -> usize {
        self.lines.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;

    /// Takes from a queue that these files fill again at once, each with requests of its size; bytes of each.
    fn served(sizes: &[u64], takes: usize) -> Vec<u64> {
        let mut queue = Queue::new(64 * KIB, 1 << 20);
        let mut bytes = vec![0; sizes.len()];
        for (file, size) in sizes.iter().enumerate() {
            queue.push(FileId(file as u64), *size);
        }
        for _ in 0..takes {
            let (_, file, size) = queue.pop().expect("all wait");
            bytes[file.0 as usize] += size;
            queue.push(file, size);
        }
        bytes
    }

    #[test]
    fn files_get_the_same_bytes_whatever_they_ask_for_at_once() {
        let bytes = served(&[4 * KIB, 100 * KIB, 1024 * KIB], 100_000);
        let (least, most) = (*bytes.iter().min().expect("three"), *bytes.iter().max().expect("three"));
        assert!(most - least <= 2 * 1024 * KIB, "{bytes:?}");
    }

    #[test]
    fn who_waits_alone_comes_in_his_order_and_a_huge_request_in_no_time() {
        let mut queue = Queue::new(1, 0);
        let file = FileId(7);
        let tickets: Vec<_> = [u64::MAX, 0, 5].map(|bytes| queue.push(file, bytes)).into();
        assert_eq!(queue.cancel(tickets[1]), Some((file, 0)));
        assert_eq!(queue.cancel(tickets[1]), None);
        assert_eq!(queue.pop().map(|taken| taken.0), Some(tickets[0]));
        assert_eq!(queue.pop().map(|taken| taken.0), Some(tickets[2]));
        assert_eq!((queue.pop(), queue.len(), queue.bytes()), (None, 0, 0));
        queue.forget(file);
        assert_eq!(queue.lines(), 0);
    }

    #[test]
    fn the_turn_stays_until_it_is_taken_and_goes_on_when_he_gives_up() {
        let mut queue = Queue::new(64 * KIB, 1 << 20);
        let (large, small) = (queue.push(FileId(1), 1024 * KIB), queue.push(FileId(2), 1024 * KIB));
        for _ in 0..3 {
            assert_eq!(queue.front().map(|front| front.0), Some(large));
        }
        queue.cancel(large);
        queue.forget(FileId(1));
        assert_eq!(queue.front().map(|front| front.0), Some(small));
        assert_eq!((queue.len(), queue.bytes(), queue.lines()), (1, 1024 * KIB, 1));
    }

    #[test]
    fn credit_lets_one_pass_until_it_is_used_up() {
        let mut queue = Queue::new(64 * KIB, 0);
        let (large, small) = (FileId(1), FileId(2));
        assert!(!queue.pass(small, 1), "nothing is known of it");
        queue.push(large, 1024 * KIB);
        queue.push(small, 4 * KIB);
        assert_eq!(queue.pop().map(|taken| taken.1), Some(small));
        assert_eq!(queue.front().map(|front| front.1), Some(large), "fifteen more rounds");
        let passed = (0..).take_while(|_| queue.pass(small, 4 * KIB)).count() as u64;
        assert_eq!(passed, (16 * 64 - 4) / 4, "what it earned in all of them");
        queue.push(small, 4 * KIB);
        assert!(!queue.pass(small, 0), "it waits itself");
        assert_eq!(queue.pop().map(|taken| taken.1), Some(large));
    }

    #[test]
    fn who_waits_passes_with_what_fits_and_a_new_one_does_not() {
        let mut queue = Queue::new(64 * KIB, 0);
        let (large, small, new) = (FileId(1), FileId(2), FileId(3));
        queue.push(large, 1024 * KIB);
        queue.push(small, 4 * KIB);
        queue.pop();
        assert_eq!(queue.front().map(|front| front.1), Some(large));
        let mut passed = 0;
        loop {
            queue.push(small, 40 * KIB);
            queue.push(new, 4 * KIB);
            assert_eq!(queue.pop_behind(39 * KIB), None);
            let Some((_, file, bytes)) = queue.pop_behind(41 * KIB) else { break };
            assert_eq!((file, bytes), (small, 40 * KIB));
            passed += 1;
        }
        assert_eq!(passed, (16 * 64 - 4) / 40);
        assert_eq!(queue.pop().map(|taken| taken.1), Some(large));
        assert_ne!(queue.pop().map(|taken| taken.1), Some(large));
    }
}
