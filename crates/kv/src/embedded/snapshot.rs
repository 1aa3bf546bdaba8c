//! A view of what is durable that may be kept for long.

use std::sync::Arc;

use super::lmdb::Reader;
use crate::{CommitSeq, KvError, Visit};

/// The engine's durable contents at one position, for as long as this is kept.
///
/// It holds no lock of the engine: transactions and views go on beside it, and so do commits. What they replace stays on
/// disk until the snapshot is dropped, so the data file grows meanwhile. It may be used from any thread.
pub struct EngineSnapshot {
    reader: Arc<Reader>,
    position: CommitSeq,
    records: u64,
    bytes: u64,
}

impl EngineSnapshot {
    pub(super) fn new(reader: Arc<Reader>) -> Result<EngineSnapshot, KvError> {
        let state = reader.state()?;
        let bytes = reader.data_bytes()?;
        Ok(EngineSnapshot { position: state.position, records: state.digest.records, bytes, reader })
    }

    /// The position of the newest transaction in it.
    pub fn position(&self) -> CommitSeq {
        self.position
    }

    /// How many keys are in it.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// About how many bytes its keys and values are.
    pub fn bytes_hint(&self) -> u64 {
        self.bytes
    }

    /// Visits the entries after `after` (from the first one if `None`) in order until `visit` breaks. For work on each
    /// entry that takes long, collect some, break, and go on after the last one: the engine cannot be closed or enlarged
    /// while this runs.
    ///
    /// # Errors
    /// [`KvError::Closed`] once the engine was closed; [`KvError::Io`] if the snapshot had to be given up because the
    /// database outgrew its mapping: take a new one; [`KvError::Corrupt`] where stored bytes are damaged.
    pub fn scan(&self, after: Option<&[u8]>, visit: Visit<'_>) -> Result<(), KvError> {
        self.reader.scan(after, visit)
    }
}
