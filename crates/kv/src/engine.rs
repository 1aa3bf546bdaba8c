//! What an engine is: consistent views, serialisable transactions, durability as a separate question.

use std::borrow::Cow;
use std::ops::ControlFlow;

use futures::future::BoxFuture;
use headrace_metrics::Collection;

use crate::KvError;

/// Orders commits: a transaction's position in the engine's history.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct CommitSeq(pub u64);

/// What a scan calls with each key and value.
pub type Visit<'v> = &'v mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>;

/// A consistent view.
pub trait Read {
    /// The value under `key`.
    fn get<'a>(&'a self, key: &[u8]) -> Result<Option<Cow<'a, [u8]>>, KvError>;

    /// Visits keys in `[start, end)` in order until `visit` breaks.
    fn scan(&self, start: &[u8], end: &[u8], visit: Visit<'_>) -> Result<(), KvError>;

    /// Visits keys in `[start, end)` from the last to the first until `visit` breaks.
    fn scan_reverse(&self, start: &[u8], end: &[u8], visit: Visit<'_>) -> Result<(), KvError>;
}

/// A transaction: reads see its own writes; writes take effect together or not at all.
///
/// A write that breaks a limit (key of 1 to [`crate::MAX_KEY_BYTES`] bytes, value of up to
/// [`crate::MAX_VALUE_BYTES`], the engine's bound for one transaction) makes the whole transaction fail with
/// [`KvError::Limit`] when its closure returns.
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
///
/// Views and transactions are short: an engine may hold locks while the closure runs. The closure must not start
/// another view or transaction on the same engine, nor block on [`Engine::durable`].
pub trait Engine: Send + Sync + 'static {
    /// Runs `f` over a consistent view of everything committed so far (durable or not).
    fn view(&self, f: &mut dyn FnMut(&dyn Read) -> Result<(), Stop>) -> Result<(), Stop>;

    /// Runs `f` as a transaction; serialisable. `f` may be run again after a conflict. When this returns `Ok` the writes
    /// are visible to every later view; they are durable once [`Engine::durable`] of the returned position says so.
    fn transact(&self, f: &mut dyn FnMut(&mut dyn Txn) -> Result<(), Stop>) -> Result<CommitSeq, Stop>;

    /// The position of the newest commit.
    fn position(&self) -> CommitSeq;

    /// Resolves when everything up to `seq` survives kill -9 and power loss. The work starts at once, not at the first
    /// poll. A position that was not handed out yet means the newest one.
    fn durable(&self, seq: CommitSeq) -> BoxFuture<'static, Result<(), KvError>>;

    /// Whether this process is the only one that can change the data, so that caches may live long.
    fn exclusive(&self) -> bool;

    /// Makes everything durable and stops background work. Blocks. Later calls fail with [`KvError::Closed`]; closing
    /// twice is fine. On [`KvError::Full`] the engine stays open, so that the caller can make room and try again.
    fn close(&self) -> Result<(), KvError>;

    /// Figures for `status`.
    fn stats(&self) -> EngineStats;

    /// Adds what the engine counts and times.
    fn collect(&self, _into: &mut Collection) {}
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
    /// Bytes of changes in its log that were not given up yet.
    pub log_bytes: u64,
}
