//! Time for decisions, which have no clock of their own.

use std::time::{Duration, Instant};

/// Counts the time since some moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock(Instant);

impl Clock {
    /// From now on.
    pub(crate) fn new() -> Clock {
        Clock(Instant::now())
    }

    /// The time so far.
    pub(crate) fn now(self) -> Duration {
        self.0.elapsed()
    }

    /// The moment that [`Clock::now`] was, or will be, `at`.
    pub(crate) fn instant(self, at: Duration) -> Instant {
        self.0 + at
    }
}

impl Default for Clock {
    fn default() -> Self {
        Clock::new()
    }
}
