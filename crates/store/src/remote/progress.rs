//! Whether an attempt is getting anywhere: a connection over which nothing moves is dead, however large its body is.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::health::Tracker;

/// Bytes an attempt has moved, and when it last did.
#[derive(Debug)]
pub(super) struct Progress {
    /// Told of every movement, and of which operation.
    tracker: Option<(Arc<Tracker>, &'static str)>,
    began: Instant,
    /// Microseconds from `began` to the newest movement.
    last: AtomicU64,
    bytes: AtomicU64,
}

impl Default for Progress {
    fn default() -> Progress {
        Progress { tracker: None, began: Instant::now(), last: AtomicU64::new(0), bytes: AtomicU64::new(0) }
    }
}

impl Progress {
    pub(super) fn new(tracker: Arc<Tracker>, operation: &'static str) -> Progress {
        Progress { tracker: Some((tracker, operation)), ..Progress::default() }
    }

    /// So many bytes went out or came in; 0 for a sign of life without any.
    pub(super) fn moved(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Relaxed);
        if let (Some((tracker, operation)), true) = (&self.tracker, bytes > 0) {
            tracker.moved(operation);
        }
        let now = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.last.fetch_max(now, Relaxed);
    }

    /// Bytes moved so far.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Whether anything has moved.
    pub(super) fn any(&self) -> bool {
        self.last.load(Relaxed) > 0
    }

    /// When something moved last, from the beginning of the attempt.
    pub(super) fn last(&self) -> Duration {
        Duration::from_micros(self.last.load(Relaxed))
    }

    /// Resolves when nothing has moved for `quiet` (or for `first`, as long as nothing has moved at all), or when the attempt has taken
    /// `longest`. Gives the time for which nothing moved.
    pub(super) async fn stalled(&self, first: Duration, quiet: Duration, longest: Duration) -> Duration {
        loop {
            let patience = if self.any() { quiet } else { first };
            let due = self.last().saturating_add(patience).min(longest);
            let now = self.began.elapsed();
            if now >= due {
                return now.saturating_sub(self.last());
            }
            tokio::time::sleep(due - now).await;
        }
    }
}
