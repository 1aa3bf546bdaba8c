//! Limits of the embedded engine.

use std::time::Duration;

/// Limits of [`super::EmbeddedEngine`]. The defaults suit a mounted volume; tests shrink them.
#[derive(Clone, Debug)]
pub struct EmbeddedOptions {
    /// Bytes of address space reserved for the data file; disk and memory are used only as data needs them. Grows by
    /// itself when reached, which stops readers for a moment.
    pub map_size: u64,
    /// Buffered bytes that start a commit although nobody waits for one.
    pub freeze_bytes: u64,
    /// Age of the oldest buffered transaction that starts a commit although nobody waits for one: what a crash can
    /// take from a caller that never asked for durability.
    pub freeze_age: Duration,
    /// Bytes committed but not yet durable, at most. Writers wait at this bound, or get
    /// [`KvError::Full`](crate::KvError::Full) while the disk is full.
    pub max_pending_bytes: u64,
    /// Bytes that become durable together, at most, unless one transaction is larger. Writers wait at this bound too. It
    /// also bounds a group of the log, which has the same keys and values and less around them.
    pub max_group_bytes: u64,
    /// Keys that become durable together, at most, unless one transaction has more. LMDB keeps every page that a commit
    /// changes in memory, and keeps that memory for the next commit: up to a page for each key. Half as many start a commit.
    pub max_group_keys: u64,
    /// Bytes of the data file that stay mapped, at most, roughly. What is beyond is unmapped: it stays in the system's page
    /// cache, but no longer counts as this process's memory.
    pub max_mapped_bytes: u64,
    /// Bytes one transaction may buffer: keys, values and 64 bytes for each key.
    pub max_transaction_bytes: u64,
    /// Whether every commit also writes its changes to the engine's log, where they stay until
    /// [`trim_log`](super::EmbeddedEngine::trim_log). A log that holds groups already is continued either way.
    pub log: bool,
    /// Bytes of data file up to which opening does all that [`verify`](super::EmbeddedEngine::verify) does, which takes
    /// about a millisecond each MiB. Of a larger one only the way to the engine's own record is looked at.
    pub verify_bytes: u64,
}

impl Default for EmbeddedOptions {
    fn default() -> Self {
        EmbeddedOptions {
            map_size: 1 << 40,
            freeze_bytes: 16 << 20,
            freeze_age: Duration::from_secs(1),
            max_pending_bytes: 128 << 20,
            max_group_bytes: 64 << 20,
            max_group_keys: 1 << 17,
            max_mapped_bytes: 64 << 20,
            // One value of the greatest length, and what is written along with it.
            max_transaction_bytes: (64 << 20) + (1 << 20),
            log: false,
            verify_bytes: 64 << 20,
        }
    }
}
