//! The shipper: reads groups from the engine's log, writes them as the next object, goes on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use headrace_flow::backoff::{Backoff, Decision, Failure, Policy};
use headrace_kv::log::LogGroup;
use headrace_kv::{CommitSeq, KvError};

use super::Step;
use crate::engine::{Shared, Tail};
use crate::object::{LogBody, LogObject};
use crate::ownership::LeaseState;
use crate::snapshot::on_thread;
use crate::{Bucket, Key, MetalogError, ObjectHash, PutNew};

/// Objects looked at for the log's time when shipping begins.
const LOOK_BACK: u64 = 64;

/// Longest wait between two attempts.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// An object that is to be written.
struct Prepared {
    tail: Tail,
    at_ms: u64,
    stored: Bytes,
    /// When its groups were read.
    began: Instant,
}

/// How an attempt ended.
enum Attempt {
    Done,
    /// There was nothing to ship after all.
    Nothing,
    Failed(String),
}

/// Ships until it is dropped. Tries for ever: what waits is on disk, and those who wait are answered elsewhere.
pub(crate) async fn run(shared: &Arc<Shared>) {
    let mut shipper = Shipper { shared, unsent: None, retry: None, failing: None, backoff: new_backoff() };
    loop {
        if shared.keeper.state() == LeaseState::Fenced {
            return std::future::pending().await;
        }
        let now = Instant::now();
        let retry_in = shipper.retry.map(|at| at.saturating_duration_since(now));
        match shared.options.ship.step(&shared.backlog(now), retry_in) {
            Step::Ship => shipper.attempt().await,
            Step::Wait(None) => shared.ship.notified().await,
            Step::Wait(Some(wait)) => {
                tokio::select! {
                    () = shared.ship.notified() => {}
                    () = tokio::time::sleep(wait) => {}
                }
            }
        }
    }
}

fn new_backoff() -> Backoff {
    let policy = Policy { base: Duration::from_millis(100), deadline: Duration::MAX, ..Policy::default() };
    Backoff::new(policy, getrandom::u64().unwrap_or_default())
}

struct Shipper<'s> {
    shared: &'s Arc<Shared>,
    /// What is to be written again exactly as it is: it may have arrived.
    unsent: Option<Prepared>,
    /// When the attempt that failed may be repeated.
    retry: Option<Instant>,
    /// Since when all attempts have failed.
    failing: Option<Instant>,
    backoff: Backoff,
}

impl Shipper<'_> {
    async fn attempt(&mut self) {
        let outcome = match self.write().await {
            Ok(attempt) => attempt,
            Err(error) => Attempt::Failed(error.to_string()),
        };
        match outcome {
            Attempt::Done => {
                if self.retry.take().is_some() {
                    tracing::info!("the store takes the metadata log again");
                    (self.failing, self.backoff) = (None, new_backoff());
                }
            }
            // Looked at again soon; an event may come first.
            Attempt::Nothing => self.retry = Some(Instant::now() + Duration::from_millis(10)),
            Attempt::Failed(error) => {
                if self.shared.state.lock().ship_error.is_none() {
                    tracing::warn!(%error, "cannot ship the metadata log; it is kept here and tried again");
                }
                self.shared.state.lock().ship_error = Some(error);
                let failed_for = self.failing.get_or_insert_with(Instant::now).elapsed();
                let wait = match self.backoff.failed(failed_for, Failure::Transient, None) {
                    Decision::Wait(wait) => wait,
                    Decision::GiveUp => MAX_WAIT,
                };
                self.retry = Some(Instant::now() + wait);
            }
        }
    }

    /// Writes one object.
    async fn write(&mut self) -> Result<Attempt, MetalogError> {
        if self.unsent.is_none() {
            self.unsent = self.prepare().await?;
        }
        let Some(prepared) = &self.unsent else { return Ok(Attempt::Nothing) };
        let bucket = &self.shared.bucket;
        let number = prepared.tail.number;
        let key = Key::Log { number };
        if !bucket.conditional && !self.shared.keeper.is_valid() {
            // Such a store would let us overwrite what a new owner has just begun.
            return Ok(Attempt::Failed("the lease of the volume could not be renewed".into()));
        }
        if bucket.put_new(key, prepared.stored.clone()).await? == PutNew::Exists {
            match bucket.get(key).await? {
                // An earlier attempt arrived although its answer did not.
                Some(there) if there == prepared.stored => {}
                Some(there) => {
                    let detail = match LogObject::decode(bucket, number, &there) {
                        Ok(other) => {
                            format!("{key} was written in epoch {}{}", other.writer.epoch, holder(&other))
                        }
                        Err(error) => format!("{key} was written by somebody else; {error}"),
                    };
                    self.shared.keeper.fence(detail);
                    return Ok(Attempt::Nothing);
                }
                None => return Ok(Attempt::Failed(format!("{key} was there and then was not"))),
            }
        }
        if let Some(Prepared { tail, at_ms, stored, began }) = self.unsent.take() {
            self.shared.advance(tail, at_ms, stored.len() as u64, began);
        }
        Ok(Attempt::Done)
    }

    /// Makes the next object of what waits in the engine's log.
    async fn prepare(&self) -> Result<Option<Prepared>, MetalogError> {
        let shared = Arc::clone(self.shared);
        let (tail, at_ms) = {
            let state = shared.state.lock();
            (state.tail, state.at_ms)
        };
        on_thread(move || {
            let began = Instant::now();
            let max = shared.options.ship.max_object_bytes;
            let mut groups = shared.engine.log_after(tail.position, max)?;
            let Some(first) = groups.first() else { return Ok(None) };
            if first.after != tail.position {
                let durable = shared.engine.durable_position();
                return Err(MetalogError::NotContinuous { local: first.after, durable, log: tail.position });
            }
            let (upto, at_ms) = make_monotonic(&mut groups, at_ms);
            let number =
                tail.number.checked_add(1).ok_or_else(|| KvError::Limit("the log is full".into()))?;
            let object = LogObject { writer: shared.writer, prev: tail.hash, body: LogBody::Groups(groups) };
            let stored = object.encode(&shared.bucket, number)?;
            let tail = Tail { number, hash: ObjectHash::of(&stored), position: upto };
            Ok(Some(Prepared { tail, at_ms, stored, began }))
        })
        .await
    }
}

