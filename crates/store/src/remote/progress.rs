//! Whether an attempt is getting anywhere: a connection over which nothing moves is dead, however large its body is.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::attempts::Attempts;
use crate::health::Tracker;

/// Bytes an attempt has moved, and when it last did.
#[derive(Debug)]
pub(super) struct Progress {
    audience: Option<Audience>,
    began: Instant,
    /// Microseconds from `began` to the newest movement.
    last: AtomicU64,
    /// Microseconds from `began` to when the request was sent whose answer is awaited.
    asked: AtomicU64,
    bytes: AtomicU64,
}

/// Who is told of every movement, and of which operation.
#[derive(Debug)]
struct Audience {
    tracker: Arc<Tracker>,
    attempts: Arc<Attempts>,
    operation: &'static str,
}

impl Default for Progress {
    fn default() -> Progress {
        Progress {
            audience: None,
            began: Instant::now(),
            last: AtomicU64::new(0),
            asked: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }
}

impl Progress {
    pub(super) fn new(tracker: Arc<Tracker>, attempts: Arc<Attempts>, operation: &'static str) -> Progress {
        Progress { audience: Some(Audience { tracker, attempts, operation }), ..Progress::default() }
    }

    /// A request is about to be sent.
    pub(super) fn ask(&self) {
        self.asked.store(self.now(), Relaxed);
        if let Some(audience) = &self.audience {
            audience.attempts.begin(audience.operation);
        }
    }

    /// The head of its answer has come.
    pub(super) fn answer(&self) {
        self.moved(0);
        if let Some(audience) = &self.audience {
            let after = self.now().saturating_sub(self.asked.load(Relaxed));
            audience.attempts.answered(audience.operation, Duration::from_micros(after));
        }
    }

    /// So many bytes went out or came in; 0 for a sign of life without any.
    pub(super) fn moved(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Relaxed);
        if let (Some(audience), true) = (&self.audience, bytes > 0) {
            audience.tracker.moved(audience.operation);
        }
        self.last.fetch_max(self.now(), Relaxed);
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX)
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
