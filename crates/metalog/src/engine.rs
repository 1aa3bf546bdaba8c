//! The engine that ships what it commits: the embedded engine, a lease, and a thread that writes the log to the bucket.
//!
//! A transaction goes to the embedded engine and is answered. The engine's committer makes groups durable and keeps them in its own
//! log; the shipping thread puts them into numbered objects, one at a time and as many groups at once as have gathered, and
//! trims the engine's log behind itself. So nothing is kept in memory for the bucket: while the store is away the backlog grows
//! on disk, up to the bound at which [`LoggedEngine::admit`] holds callers back.
//!
//! # What an acknowledgement means
//!
//! [`durable`](Engine::durable) answers when the position is synced locally, the lease is valid *after* that, and, with
//! [`Durability::Bucket`], the log object that holds it is in the bucket. A process that was put out therefore acknowledges nothing: with
//! `Bucket` because the number it would write is taken, with `Local` because its lease cannot be renewed any more.
//!
//! # The thread
//!
//! All work on the bucket runs in one thread with a runtime of its own, so that [`close`](Engine::close) may block whatever
//! thread it is called from. It runs four things beside each other: the keeper of the lease, the shipper ([`crate::ship`]), the
//! answering of waiters ([`waiters`]), and upkeep: snapshots and retention.

mod closing;
mod options;
mod shared;
mod status;
mod upkeep;
mod waiters;
mod worker;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use headrace_kv::embedded::EmbeddedEngine;
use headrace_kv::{CommitSeq, Engine, EngineStats, KvError, Read, Stop, Txn};
use headrace_metrics::Collection;
use parking_lot::Mutex;

pub use self::options::{Durability, LogOptions};
pub(crate) use self::shared::{Shared, Tail};
pub use self::status::{LogState, LogStatus};
use self::worker::Worker;
use crate::ownership::{Claim, FencedReason, Keeper};
use crate::{Bucket, MetalogError};

/// An [`EmbeddedEngine`] whose commits are shipped to the bucket.
pub struct LoggedEngine {
    shared: Arc<Shared>,
    /// `None` once closed.
    worker: Mutex<Option<Worker>>,
}

impl std::fmt::Debug for LoggedEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoggedEngine").field("bucket", &self.shared.bucket).finish_non_exhaustive()
    }
}

impl LoggedEngine {
    /// Begins to ship what `engine` (opened with its log on) commits, under `claim`, with which the state directory's record is settled
    /// ([`SiteRecord::settle`](crate::SiteRecord::settle)).
    ///
    /// `keeper` is the claim's keeper if one runs already, as it must when long work lay between the claim and this; without it
    /// this starts one.
    ///
    /// # Errors
    /// [`MetalogError::NotContinuous`] if the engine does not go on where the log ends: rebuild it from the bucket
    /// ([`crate::restore::restore`]), or declare its state to be the volume's ([`crate::ship::publish_reset`]).
    pub fn start(
        bucket: Bucket,
        engine: Arc<EmbeddedEngine>,
        claim: &Claim,
        keeper: Option<Arc<Keeper>>,
        options: LogOptions,
    ) -> Result<Arc<LoggedEngine>, MetalogError> {
        check_continuity(&engine, claim)?;
        // A crash may have come between shipping and trimming.
        engine.trim_log(claim.position);
        let (keeper, keeping) = match keeper {
            Some(keeper) => (keeper, None),
            None => {
                let (keeper, task) = Keeper::new(bucket.clone(), claim);
                (Arc::new(keeper), Some(task.boxed()))
            }
        };
        let shared = Arc::new(Shared::new(bucket, engine, keeper, claim, options));
        let worker = Worker::start(Arc::clone(&shared), keeping)?;
        Ok(Arc::new(LoggedEngine { shared, worker: Mutex::new(Some(worker)) }))
    }

    /// The engine beneath.
    pub fn embedded(&self) -> &Arc<EmbeddedEngine> {
        &self.shared.engine
    }

