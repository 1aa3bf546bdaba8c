//! What callers and the shipping thread share.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use headrace_kv::embedded::EmbeddedEngine;
use headrace_kv::{CommitSeq, Engine, KvError};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use super::waiters::Waiters;
use super::{LogOptions, LogState, LogStatus};
use crate::clock::unix_ms;
use crate::object::{Anchor, Writer};
use crate::ownership::{Claim, Keeper, LeaseState};
use crate::ship::Backlog;
use crate::snapshot::Gathered;
use crate::{Bucket, ObjectHash};

/// The end of the log in the bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tail {
    /// Number of the last object.
    pub number: u64,
    /// Of its stored bytes.
    pub hash: ObjectHash,
    /// The position it leads to.
    pub position: CommitSeq,
}

/// The end of the log after an object, as a snapshot remembers it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Landmark {
    pub(crate) position: CommitSeq,
    pub(crate) anchor: Anchor,
    pub(crate) at_ms: u64,
}

pub(crate) struct Shared {
    pub(crate) bucket: Bucket,
    pub(crate) engine: Arc<EmbeddedEngine>,
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) writer: Writer,
    pub(crate) options: LogOptions,
    pub(crate) state: Mutex<State>,
    pub(super) waiters: Mutex<Waiters>,
    /// No more transactions: fenced, closing or closed.
    pub(crate) refuse: AtomicBool,
    /// Wakes the shipper.
    pub(crate) ship: Notify,
    /// Wakes who answers waiters.
    pub(crate) settle: Notify,
    /// Wakes upkeep: a snapshot may be due.
    pub(crate) upkeep: Notify,
    /// What is in the bucket, for those who wait in the shipping thread.
    pub(crate) shipped: watch::Sender<CommitSeq>,
}

/// Never locked while another lock is taken.
pub(crate) struct State {
    pub(crate) tail: Tail,
    /// The time of the state at the tail, Unix milliseconds: never goes back. 0 until it is known.
    pub(crate) at_ms: u64,
    /// Whether that is so; if not, it may have been later.
    pub(crate) time_is_certain: bool,
    /// Since when something waits to be shipped.
    pub(crate) unshipped_since: Option<Instant>,
    /// The last attempt to ship failed.
    pub(crate) ship_error: Option<String>,
    /// The last snapshot or removal failed.
    pub(crate) upkeep_error: Option<String>,
    /// Everything is to be shipped at once.
    pub(crate) hurry: bool,
    pub(crate) closed: bool,
    pub(crate) gathered: Gathered,
    pub(crate) last_snapshot: Option<(u64, CommitSeq)>,
    /// Ends of the log since a snapshot began; `None` while none is made.
    pub(crate) landmarks: Option<VecDeque<Landmark>>,
}

impl State {
    /// The end of the log as a snapshot remembers it, at `now_ms`.
    pub(crate) fn landmark(&self, now_ms: u64) -> Landmark {
        let Tail { number, hash, position } = self.tail;
        // Too late a time costs a restore some log; too early a one would let it take a state from after its target.
        let at_ms = if self.time_is_certain { self.at_ms } else { self.at_ms.max(now_ms) };
        Landmark { position, anchor: Anchor { number, hash }, at_ms }
    }
}

impl Shared {
    pub(super) fn new(
        bucket: Bucket,
        engine: Arc<EmbeddedEngine>,
        keeper: Arc<Keeper>,
        claim: &Claim,
        options: LogOptions,
    ) -> Shared {
        let tail = Tail { number: claim.number, hash: claim.hash, position: claim.position };
        let state = State {
            tail,
            at_ms: 0,
            time_is_certain: false,
            unshipped_since: None,
            ship_error: None,
            upkeep_error: None,
            hurry: false,
            closed: false,
            gathered: Gathered::default(),
            last_snapshot: None,
            landmarks: None,
        };
        Shared {
            bucket,
            engine,
            keeper,
            writer: claim.writer(),
            options,
            state: Mutex::new(state),
            waiters: Mutex::default(),
            refuse: AtomicBool::new(false),
            ship: Notify::new(),
            settle: Notify::new(),
            upkeep: Notify::new(),
            shipped: watch::Sender::new(tail.position),
        }
    }

