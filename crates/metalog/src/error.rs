//! What can go wrong with the log, apart from claiming it ([`crate::ClaimError`]).

use headrace_kv::KvError;
use headrace_store::StoreError;

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
}

impl MetalogError {
    /// [`MetalogError::Damaged`] for the object under `key`.
    pub fn damaged(key: impl ToString, detail: impl Into<String>) -> MetalogError {
        MetalogError::Damaged { key: key.to_string(), detail: detail.into() }
    }
}
