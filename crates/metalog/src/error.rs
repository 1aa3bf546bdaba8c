//! What can go wrong with the log, apart from claiming it ([`crate::ClaimError`]).

use headrace_kv::{CommitSeq, KvError};
use headrace_store::StoreError;

use crate::ownership::FencedReason;
use crate::restore::RestoreError;

/// Why something about the log failed.
#[derive(Debug, thiserror::Error)]
pub enum MetalogError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] KvError),
    /// An object of the log is not what was written there.
    #[error("{key}: {detail}")]
    Damaged {
        /// The object's key.
        key: String,
        /// What is wrong with it.
        detail: String,
    },
    /// Something cannot be put into an object.
    #[error("{key}: cannot be written: {detail}")]
    Unwritable {
        /// The object's key.
        key: String,
        /// Why not.
        detail: String,
    },
    /// The local engine's log does not go on where the log in the bucket ends.
    #[error(
        "the metadata on this machine (its log begins after transaction {}, it ends with {}) does not go on where the log in the \
         store ends (transaction {})",
        .local.0, .durable.0, .log.0
    )]
    NotContinuous {
        /// Where the local engine's log begins.
        local: CommitSeq,
        /// Where it ends.
        durable: CommitSeq,
        /// Where the log in the bucket ends.
        log: CommitSeq,
    },
    /// The metadata cannot be had from the bucket.
    #[error(transparent)]
    Restore(#[from] RestoreError),
    /// Somebody else has taken the volume over.
    #[error(transparent)]
    Fenced(#[from] FencedReason),
}

impl MetalogError {
    /// [`MetalogError::Damaged`] for the object under `key`.
    pub fn damaged(key: impl ToString, detail: impl Into<String>) -> MetalogError {
        MetalogError::Damaged { key: key.to_string(), detail: detail.into() }
    }
}
