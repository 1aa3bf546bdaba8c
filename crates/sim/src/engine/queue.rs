//! Things that happen at a known time, earliest first.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::time::Duration;

/// An event queue over virtual time. Events of the same time come out in the order they went in.
#[derive(Debug)]
pub struct Queue<E> {
    heap: BinaryHeap<Entry<E>>,
    sequence: u64,
}

#[derive(Debug)]
struct Entry<E> {
    at: Duration,
    sequence: u64,
    event: E,
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Entry<E>) -> bool {
        (self.at, self.sequence) == (other.at, other.sequence)
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Entry<E>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    /// The heap gives its greatest entry first, so the earliest is the greatest.
    fn cmp(&self, other: &Entry<E>) -> Ordering {
        (other.at, other.sequence).cmp(&(self.at, self.sequence))
    }
}

impl<E> Default for Queue<E> {
    fn default() -> Queue<E> {
        Queue { heap: BinaryHeap::new(), sequence: 0 }
    }
}

impl<E> Queue<E> {
    /// An empty queue.
    pub fn new() -> Queue<E> {
        Queue::default()
    }

    /// `event` happens at `at`.
    pub fn schedule(&mut self, at: Duration, event: E) {
        self.heap.push(Entry { at, sequence: self.sequence, event });
        self.sequence += 1;
    }

    /// When the next event happens.
    pub fn next_at(&self) -> Option<Duration> {
        self.heap.peek().map(|entry| entry.at)
    }

    /// The next event, if it happens at `now` or before.
    pub fn pop_due(&mut self, now: Duration) -> Option<E> {
        if self.next_at()? > now {
            return None;
        }
        self.heap.pop().map(|entry| entry.event)
    }

    /// How many events wait.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_then_in_the_order_they_went_in() {
        let mut queue = Queue::new();
        let at = Duration::from_millis;
        for (time, name) in [(5, "c"), (1, "a"), (5, "d"), (3, "b"), (5, "e")] {
            queue.schedule(at(time), name);
        }
        assert_eq!(queue.next_at(), Some(at(1)));
        assert_eq!(queue.pop_due(at(0)), None);
        let mut order = Vec::new();
        while let Some(event) = queue.pop_due(at(5)) {
            order.push(event);
        }
        assert_eq!(order, ["a", "b", "c", "d", "e"]);
        assert!(queue.is_empty());
    }
}
