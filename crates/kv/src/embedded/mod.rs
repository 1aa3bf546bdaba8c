//! The embedded engine: LMDB below, memory above, one thread between them.
//!
//! POSIX asks for durability at fsync only. So a transaction is applied in memory by the thread that runs it, and goes to
//! disk in the background together with all others of its time: one sync for many.
//!
//! # Layers
//!
//! A read looks, newest first, at
//!
//! 1. the transaction's own writes (only inside a transaction),
//! 2. the *active* memtable, which committed transactions are moved into,
//! 3. the *frozen* memtable, which the committer is writing to disk,
//! 4. an LMDB read transaction.
//!
//! # Why a view is consistent
//!
//! A view holds the layers' read lock from its first to its last read, and every change to the layers takes the write
//! lock. There are three:
//!
//! - **apply** moves a whole transaction into the active memtable: a view sees all of it or nothing;
//! - **freeze** turns the active memtable into the frozen one: the content of the layers together stays the same;
//! - **thaw** drops the frozen memtable after LMDB committed it with a full sync, and ends the read transactions that were
//!   begun before. Those begun later see that commit, so the content stays the same again.
//!
//! LMDB's commit itself happens beside the lock, while views run. It changes exactly the keys of the frozen memtable, and
//! for those the frozen memtable answers before LMDB is asked. A view therefore reads the same whether its read
//! transaction began before the commit or after it, which is why it may be opened late (by the first lookup that the
//! memtables cannot answer) and reused by other views until the next thaw. A commit that fails or is repeated changes
//! nothing either: the entries are absolute values, and the frozen memtable stays until one succeeds.
//!
//! # Why transactions are serialisable
//!
//! One mutex is held from a transaction's first read until its writes are applied. So they happen one after the other, in
//! the order of their [`CommitSeq`]; a view, which sees a prefix of that order, could stand between two of them. On disk is
//! always a prefix as well: a memtable is frozen as a whole, with the newest position in it, and both are written in one
//! LMDB transaction.
//!
//! # Limits
//!
//! Views and transactions must be short, as they hold locks; must not nest; and must not block on `durable`. Memory is
//! bounded by [`EmbeddedOptions::max_pending_bytes`] and one transaction.

mod backlog;
mod committer;
mod counts;
mod directory;
mod layers;
mod lmdb;
mod loader;
mod log;
mod memtable;
mod merge;
mod options;
mod pages;
mod record;
mod schedule;
mod shared;
mod snapshot;
mod state;
mod transaction;
mod witness;

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use futures::FutureExt as _;
use futures::channel::oneshot;
use futures::future::BoxFuture;
use headrace_metrics::Collection;
use parking_lot::Mutex;

use self::backlog::Backlog;
use self::directory::{Directory, Purpose};
use self::layers::Layers;
use self::lmdb::{Check, Lmdb};
pub use self::loader::Loader;
use self::memtable::Memtable;
pub use self::options::EmbeddedOptions;
use self::shared::Shared;
pub use self::snapshot::EngineSnapshot;
use self::transaction::Transaction;
use crate::{CommitSeq, Engine, EngineStats, KvError, Read, Stop, Txn};

/// An engine inside this process, in a directory of its own. See the [module](self) for how it works.
pub struct EmbeddedEngine {
    shared: Arc<Shared>,
    /// `None` once closed.
    committer: Mutex<Option<JoinHandle<()>>>,
    /// Whether opening it has verified everything.
    verified: bool,
}

impl EmbeddedEngine {
    /// Opens the engine in `dir`, creating it if the directory is missing or empty.
    ///
    /// # Errors
    /// [`KvError::Io`] if the directory is a symbolic link, belongs to another user, is open already (here or in another
    /// process), or holds a format this version does not know; [`KvError::Corrupt`] if the database is damaged;
    /// [`KvError::Full`] if there is no room to create it.
    pub fn open(dir: &Path, options: EmbeddedOptions) -> Result<EmbeddedEngine, KvError> {
        let mut directory = Directory::open(dir, Purpose::Use)?;
        let store = Lmdb::open(&directory, options.map_size, Check::UpTo(options.verify_bytes))?;
        store.limit_mapped(options.max_mapped_bytes);
        directory.finish_creation()?;
        let position = store.state().position;
        let verified = store.verified();
        let mut backlog = Backlog::default();
        for group in store.log_figures()? {
            backlog.push(group);
        }
        let path = directory.path().display().to_string();
        let layers =
            Layers { active: Memtable::default(), frozen: None, store: Some(Arc::new(store)), position };
        let shared = Arc::new(Shared::new(path, options, directory, layers, backlog));
        let thread = std::thread::Builder::new().name("kv-committer".into()).spawn({
            let shared = shared.clone();
            move || committer::run(&shared)
        });
        let thread = thread.map_err(|e| KvError::Io {
            path: shared.path.clone(),
            detail: format!("cannot start the committer thread: {e}"),
        })?;
        Ok(EmbeddedEngine { shared, committer: Mutex::new(Some(thread)), verified })
    }

