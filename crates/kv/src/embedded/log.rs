//! The engine's log as callers see it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::EmbeddedEngine;
use super::lmdb::Reader;
use super::pages::{DataFile, Outcome, verify};
use super::snapshot::EngineSnapshot;
use crate::log::{LogBacklog, LogGroup};
use crate::{CommitSeq, KvError};

impl EmbeddedEngine {
    /// The newest position on disk.
    pub fn durable_position(&self) -> CommitSeq {
        CommitSeq(self.shared.durable.load(Ordering::Acquire))
    }

    /// The position before the first group of the log; without any, the durable position.
    pub fn log_base(&self) -> CommitSeq {
        let durable = self.durable_position();
        self.shared.backlog.lock().base().unwrap_or(durable)
    }

    /// What the log holds. Costs nothing.
    pub fn log_backlog(&self) -> LogBacklog {
        self.shared.backlog.lock().figures()
    }

    /// Groups after `after`, in order and without a gap between them, up to about `max_bytes` of changes; at least one if
    /// there is any. The first one's `after` is less than `after` if that is in the middle of a group, and greater if
    /// what follows `after` was trimmed: the caller checks.
    ///
    /// # Errors
    /// [`KvError::Corrupt`] if a stored group is damaged.
    pub fn log_after(&self, after: CommitSeq, max_bytes: u64) -> Result<Vec<LogGroup>, KvError> {
        self.reader()?.log_after(after, max_bytes)
    }

    /// Gives up the groups up to `upto`: those that end there or before. They leave the figures at once and the disk with
    /// the next commit; after a crash in between they are in the log again.
    pub fn trim_log(&self, upto: CommitSeq) {
        self.shared.backlog.lock().trim(upto);
    }

    /// Calls `told` after every commit with the position that is now durable, from the committer's thread, which waits for
    /// it: it must be short. It must not start a view or transaction on this engine.
    pub fn on_durable(&self, told: Box<dyn Fn(CommitSeq) + Send + Sync>) {
        self.shared.listeners.lock().push(Arc::from(told));
    }

    /// A view of what is durable that may be kept for long.
    pub fn snapshot(&self) -> Result<EngineSnapshot, KvError> {
        EngineSnapshot::new(self.reader()?)
    }

    /// Reads everything on disk as of now and compares it with the checksums: of each record, and of all of them. Beside it
    /// everything else goes on. `progress` is called now and then with the pages done and their number.
    ///
    /// # Errors
    /// [`KvError::Corrupt`] says what is damaged.
    pub fn verify(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<(), KvError> {
        // A commit may replace the header before it was read; hardly ever twice.
        for _ in 0..1000 {
            let (reader, file) = {
                let layers = self.shared.layers.read();
                let store = layers.store.as_ref().ok_or(KvError::Closed)?;
                (store.reader()?, store.file())
            };
            let path = self.shared.directory.data_file().display().to_string();
            // The reader keeps the pages; the file is read beside LMDB, which must not see a damaged page.
            match verify(&DataFile::new(&file, &path), Some(reader.lmdb_txn()?), progress)? {
                Outcome::Sound => return Ok(()),
                Outcome::Superseded => {}
            }
        }
        Err(KvError::Io {
            path: self.shared.path.clone(),
            detail: "cannot verify: commits come too fast to read a header in between".into(),
        })
    }

    /// Whether opening has done what [`EmbeddedEngine::verify`] does, as it does while the data file is small.
    pub fn verified_at_open(&self) -> bool {
        self.verified
    }

    fn reader(&self) -> Result<Arc<Reader>, KvError> {
        let layers = self.shared.layers.read();
        layers.store.as_ref().ok_or(KvError::Closed)?.reader()
    }
}
