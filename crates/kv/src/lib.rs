//! Ordered, transactional key-value storage: the trait every metadata engine implements, and the embedded engine.

use std::borrow::Cow;
use std::ops::ControlFlow;

use futures::future::BoxFuture;

/// Orders commits: a transaction's position in the engine's history.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct CommitSeq(pub u64);

/// What can go wrong in an engine.
#[derive(Debug, Clone, thiserror::Error)]
pub enum KvError {
    /// The engine's disk is full; nothing was lost, the engine retries when there is room.
    #[error("metadata engine at {path}: no space left: {detail}")]
    Full {
        /// Where the engine keeps its files.
        path: String,
        /// The cause.
        detail: String,
    },
    /// The engine failed.
    #[error("metadata engine at {path}: {detail}")]
    Io {
        /// Where the engine keeps its files.
        path: String,
        /// The cause.
        detail: String,
    },
    /// Stored bytes are not what they should be.
    #[error("metadata is corrupt: {0}")]
    Corrupt(String),
    /// The engine was closed.
    #[error("the metadata engine is closed")]
    Closed,
}

/// A consistent view.
pub trait Read {
    /// The value under `key`.
    fn get<'a>(&'a self, key: &[u8]) -> Result<Option<Cow<'a, [u8]>>, KvError>;

    /// Visits keys in `[start, end)` in order until `visit` breaks.
    fn scan(
        &self,
        start: &[u8],
        end: &[u8],
        visit: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), KvError>;

    /// Visits keys in `[start, end)` from the last to the first until `visit` breaks.
    fn scan_reverse(
        &self,
        start: &[u8],
        end: &[u8],
        visit: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), KvError>;
}

/// A transaction: reads see its own writes; writes take effect together or not at all.
pub trait Txn: Read {
    /// Sets `key`.
    fn put(&mut self, key: &[u8], value: &[u8]);
    /// Removes `key`; nothing happens if it is absent.
    fn delete(&mut self, key: &[u8]);
}

/// Why a transaction's closure did not finish.
#[derive(Debug)]
pub enum Stop {
    /// The caller changed its mind: nothing is written. The caller keeps its own reason.
    Abort,
    /// The engine failed underneath it.
    Kv(KvError),
}

impl From<KvError> for Stop {
    fn from(e: KvError) -> Self {
        Stop::Kv(e)
    }
}

/// An engine.
pub trait Engine: Send + Sync + 'static {
    /// Runs `f` over a consistent view of everything committed so far (durable or not).
    fn view(&self, f: &mut dyn FnMut(&dyn Read) -> Result<(), Stop>) -> Result<(), Stop>;

    /// Runs `f` as a transaction; serialisable. `f` may be run again after a conflict. When this returns `Ok` the writes
    /// are visible to every later view; they are durable once [`Engine::durable`] of the returned position says so.
    fn transact(&self, f: &mut dyn FnMut(&mut dyn Txn) -> Result<(), Stop>) -> Result<CommitSeq, Stop>;

    /// The position of the newest commit.
    fn position(&self) -> CommitSeq;

    /// Resolves when everything up to `seq` survives kill -9 and power loss.
    fn durable(&self, seq: CommitSeq) -> BoxFuture<'static, Result<(), KvError>>;

    /// Whether this process is the only one that can change the data, so that caches may live long.
    fn exclusive(&self) -> bool;

    /// Makes everything durable and stops background work. Blocks. Later calls fail with [`KvError::Closed`].
    fn close(&self) -> Result<(), KvError>;

    /// Figures for `status`.
    fn stats(&self) -> EngineStats;
}

/// Figures an engine keeps of itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct EngineStats {
    /// Transactions committed since the engine was opened.
    pub transactions: u64,
    /// Syncs to disk since the engine was opened.
    pub syncs: u64,
    /// Bytes committed but not yet durable.
    pub pending_bytes: u64,
    /// Bytes the engine occupies on disk.
    pub disk_bytes: u64,
}
