//! The queue between kernel and daemon.

use std::collections::VecDeque;

/// Requests of one mount, by any name.
#[derive(Debug)]
pub struct Connection<R> {
    max_background: usize,
    congestion_threshold: usize,
    /// Not the daemon's yet.
    waiting: VecDeque<R>,
    /// The daemon's, and not taken.
    pending: VecDeque<R>,
    /// The daemon's, taken or not.
    active: usize,
}

impl<R> Connection<R> {
    /// A connection of such limits.
    pub fn new(max_background: usize, congestion_threshold: usize) -> Connection<R> {
        let max_background = max_background.max(1);
        Connection {
            max_background,
            congestion_threshold,
            waiting: VecDeque::new(),
            pending: VecDeque::new(),
            active: 0,
        }
    }

    /// Whether readahead that nobody waits for is to be skipped.
    pub fn is_congested(&self) -> bool {
        self.active + self.waiting.len() >= self.congestion_threshold
    }

    /// A request is made.
    pub fn submit(&mut self, request: R) {
        self.waiting.push_back(request);
        self.admit();
    }

    /// Requests that the daemon may take.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// A thread of the daemon takes the next one.
    pub fn take(&mut self) -> Option<R> {
        self.pending.pop_front()
    }

    /// A request that was taken is answered.
    pub fn answered(&mut self) {
        self.active -= 1;
        self.admit();
    }

    fn admit(&mut self) {
        while self.active < self.max_background {
            let Some(request) = self.waiting.pop_front() else { return };
            self.active += 1;
            self.pending.push_back(request);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_so_many_are_the_daemons_and_the_rest_come_in_order() {
        let mut connection = Connection::new(2, 3);
        (0..5).for_each(|request| connection.submit(request));
        assert_eq!((connection.take(), connection.take(), connection.take()), (Some(0), Some(1), None));
        connection.answered();
        assert_eq!((connection.take(), connection.take()), (Some(2), None));
    }

    #[test]
    fn congestion_counts_what_waits_too() {
        let mut connection = Connection::new(2, 3);
        connection.submit(0);
        connection.submit(1);
        assert!(!connection.is_congested());
        connection.submit(2);
        assert!(connection.is_congested());
        connection.take();
        connection.answered();
        assert!(!connection.is_congested());
    }
}
