//! What is known of a store that does not take data: for those who wait for it, and for the log.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::log_limit::{Burst, Rare};
use crate::clock::Clock;
use crate::error::Error;

/// First and longest wait before stored bytes that failed are tried again. The store itself has tried until its deadline.
const RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(10));

/// The trouble that writing to the store or to metadata is in, if any.
#[derive(Debug, Default)]
pub(crate) struct Outage {
    trouble: Mutex<Trouble>,
    /// Told when something failed.
    pub failed: Notify,
    /// Told when a batch was stored: others may try at once.
    pub recovered: Notify,
    /// Lines in the log about reads that fail.
    pub reads: Mutex<Burst>,
    clock: Clock,
    /// Milliseconds until the newest success.
    progress: AtomicU64,
}

#[derive(Debug, Default)]
struct Trouble {
    /// Batches that failed at least once and are not stored.
    batches: u64,
    /// Failures since all was well.
    failures: u64,
    since: Option<Instant>,
    last: Option<Error>,
    rare: Rare,
}

/// Where an upload is with its attempts.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    failed: bool,
    abandoned: bool,
    wait: Duration,
}

impl Attempts {
    /// Whether one failed.
    pub fn has_failed(&self) -> bool {
        self.failed
    }
}

impl Outage {
    /// Data of an inode could not be stored; gives the time after which to try again.
    pub fn failure(&self, what: &'static str, ino: u64, error: &Error, attempts: &mut Attempts) -> Duration {
        let now = Instant::now();
        let mut trouble = self.trouble.lock();
        trouble.batches += u64::from(!attempts.failed);
        trouble.failures += 1;
        trouble.since.get_or_insert(now);
        trouble.last = Some(error.clone());
        if let Some(left_out) = trouble.rare.due(now) {
            let batches = trouble.batches;
            tracing::error!(ino, %error, waiting = batches, left_out, "cannot {what}; it is kept and tried again");
        }
        drop(trouble);
        attempts.failed = true;
        attempts.wait = (attempts.wait * 2).clamp(RETRY.0, RETRY.1);
        self.failed.notify_waiters();
        attempts.wait
    }

    /// A batch is stored.
    pub fn success(&self, attempts: &Attempts) {
        if attempts.abandoned {
            return;
        }
        let now = u64::try_from(self.clock.now().as_millis()).unwrap_or(u64::MAX);
        self.progress.fetch_max(now, Ordering::Relaxed);
        if self.settle(attempts) {
            self.recovered.notify_waiters();
        }
    }

    /// Nobody wants the batch any more.
    pub fn abandoned(&self, attempts: &mut Attempts) {
        let mut trouble = self.trouble.lock();
        trouble.batches = trouble.batches.saturating_sub(u64::from(attempts.failed));
        attempts.abandoned = true;
        if trouble.batches == 0 {
            *trouble = Trouble::default();
        }
    }

    fn settle(&self, attempts: &Attempts) -> bool {
        let mut trouble = self.trouble.lock();
        let Some(since) = trouble.since else { return false };
        trouble.batches = trouble.batches.saturating_sub(u64::from(attempts.failed));
        let (failures, left) = (trouble.failures, trouble.batches);
        tracing::info!(
            failures,
            left,
            seconds = since.elapsed().as_secs(),
            "written data can be stored again: it goes on"
        );
        *trouble = Trouble { batches: left, ..Trouble::default() };
        true
    }

    /// Whether the last thing that happened was a failure.
    pub fn is_on(&self) -> bool {
        self.trouble.lock().since.is_some()
    }

    /// The failure that everything written now would meet as well, if it is one that waiting does not cure.
    pub fn refusal(&self) -> Option<Error> {
        self.trouble.lock().last.clone().filter(is_final)
    }

    /// The last failure since all was well.
    pub fn last(&self) -> Option<Error> {
        self.trouble.lock().last.clone()
    }

    /// When a batch was last stored.
    pub fn progressed(&self) -> Instant {
        self.clock.instant(Duration::from_millis(self.progress.load(Ordering::Relaxed)))
    }
}

/// Whether a failure tells those who wait all they will learn. A store that cannot be reached may be back before their deadline; one
/// that is full, or does not let us in, has answered.
pub(crate) fn is_final(error: &Error) -> bool {
    use headrace_store::ErrorKind;
    match error {
        Error::Store(error) => !matches!(error.kind, ErrorKind::Transient | ErrorKind::Throttled),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_lasts_until_something_is_stored_or_nobody_wants_it() {
        let outage = Outage::default();
        let full = Error::Internal("full".into());
        let (mut one, mut two) = (Attempts::default(), Attempts::default());
        let first = outage.failure("store", 1, &full, &mut one);
        let mut last = first;
        for _ in 0..20 {
            last = outage.failure("store", 1, &full, &mut one);
        }
        assert!(first < last && last == RETRY.1);
        outage.failure("store", 2, &full, &mut two);
        outage.abandoned(&mut one);
        assert!(outage.is_on() && outage.refusal().is_some());
        outage.success(&Attempts::default());
        assert!(!outage.is_on() && outage.refusal().is_none() && outage.last().is_none());
        outage.failure("store", 2, &full, &mut two);
        outage.abandoned(&mut two);
        assert!(!outage.is_on());
    }
}
