//! How a store has been doing, for `status` and for those who must say why they wait.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use serde::Serialize;

use crate::error::{ErrorKind, one_line};

/// Longest error kept, in characters.
const MAX_ERROR: usize = 400;

/// How a store has been doing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct StoreHealth {
    /// Reading, listing, deleting.
    pub reading: DirectionHealth,
    /// Writing. A store can be full and still be read.
    pub writing: DirectionHealth,
    /// Milliseconds for which all requests hold off, because the store asked for fewer.
    pub paused_ms: u64,
}

/// One direction of a [`StoreHealth`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct DirectionHealth {
    /// When it last did what it was asked to, in milliseconds since 1970.
    pub last_success_ms: Option<u64>,
    /// Since when every attempt has failed, in milliseconds since 1970; `None` while all is well.
    pub failing_since_ms: Option<u64>,
    /// Attempts that failed since then.
    pub failures: u64,
    /// The newest failure, also of one that passed. Holds no credential.
    pub last_error: Option<String>,
    /// How long ago bytes last moved, in milliseconds. What moves while every attempt fails in the end does not count.
    pub moved_ms_ago: Option<u64>,
}

impl StoreHealth {
    /// The direction that has been failing for longer, if any does.
    pub fn failing(&self) -> Option<&DirectionHealth> {
        [&self.reading, &self.writing]
            .into_iter()
            .filter(|direction| direction.failing_since_ms.is_some())
            .min_by_key(|direction| direction.failing_since_ms)
    }
}

impl DirectionHealth {
    /// For how long it has been failing.
    pub fn failing_for(&self) -> Option<Duration> {
        let since = self.failing_since_ms?;
        Some(Duration::from_millis(now_ms().saturating_sub(since)))
    }
}

/// Takes down what becomes of attempts.
#[derive(Debug, Default)]
pub(crate) struct Tracker {
    reading: Mutex<DirectionHealth>,
    writing: Mutex<DirectionHealth>,
    /// Milliseconds since 1970; 0 before anything moved.
    moved_in: AtomicU64,
    moved_out: AtomicU64,
}

impl Tracker {
    /// An attempt at `operation` was answered: with what was asked for, or with a truth about the object.
    pub(crate) fn succeeded(&self, operation: &str) {
        let mut direction = self.direction(operation).lock();
        direction.last_success_ms = Some(now_ms());
        direction.failing_since_ms = None;
        direction.failures = 0;
    }

    /// An attempt at `operation` failed.
    pub(crate) fn failed(&self, operation: &str, kind: ErrorKind, why: &str) {
        if is_answer(kind) {
            return self.succeeded(operation);
        }
        let mut direction = self.direction(operation).lock();
        direction.failing_since_ms.get_or_insert_with(now_ms);
        direction.failures = direction.failures.saturating_add(1);
        direction.last_error = Some(one_line(&format!("{operation}: {why}"), MAX_ERROR));
    }

    /// Bytes of an attempt at `operation` have moved.
    pub(crate) fn moved(&self, operation: &str) {
        if self.direction(operation).lock().failing_since_ms.is_none() {
            let moved = if operation == "put" { &self.moved_out } else { &self.moved_in };
            moved.store(now_ms(), Relaxed);
        }
    }

    pub(crate) fn snapshot(&self, paused: Duration) -> StoreHealth {
        let of = |direction: &Mutex<DirectionHealth>, moved: &AtomicU64| {
            let moved = Some(moved.load(Relaxed)).filter(|ms| *ms > 0);
            let moved_ms_ago = moved.map(|ms| now_ms().saturating_sub(ms));
            DirectionHealth { moved_ms_ago, ..direction.lock().clone() }
        };
        StoreHealth {
            reading: of(&self.reading, &self.moved_in),
            writing: of(&self.writing, &self.moved_out),
            paused_ms: u64::try_from(paused.as_millis()).unwrap_or(u64::MAX),
        }
    }

    fn direction(&self, operation: &str) -> &Mutex<DirectionHealth> {
        if operation == "put" { &self.writing } else { &self.reading }
    }
}

/// Whether a failure of this kind says something of an object, not of the store.
fn is_answer(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::NotFound | ErrorKind::AlreadyExists | ErrorKind::Corrupt | ErrorKind::Unsupported
    )
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// A clock that only goes forward, for state machines that count from an origin.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn new() -> Clock {
        Clock(Instant::now())
    }

    pub(crate) fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_store_is_failing_in_one_direction_until_it_takes_something() {
        let tracker = Tracker::default();
        tracker.succeeded("get");
        tracker.failed("put", ErrorKind::Full, "no room\nat all");
        tracker.failed("put", ErrorKind::Full, "no room");
        tracker.failed("get", ErrorKind::NotFound, "no such object");
        let health = tracker.snapshot(Duration::ZERO);
        assert_eq!(health.reading.failing_since_ms, None);
        assert_eq!(
            (health.writing.failures, health.writing.last_error.as_deref()),
            (2, Some("put: no room"))
        );
        assert_eq!(health.failing(), Some(&health.writing));
        tracker.succeeded("put");
        let health = tracker.snapshot(Duration::from_millis(7));
        assert_eq!((health.failing(), health.paused_ms), (None, 7));
        assert!(health.writing.last_error.is_some(), "what was wrong stays to be seen");
        assert!(health.writing.failing_for().is_none());
    }
}
