//! Rebuilding an engine from the bucket: the newest snapshot that fits, and the log after it.
//!
//! Nothing is taken on trust: each object says what it is and is sealed, each log object names the hash of the one before it, the
//! manifest of a snapshot names the hashes of its parts and of the log object it belongs to, and positions follow each other. What is
//! missing, cut, changed or exchanged is named in the error, with what can still be had.

mod bases;
mod chain;
mod error;
mod fetch;
mod rebuild;
mod replay;
mod sink;

use std::path::Path;
use std::time::SystemTime;

use headrace_kv::CommitSeq;
use headrace_kv::embedded::Loader;

pub use self::error::{RestoreError, When};
use self::rebuild::rebuild;
pub use self::sink::Sink;
use crate::Bucket;

/// Which state to restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// The newest one in the bucket.
    Latest,
    /// The one at this time. What was committed together is there or not as a whole: all of it that was closed at or before this
    /// time, by the clock of the machine that wrote it.
    At(SystemTime),
}

/// What was restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// The engine's position now.
    pub position: CommitSeq,
    /// Number of the last log object that went into it.
    pub number: u64,
    /// The time of the state.
    pub at: SystemTime,
    /// Whether the log ends here: nothing that is in the bucket was left out.
    pub is_latest: bool,
    /// Records of the snapshot it began with.
    pub records: u64,
    /// Groups of transactions applied to that.
    pub groups: u64,
    /// Damage that was got around: a snapshot that could not be used, say. Each names its object.
    pub warnings: Vec<String>,
}

/// How far a restore is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestoreProgress {
    /// What is being done.
    pub stage: Stage,
    /// Bytes of objects read in this stage.
    pub done: u64,
    /// Bytes of objects to be read in this stage.
    pub total: u64,
}

/// What a restore is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Finding out what is in the bucket.
    Looking,
    /// Loading a snapshot.
    Snapshot,
    /// Applying the log.
    Log,
}

/// Builds an engine in `engine_dir` with the state of `target`, from the bucket alone. Changes nothing in the bucket and claims
/// nothing. Memory is bounded: a few objects at a time.
///
/// Until it has succeeded the directory is marked as unfinished: no engine opens it, and another restore begins anew. Needs a tokio
/// runtime.
///
/// # Errors
/// [`RestoreError`] names the object that is missing or damaged, and says what can still be had.
pub async fn restore(
    bucket: &Bucket,
    target: Target,
    engine_dir: &Path,
    progress: &(dyn Fn(RestoreProgress) + Send + Sync),
) -> Result<Restored, RestoreError> {
    let dir = engine_dir.to_owned();
    rebuild(bucket, target, move || Loader::create(&dir), progress).await
}

/// Reads everything a restore would read, and builds nothing: whether the bucket alone would bring the metadata back.
///
/// # Errors
/// As [`restore`].
pub async fn check(
    bucket: &Bucket,
    target: Target,
    progress: &(dyn Fn(RestoreProgress) + Send + Sync),
) -> Result<Restored, RestoreError> {
    rebuild(bucket, target, || Ok(sink::Nowhere), progress).await
}

/// Finds out where a restore would lead, from the log alone: snapshots are looked for and not read.
///
/// # Errors
/// As [`restore`].
pub async fn locate(
    bucket: &Bucket,
    target: Target,
    progress: &(dyn Fn(RestoreProgress) + Send + Sync),
) -> Result<Restored, RestoreError> {
    rebuild(bucket, target, || Ok(sink::Positions), progress).await
}
