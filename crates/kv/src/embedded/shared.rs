//! What callers and the committer share, and the two ways in: applying a transaction, waiting for durability.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::{Condvar, Mutex, RwLock};

use super::backlog::Backlog;
use super::counts::Counts;
use super::directory::Directory;
use super::layers::Layers;
use super::memtable::Memtable;
use super::options::EmbeddedOptions;
use super::schedule::Schedule;
use crate::{CommitSeq, KvError};

/// Told once, when a position is durable or cannot be made so.
pub(super) type Waiter = Box<dyn FnOnce(Result<(), KvError>) + Send>;

/// Told after each commit.
pub(super) type Listener = Arc<dyn Fn(CommitSeq) + Send + Sync>;

/// Lock order: `writer`, then `layers`, then `control`; `control`, `backlog` and `listeners` are never held while another is
/// taken.
pub(super) struct Shared {
    pub(super) path: String,
    pub(super) options: EmbeddedOptions,
    /// Held by the transaction that runs; makes them serial.
    pub(super) writer: Mutex<()>,
    pub(super) layers: RwLock<Layers>,
    pub(super) control: Mutex<Control>,
    /// Wakes the committer.
    pub(super) wake: Condvar,
    /// Wakes writers that wait for room.
    pub(super) room: Condvar,
    pub(super) directory: Directory,
    /// Whether commits are logged.
    pub(super) logging: bool,
    pub(super) backlog: Mutex<Backlog>,
    pub(super) listeners: Mutex<Vec<Listener>>,
    /// Mirrors of what the locks guard, for those who only want to look.
    pub(super) position: AtomicU64,
    pub(super) durable: AtomicU64,
    pub(super) pending_bytes: AtomicU64,
    /// Of the active memtable.
    pub(super) active_bytes: AtomicU64,
    pub(super) active_keys: AtomicU64,
    pub(super) transactions: AtomicU64,
    pub(super) syncs: AtomicU64,
    pub(super) counts: Counts,
}

pub(super) struct Control {
    pub(super) schedule: Schedule,
    pub(super) waiters: Vec<(CommitSeq, Waiter)>,
    /// Set while the disk is full, and for good by any other failure.
    pub(super) failure: Option<KvError>,
    /// The committer is gone.
    pub(super) stopped: bool,
}

impl Control {
    /// A failure that will not go away.
    fn broken(&self) -> Option<&KvError> {
        self.failure.as_ref().filter(|e| !matches!(e, KvError::Full { .. }))
    }
}

impl Shared {
    pub(super) fn new(
        path: String,
        options: EmbeddedOptions,
        directory: Directory,
        layers: Layers,
        backlog: Backlog,
    ) -> Self {
        let position = layers.position.0;
        Shared {
            path,
            writer: Mutex::new(()),
            layers: RwLock::new(layers),
            control: Mutex::new(Control {
                schedule: Schedule::new(options.freeze_age),
                waiters: Vec::new(),
                failure: None,
                stopped: false,
            }),
            logging: options.log || !backlog.is_empty(),
            backlog: Mutex::new(backlog),
            listeners: Mutex::new(Vec::new()),
            options,
            wake: Condvar::new(),
            room: Condvar::new(),
            directory,
            position: AtomicU64::new(position),
            durable: AtomicU64::new(position),
            pending_bytes: AtomicU64::new(0),
            active_bytes: AtomicU64::new(0),
            active_keys: AtomicU64::new(0),
            transactions: AtomicU64::new(0),
            syncs: AtomicU64::new(0),
            counts: Counts::default(),
        }
    }

    /// Waits until `bytes` in `keys` more fit into memory. The caller holds `writer`, so nobody else adds any.
    pub(super) fn reserve(&self, bytes: u64, keys: u64) -> Result<(), KvError> {
        let mut control = self.control.lock();
        loop {
            if let Some(e) = control.broken() {
                return Err(e.clone());
            }
            let pending = self.pending_bytes.load(Ordering::Acquire);
            let active = self.active_bytes.load(Ordering::Acquire);
            // One that is larger than a bound has to wait until it is alone.
            let fits = |held: u64, more: u64, bound: u64| held == 0 || held.saturating_add(more) <= bound;
            if fits(pending, bytes, self.options.max_pending_bytes)
                && fits(active, bytes, self.options.max_group_bytes)
                && fits(self.active_keys.load(Ordering::Acquire), keys, self.options.max_group_keys)
            {
                return Ok(());
            }
            if let Some(e) = &control.failure {
                return Err(e.clone());
            }
            if control.stopped {
                return Err(KvError::Closed);
            }
            control.schedule.press();
            self.wake.notify_one();
            self.room.wait(&mut control);
        }
    }

    /// Makes a transaction's writes visible. The caller holds `writer`.
    pub(super) fn apply(&self, writes: Memtable) -> CommitSeq {
        let mut layers = self.layers.write();
        let before = (layers.active.bytes(), layers.active.keys());
        let was_empty = layers.active.is_empty();
        layers.active.absorb(writes);
        let after = (layers.active.bytes(), layers.active.keys());
        layers.position = CommitSeq(layers.position.0 + 1);
        let position = layers.position;
        self.position.store(position.0, Ordering::Release);
        self.pending_bytes.store(layers.pending_bytes(), Ordering::Release);
        self.active_bytes.store(after.0, Ordering::Release);
        self.active_keys.store(after.1, Ordering::Release);
        drop(layers);

        self.transactions.fetch_add(1, Ordering::Relaxed);
        let large =
            |(bytes, keys)| bytes >= self.options.freeze_bytes || keys >= self.options.max_group_keys / 2;
        let grew_large = !large(before) && large(after);
        if was_empty || grew_large {
            let mut control = self.control.lock();
            if was_empty {
                control.schedule.filled(Instant::now());
            }
            if grew_large {
                control.schedule.press();
            }
            drop(control);
            self.wake.notify_one();
        }
        position
    }

    /// Tells everyone who listens that `durable` is on disk.
    pub(super) fn tell_durable(&self, durable: CommitSeq) {
        let listeners = self.listeners.lock().clone();
        for listener in listeners {
            listener(durable);
        }
    }

    /// Calls `waiter` once everything up to `seq` is durable, or cannot be made so.
    pub(super) fn when_durable(&self, seq: CommitSeq, waiter: Waiter) {
        // Never wait for what nobody wrote.
        let seq = CommitSeq(seq.0.min(self.position.load(Ordering::Acquire)));
        let answer = {
            let mut control = self.control.lock();
            if seq.0 <= self.durable.load(Ordering::Acquire) {
                Ok(())
            } else if let Some(e) = control.broken() {
                Err(e.clone())
            } else if control.stopped {
                Err(KvError::Closed)
            } else {
                control.waiters.push((seq, waiter));
                drop(control);
                self.wake.notify_one();
                return;
            }
        };
        waiter(answer);
    }
}
