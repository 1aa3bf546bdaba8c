//! One operation with its attempts: a time limit for each, waits between them, a deadline for all.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use futures::FutureExt;
use headrace_flow::backoff::{self, Backoff, Decision, Policy};
use headrace_flow::pause::Pause;
use parking_lot::Mutex;
use tokio::time::{Duration, sleep};

use super::allowance;
use super::attempts::Attempts;
use super::failure::{Blame, Failure};
use super::progress::Progress;
use super::transport::{EXCHANGE, Exchange};
use crate::StoreHealth;
use crate::error::{ErrorKind, StoreError};
use crate::health::{Clock, Tracker};

/// Answers with a wrong length that are taken for an accident before they are taken for the truth.
const SUSPECT_ATTEMPTS: u32 = 3;

/// Time limits of every operation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) policy: Policy,
    pub(super) request_timeout: Duration,
}

/// What all operations on a store share.
pub(super) struct Control {
    pub(super) limits: Limits,
    pub(super) blame: Blame,
    pub(super) attempts: Arc<Attempts>,
    tracker: Arc<Tracker>,
    clock: Clock,
    pause: Mutex<Pause>,
}

impl Control {
    pub(super) fn new(limits: Limits, blame: Blame) -> Control {
        // Half the deadline: an operation that begins in a pause still has time for what it is about.
        let pause = Mutex::new(Pause::new(limits.policy.deadline / 2));
        let (attempts, tracker) = (Arc::default(), Arc::default());
        Control { limits, blame, attempts, tracker, clock: Clock::new(), pause }
    }

    pub(super) fn health(&self) -> StoreHealth {
        self.tracker.snapshot(self.pause.lock().remaining(self.clock.now()))
    }

    /// Takes down what became of an attempt, for `status` and for the others.
    fn note<T>(&self, operation: &str, result: &Result<T, Failure>) {
        match result {
            Ok(_) => self.tracker.succeeded(operation),
            Err(failure) if failure.kind == ErrorKind::NotFound && failure.whole_store => {
                self.tracker.failed(operation, ErrorKind::Denied, &failure.detail());
            }
            Err(failure) => self.tracker.failed(operation, failure.kind, &failure.detail()),
        }
        match result {
            Ok(_) => self.pause.lock().succeeded(),
            Err(failure) if failure.kind == ErrorKind::Throttled => {
                self.pause.lock().throttled(self.clock.now(), failure.retry_after);
            }
            Err(failure) if failure.retry_after.is_some() => {
                self.pause.lock().throttled(self.clock.now(), failure.retry_after);
            }
            Err(_) => {}
        }
    }
}

/// An operation under way.
pub(super) struct Operation<'a> {
    name: &'static str,
    target: Box<dyn Fn() -> String + Send + Sync + 'a>,
    control: &'a Control,
    began: Instant,
    backoff: Backoff,
    /// How much longer than a small one this may take, as long as it gets on.
    extra: Duration,
    attempts: u32,
    suspect: u32,
    ambiguous: bool,
    /// What became of the last attempt that had its time, if it may be made again.
    last: Option<(ErrorKind, String)>,
}

