//! Ordered, transactional key-value storage: the trait every metadata engine implements, and the embedded engine.
//!
//! [`Engine`] is what an engine provides; [`EngineExt`] is what callers use: the same operations, carrying the
//! caller's own result and error types. [`embedded`] is the engine that needs no server.

pub mod embedded;
mod engine;
mod error;
mod ext;
pub mod log;
mod range;

pub use engine::{CommitSeq, Engine, EngineStats, Read, Stop, Txn, Visit};
pub use error::KvError;
pub use ext::EngineExt;
pub use range::prefix_end;

/// Longest key an engine accepts, in bytes. Keys are not empty.
pub const MAX_KEY_BYTES: usize = 511;

/// Longest value an engine accepts, in bytes.
pub const MAX_VALUE_BYTES: usize = 64 << 20;
