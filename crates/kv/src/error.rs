//! What can go wrong in an engine.

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
    /// A transaction asked for more than an engine accepts; nothing of it was written.
    #[error("metadata transaction refused: {0}")]
    Limit(String),
    /// Another owner has taken the volume over: this engine accepts no more changes, for good.
    #[error("metadata is no longer this process's to change: {detail}")]
    Fenced {
        /// Who took over, when, and how that was found out.
        detail: String,
    },
    /// The engine was closed.
    #[error("the metadata engine is closed")]
    Closed,
}
