//! One operation with its attempts: a time limit for each, waits between them, a deadline for all.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use futures::FutureExt;
use headrace_flow::backoff::{Backoff, Decision, Policy};
use parking_lot::Mutex;
use tokio::time::{Duration, sleep, timeout};

use super::allowance;
use super::failure::{Blame, Failure};
use super::transport::{EXCHANGE, Exchange};
use crate::error::{ErrorKind, StoreError};

/// Time limits of every operation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) policy: Policy,
    pub(super) request_timeout: Duration,
}

/// An operation under way.
pub(super) struct Operation<'a> {
    name: &'static str,
    target: Box<dyn Fn() -> String + Send + Sync + 'a>,
    blame: &'a Blame,
    began: Instant,
    backoff: Backoff,
    attempt_timeout: Duration,
    attempts: u32,
    ambiguous: bool,
}

impl<'a> Operation<'a> {
    pub(super) fn begin(
        name: &'static str,
        limits: Limits,
        blame: &'a Blame,
        bytes: u64,
        target: Box<dyn Fn() -> String + Send + Sync + 'a>,
    ) -> Operation<'a> {
        let extra = allowance(bytes);
        let policy = Policy { deadline: limits.policy.deadline.saturating_add(extra), ..limits.policy };
        // Only spreads waits: without randomness from the system they are the same, which is no reason to fail.
        let backoff = Backoff::new(policy, getrandom::u64().unwrap_or_default());
        let attempt_timeout = limits.request_timeout.saturating_add(extra);
        Operation {
            name,
            target,
            blame,
            began: Instant::now(),
            backoff,
            attempt_timeout,
            attempts: 0,
            ambiguous: false,
        }
    }

    /// Makes one attempt.
    pub(super) async fn attempt<T>(
        &mut self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        self.attempts = self.attempts.saturating_add(1);
        let limit = self.attempt_timeout.min(self.backoff.remaining(self.began.elapsed()));
        let exchange = Arc::new(Mutex::new(Exchange::default()));
        // A panic of the library on a strange answer must not take the file system down.
        let work = AssertUnwindSafe(work).catch_unwind();
        let result = match timeout(limit, EXCHANGE.scope(Arc::clone(&exchange), work)).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => {
                Err(Failure::corrupt("the client library could not make sense of the answer".to_owned()))
            }
            Err(_) => Err(Failure::timeout(limit)),
        };
        result.map_err(|failure| failure.explained(&exchange.lock(), self.blame))
    }

    /// After a failed attempt: waits until the next one is due, or gives the error to report.
    pub(super) async fn after(&mut self, failure: Failure) -> Result<(), StoreError> {
        // Whether the store did it before it failed us, we cannot know.
        self.ambiguous |= matches!(failure.kind, ErrorKind::Transient | ErrorKind::Throttled);
        let now = self.began.elapsed();
        match self.backoff.failed(now, failure.class(), failure.retry_after) {
            Decision::Wait(wait) => {
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