/// Finds out the time of the log's end, that of the last groups there: so a clock that was set back, or another machine's which is
/// behind, does not turn the order round. Nothing is shipped before that; tries until it is known.
pub(crate) async fn find_time(shared: &Shared) {
    let mut backoff = new_backoff();
    let mut next = shared.state.lock().tail.number;
    let first = next.saturating_sub(LOOK_BACK);
    loop {
        match time_before(&shared.bucket, first, &mut next).await {
            Ok(found) => {
                let mut state = shared.state.lock();
                state.at_ms = found.unwrap_or(1);
                state.time_is_certain = found.is_some();
                state.ship_error = None;
                return;
            }
            Err(error) => {
                let wait = backoff.failed(Duration::ZERO, Failure::Transient, None);
                shared.state.lock().ship_error = Some(error.to_string());
                tokio::time::sleep(if let Decision::Wait(wait) = wait { wait } else { MAX_WAIT }).await;
            }
        }
    }
}

/// The time of the last groups, or the last reset, among the objects from `first` to `next`. After an error `next` is where to go on.
async fn time_before(bucket: &Bucket, first: u64, next: &mut u64) -> Result<Option<u64>, MetalogError> {
    loop {
        let Some(stored) = bucket.get(Key::Log { number: *next }).await? else { return Ok(None) };
        let Ok(object) = LogObject::decode(bucket, *next, &stored) else { return Ok(None) };
        match &object.body {
            LogBody::Epoch { .. } => {}
            LogBody::Groups(groups) => return Ok(groups.iter().map(|group| group.at_ms).max()),
            LogBody::Reset { at_ms, .. } => return Ok(Some(*at_ms)),
        }
        if *next <= first {
            return Ok(None);
        }
        *next -= 1;
    }
}

/// Raises the groups' times so that none is before the one before it, beginning with `at_ms`; the last position and time.
fn make_monotonic(groups: &mut [LogGroup], mut at_ms: u64) -> (CommitSeq, u64) {
    let mut upto = CommitSeq(0);
    for group in groups {
        at_ms = at_ms.max(group.at_ms);
        group.at_ms = at_ms;
        upto = group.upto;
    }
    (upto, at_ms)
}

/// Who wrote an object, for people.
fn holder(object: &LogObject) -> String {
    match &object.body {
        LogBody::Epoch { holder, .. } => format!(", {}", holder.escape_debug()),
        LogBody::Groups(_) | LogBody::Reset { .. } => String::new(),
    }
}
