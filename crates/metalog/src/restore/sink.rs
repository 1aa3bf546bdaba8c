//! Where restored records go.

use headrace_kv::embedded::Loader;
use headrace_kv::log::{Changes, LogGroup};
use headrace_kv::{CommitSeq, KvError};

/// Takes a snapshot's records in key order, then groups in the log's order.
pub trait Sink: Send + Sized + 'static {
    /// Whether the snapshot's records are of interest; if not they are not read.
    const RECORDS: bool = true;
    /// A record of the snapshot.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), KvError>;
    /// The next group.
    fn apply(&mut self, group: &LogGroup) -> Result<(), KvError>;
    /// Nothing more comes; the state is at `position`.
    fn finish(self, position: CommitSeq) -> Result<(), KvError>;
}

impl Sink for Loader {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), KvError> {
        Loader::put(self, key, value)
    }

    fn apply(&mut self, group: &LogGroup) -> Result<(), KvError> {
        Loader::apply(self, group)
    }

    fn finish(self, position: CommitSeq) -> Result<(), KvError> {
        Loader::finish(self, position)
    }
}

/// Keeps nothing.
pub(super) struct Nowhere;

impl Sink for Nowhere {
    fn put(&mut self, _: &[u8], _: &[u8]) -> Result<(), KvError> {
        Ok(())
    }

    fn apply(&mut self, group: &LogGroup) -> Result<(), KvError> {
        Changes::new(&group.changes)?.iter().try_for_each(|entry| entry.map(drop))
    }

    fn finish(self, _: CommitSeq) -> Result<(), KvError> {
        Ok(())
    }
}

/// Keeps nothing, and asks for no records.
pub(super) struct Positions;

impl Sink for Positions {
    const RECORDS: bool = false;

    fn put(&mut self, _: &[u8], _: &[u8]) -> Result<(), KvError> {
        Ok(())
    }

    fn apply(&mut self, _: &LogGroup) -> Result<(), KvError> {
        Ok(())
    }

    fn finish(self, _: CommitSeq) -> Result<(), KvError> {
        Ok(())
    }
}