    /// The lease.
    pub fn keeper(&self) -> &Arc<Keeper> {
        &self.shared.keeper
    }

    /// Figures.
    pub fn status(&self) -> LogStatus {
        self.shared.status()
    }

    /// The newest position that is in the bucket.
    pub fn shipped_position(&self) -> CommitSeq {
        self.shared.state.lock().tail.position
    }

    /// Resolves with success at once while little enough waits to be shipped, and otherwise when it has become less; dropping it gives
    /// the wait up. Call it before a change of metadata.
    ///
    /// # Errors
    /// When the store has not taken enough within [`LogOptions::deadline`], when the volume was taken over, and when it was closed.
    pub fn admit(&self) -> impl Future<Output = Result<(), KvError>> + Send + 'static {
        self.shared.admit()
    }

    /// Resolves when everything committed so far is durable here and in the bucket, whatever the durability asked for. The work starts
    /// at once.
    ///
    /// # Errors
    /// As [`Engine::durable`] with [`Durability::Bucket`].
    pub fn flush(&self) -> BoxFuture<'static, Result<(), KvError>> {
        self.shared.durable(self.position(), Durability::Bucket)
    }

    /// Resolves when somebody else has taken the volume over: nothing can be changed from here any more.
    pub fn fenced(&self) -> impl Future<Output = FencedReason> + Send + 'static {
        let keeper = Arc::clone(&self.shared.keeper);
        async move { keeper.fenced().await }
    }

    /// Stops without shipping anything and without giving the volume up, as a crash would. What is not in the bucket stays in the
    /// engine's log. For tests of what comes after.
    pub fn abandon(&self) {
        self.shared.refuse.store(true, Ordering::Release);
        if let Some(worker) = self.worker.lock().take() {
            worker.abandon();
        }
        self.shared.close_waiters();
    }
}

/// Fails unless the engine's log goes on at the claim's position.
fn check_continuity(engine: &EmbeddedEngine, claim: &Claim) -> Result<(), MetalogError> {
    let durable = engine.durable_position();
    let next = engine.log_after(claim.position, 1)?.first().map(|group| group.after);
    let begins = next.unwrap_or(durable);
    if begins == claim.position {
        return Ok(());
    }
    Err(MetalogError::NotContinuous { local: begins, durable, log: claim.position })
}

impl Engine for LoggedEngine {
    fn view(&self, f: &mut dyn FnMut(&dyn Read) -> Result<(), Stop>) -> Result<(), Stop> {
        self.shared.engine.view(f)
    }

    fn transact(&self, f: &mut dyn FnMut(&mut dyn Txn) -> Result<(), Stop>) -> Result<CommitSeq, Stop> {
        if self.shared.refuse.load(Ordering::Acquire) {
            return Err(Stop::Kv(self.shared.refusal()));
        }
        self.shared.engine.transact(f)
    }

    fn position(&self) -> CommitSeq {
        self.shared.engine.position()
    }

    fn durable(&self, seq: CommitSeq) -> BoxFuture<'static, Result<(), KvError>> {
        self.shared.durable(seq, self.shared.options.durability)
    }

    fn exclusive(&self) -> bool {
        true
    }

    /// Makes everything durable, ships it, gives the volume up and closes the engine. Blocks.
    ///
    /// If not everything could be shipped in time the engine is closed all the same and the error says how many changes are only
    /// on this machine; the volume is then not given up, and they are shipped when it is mounted here again.
    fn close(&self) -> Result<(), KvError> {
        let mut worker = self.worker.lock();
        closing::close(&self.shared, &mut worker)
    }

    fn stats(&self) -> EngineStats {
        self.shared.engine.stats()
    }

    fn collect(&self, into: &mut Collection) {
        self.shared.engine.collect(into);
        self.status().collect(into);
    }
}

impl Drop for LoggedEngine {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::error!(%error, "the metadata log was closed with an error");
        }
        if let Some(worker) = self.worker.lock().take() {
            worker.abandon();
        }
    }
}
