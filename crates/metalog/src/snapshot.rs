//! Snapshots: when one is taken, and writing it.

mod policy;
mod write;

pub(crate) use policy::Gathered;
pub use policy::SnapshotPolicy;
pub(crate) use write::{complete, on_thread, on_thread_kv, write_parts};