    /// What waits to be shipped, at `now`.
    pub(crate) fn backlog(&self, now: Instant) -> Backlog {
        let stored = self.engine.log_backlog();
        let durable = self.engine.durable_position();
        let (shipped, hurry, age) = {
            let mut state = self.state.lock();
            let age = if stored.groups == 0 {
                state.unshipped_since = None;
                None
            } else {
                Some(now.saturating_duration_since(*state.unshipped_since.get_or_insert(now)))
            };
            (state.tail.position, state.hurry, age.unwrap_or_default())
        };
        let awaited = hurry || self.waiters.lock().wants(shipped, durable);
        Backlog { groups: stored.groups, bytes: stored.bytes, age, awaited }
    }

    /// An object that ends with `tail`, of `stored` bytes, is in the bucket; `began` is when it was made.
    pub(crate) fn advance(&self, tail: Tail, at_ms: u64, stored: u64, began: Instant) {
        let now_ms = unix_ms(self.bucket.clock.wall());
        {
            let mut state = self.state.lock();
            state.tail = tail;
            state.at_ms = at_ms;
            state.ship_error = None;
            // What is left came later than that.
            state.unshipped_since = Some(began);
            state.gathered.bytes += stored;
            state.gathered.objects += 1;
            let landmark = state.landmark(now_ms);
            if let Some(landmarks) = &mut state.landmarks {
                landmarks.push_back(landmark);
            }
            if self.options.snapshot.due(&state.gathered) {
                self.upkeep.notify_one();
            }
        }
        self.engine.trim_log(tail.position);
        self.shipped.send_replace(tail.position);
        self.settle.notify_one();
    }

    /// A commit is durable here.
    pub(super) fn committed(&self) {
        self.state.lock().unshipped_since.get_or_insert_with(Instant::now);
        self.ship.notify_one();
    }

    /// Why transactions are refused.
    pub(super) fn refusal(&self) -> KvError {
        match self.keeper.fenced_reason() {
            Some(reason) => KvError::Fenced { detail: reason.to_string() },
            None => KvError::Closed,
        }
    }

    pub(super) fn status(&self) -> LogStatus {
        let backlog = self.engine.log_backlog();
        let position = self.engine.position();
        let lease = self.keeper.state();
        let now_ms = unix_ms(self.bucket.clock.wall());
        let by_wall = backlog.oldest_at_ms.map_or(0, |at| now_ms.saturating_sub(at));
        let state = self.state.lock();
        let since = state.unshipped_since.filter(|_| backlog.groups > 0);
        let lag_ms = since.map_or(0, |at| at.elapsed().as_millis() as u64).max(by_wall);
        let slow = lag_ms > 5 * self.options.ship.linger.as_millis() as u64 + 5_000;
        let fenced = self.keeper.fenced_reason().map(|reason| reason.to_string());
        LogStatus {
            epoch: self.writer.epoch,
            durability: self.options.durability,
            position: position.0,
            shipped_position: state.tail.position.0,
            lag_transactions: position.0.saturating_sub(state.tail.position.0),
            lag_bytes: backlog.bytes,
            lag_ms,
            log_number: state.tail.number,
            last_snapshot_ms: state.last_snapshot.map(|(at, _)| at),
            snapshot_position: state.last_snapshot.map(|(_, position)| position.0),
            state: match lease {
                LeaseState::Fenced => LogState::Fenced,
                _ if state.closed => LogState::Closed,
                LeaseState::Released => LogState::Closed,
                LeaseState::Lapsed => LogState::Lapsed,
                LeaseState::Valid if slow || state.ship_error.is_some() => LogState::Lagging,
                LeaseState::Valid => LogState::Ok,
            },
            error: fenced
                .or_else(|| state.ship_error.clone())
                .or_else(|| self.keeper.last_error())
                .or_else(|| state.upkeep_error.clone()),
        }
    }

    /// Marks the end: whoever waits is told, and nobody can wait any more.
    pub(super) fn close_waiters(&self) {
        self.refuse.store(true, Ordering::Release);
        self.state.lock().closed = true;
        let refusal = self.refusal();
        self.waiters.lock().fail_all(&refusal);
    }
}