    /// Flushes and stops. With `force` it stops even if the disk is full, which loses what was never made durable.
    fn shut_down(&self, force: bool) -> Result<(), KvError> {
        let _no_writers = self.shared.writer.lock();
        let mut committer = self.committer.lock();
        let Some(thread) = committer.take() else { return Ok(()) };
        let (tell, told) = mpsc::channel();
        self.shared.when_durable(
            CommitSeq(u64::MAX),
            Box::new(move |answer| {
                // Nobody listens only if this thread is gone.
                let _ = tell.send(answer);
            }),
        );
        let flushed = told.recv().unwrap_or(Err(KvError::Closed));
        if !force && matches!(flushed, Err(KvError::Full { .. })) {
            *committer = Some(thread);
            return flushed;
        }
        self.shared.control.lock().schedule.stop();
        self.shared.wake.notify_one();
        let joined = thread.join();
        committer::release(&self.shared);
        flushed.and(joined.map_err(|_| KvError::Io {
            path: self.shared.path.clone(),
            detail: "the committer thread panicked".into(),
        }))
    }
}

impl Engine for EmbeddedEngine {
    fn view(&self, f: &mut dyn FnMut(&dyn Read) -> Result<(), Stop>) -> Result<(), Stop> {
        self.shared.counts.view(|| {
            let layers = self.shared.layers.read();
            let view = layers.view()?;
            f(&view)
        })
    }

    fn transact(&self, f: &mut dyn FnMut(&mut dyn Txn) -> Result<(), Stop>) -> Result<CommitSeq, Stop> {
        let shared = &*self.shared;
        shared.counts.transaction(|| {
            let _turn = shared.writer.lock();
            let writes = {
                let layers = shared.layers.read();
                let mut txn = Transaction::new(layers.view()?, shared.options.max_transaction_bytes);
                f(&mut txn)?;
                txn.finish()?
            };
            if writes.is_empty() {
                return Ok(self.position());
            }
            shared.reserve(writes.bytes(), writes.keys())?;
            Ok(shared.apply(writes))
        })
    }

    fn position(&self) -> CommitSeq {
        CommitSeq(self.shared.position.load(Ordering::Acquire))
    }

    fn durable(&self, seq: CommitSeq) -> BoxFuture<'static, Result<(), KvError>> {
        if seq.0 <= self.shared.durable.load(Ordering::Acquire) {
            return futures::future::ready(Ok(())).boxed();
        }
        let (tell, told) = oneshot::channel();
        self.shared.when_durable(
            seq,
            Box::new(move |answer| {
                // The caller may have lost interest.
                let _ = tell.send(answer);
            }),
        );
        told.map(|answer| answer.unwrap_or(Err(KvError::Closed))).boxed()
    }

    fn exclusive(&self) -> bool {
        true
    }

    fn close(&self) -> Result<(), KvError> {
        self.shut_down(false)
    }

    fn stats(&self) -> EngineStats {
        let shared = &*self.shared;
        // Under the lock: a handle kept beyond it would keep the database from being closed.
        let disk_bytes = shared.layers.read().store.as_ref().map_or(0, |store| store.disk_bytes());
        EngineStats {
            transactions: shared.transactions.load(Ordering::Relaxed),
            syncs: shared.syncs.load(Ordering::Relaxed),
            pending_bytes: shared.pending_bytes.load(Ordering::Acquire),
            disk_bytes,
            log_bytes: shared.backlog.lock().figures().bytes,
        }
    }

    fn collect(&self, into: &mut Collection) {
        self.shared.counts.collect(&self.stats(), into);
    }
}

impl Drop for EmbeddedEngine {
    fn drop(&mut self) {
        if let Err(e) = self.shut_down(true) {
            tracing::error!(error = %e, "the metadata engine closed with changes that never became durable");
        }
    }
}