impl<'a> Operation<'a> {
    pub(super) fn begin(
        name: &'static str,
        control: &'a Control,
        bytes: u64,
        target: Box<dyn Fn() -> String + Send + Sync + 'a>,
    ) -> Operation<'a> {
        // Only spreads waits: without randomness from the system they are the same, which is no reason to fail.
        let backoff = Backoff::new(control.limits.policy, getrandom::u64().unwrap_or_default());
        Operation {
            name,
            target,
            control,
            began: Instant::now(),
            backoff,
            extra: allowance(bytes),
            attempts: 0,
            suspect: 0,
            ambiguous: false,
            last: None,
        }
    }

    /// Makes one attempt, after the pause that the store asked of all.
    pub(super) async fn attempt<T>(
        &mut self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        self.pause().await?;
        self.attempts = self.attempts.saturating_add(1);
        let remaining = self.backoff.remaining(self.began.elapsed());
        let quiet = self.control.limits.request_timeout;
        let mut cut = false;
        let longest = quiet.min(remaining).saturating_add(self.extra);
        let (tracker, attempts) = (Arc::clone(&self.control.tracker), Arc::clone(&self.control.attempts));
        let progress = Arc::new(Progress::new(tracker, attempts, self.name));
        let exchange = Arc::new(Mutex::new(Exchange::new(Arc::clone(&progress))));
        // A panic of the library on a strange answer must not take the file system down.
        let work = EXCHANGE.scope(Arc::clone(&exchange), AssertUnwindSafe(work).catch_unwind());
        let result = tokio::select! {
            biased;
            done = work => done.unwrap_or_else(|_| {
                Err(Failure::corrupt("the client library could not make sense of the answer".to_owned()))
            }),
            waited = progress.stalled(quiet.min(remaining), quiet, longest) => {
                cut = waited < quiet && progress.bytes() == 0;
                Err(Failure::stalled(waited, progress.bytes()))
            }
        };
        let result = result.map_err(|failure| failure.explained(&exchange.lock(), &self.control.blame));
        self.control.note(self.name, &result);
        result.map_err(|failure| self.telling(failure, cut))
    }

    /// The failure to report: one that the deadline cut short says less of the store than the one before it.
    fn telling(&mut self, mut failure: Failure, cut: bool) -> Failure {
        if cut && let Some((kind, why)) = &self.last {
            (failure.kind, failure.why) = (*kind, why.clone());
        } else if matches!(failure.kind, ErrorKind::Transient | ErrorKind::Throttled) {
            self.last = Some((failure.kind, failure.detail()));
        }
        failure
    }

    /// Holds off while the store wants all of us to.
    async fn pause(&mut self) -> Result<(), Failure> {
        loop {
            let wait = self.control.pause.lock().remaining(self.control.clock.now());
            if wait.is_zero() {
                return Ok(());
            }
            let wait = self.backoff.spread(wait);
            if wait >= self.backoff.remaining(self.began.elapsed()) {
                let said = match &self.last {
                    Some((ErrorKind::Throttled, said)) => said.clone(),
                    _ => {
                        let server = self.control.blame.endpoint.as_deref().unwrap_or("the store");
                        format!("{server} asks for fewer requests")
                    }
                };
                return Err(Failure::throttled(format!(
                    "{said}, and that for longer than until the deadline"
                )));
            }
            sleep(wait).await;
        }
    }

    /// After a failed attempt: waits until the next one is due, or gives the error to report.
    pub(super) async fn after(&mut self, failure: Failure) -> Result<(), StoreError> {
        // Whether the store did it before it failed us, we cannot know.
        self.ambiguous |= matches!(failure.kind, ErrorKind::Transient | ErrorKind::Throttled);
        let mut class = failure.class();
        if failure.suspect && self.suspect + 1 < SUSPECT_ATTEMPTS {
            self.suspect += 1;
            class = backoff::Failure::Transient;
        }
        let now = self.began.elapsed();
        match self.backoff.failed(now, class, failure.retry_after) {
            Decision::Wait(wait) => {
                self.control.attempts.retry(self.name, failure.kind);
                let detail = failure.detail();
                tracing::debug!(
                    operation = self.name,
                    target = (self.target)(),
                    attempts = self.attempts,
                    ?wait,
                    detail,
                    "retrying"
                );
                sleep(wait).await;
                Ok(())
            }
            Decision::GiveUp => {
                let mut detail = failure.detail();
                if matches!(failure.kind, ErrorKind::Transient | ErrorKind::Throttled) {
                    let seconds = now.as_secs_f64();
                    let plural = if self.attempts == 1 { "" } else { "s" };
                    detail.push_str(&format!(
                        "; gave up after {} attempt{plural} in {seconds:.1} s",
                        self.attempts
                    ));
                }
                Err(StoreError::new(failure.kind, self.name, (self.target)(), detail))
            }
        }
    }

    /// Whether an earlier attempt failed in a way that leaves open if it took effect.
    pub(super) fn ambiguous(&self) -> bool {
        self.ambiguous
    }
}
