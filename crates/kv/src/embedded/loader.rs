//! Builds an engine's directory from a snapshot and a log.

use std::path::Path;

use super::directory::{Directory, Purpose};
use super::lmdb::{Batch, Check, Fault, Lmdb};
use super::memtable::Memtable;
use super::options::EmbeddedOptions;
use crate::log::{Changes, LogGroup};
use crate::{CommitSeq, KvError, MAX_KEY_BYTES, MAX_VALUE_BYTES};

/// Memory at which entries go to disk.
const STEP_BYTES: u64 = 16 << 20;

/// Fills a new engine directory. Until [`Loader::finish`] the directory is marked as unfinished: no engine opens it, and
/// another loader starts it anew. Memory stays bounded: entries are committed in steps.
pub struct Loader {
    store: Lmdb,
    directory: Directory,
    pending: Memtable,
    /// Of the newest entry of the snapshot.
    last_key: Vec<u8>,
    /// The newest group's position, once there was one.
    applied: Option<CommitSeq>,
}

impl Loader {
    /// Begins in `dir`, which is created if it is missing.
    ///
    /// # Errors
    /// [`KvError::Io`] if there is a finished engine in it already, or for the reasons of
    /// [`EmbeddedEngine::open`](super::EmbeddedEngine::open).
    pub fn create(dir: &Path) -> Result<Loader, KvError> {
        let directory = Directory::open(dir, Purpose::Load)?;
        let store = Lmdb::open(&directory, EmbeddedOptions::default().map_size, Check::Nothing)?;
        Ok(Loader { store, directory, pending: Memtable::default(), last_key: Vec::new(), applied: None })
    }

    /// Adds an entry of a snapshot. Keys come in ascending order, and all of them before the first group.
    ///
    /// # Errors
    /// [`KvError::Limit`] if the key is out of order or breaks a limit.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), KvError> {
        let refuse =
            |what: &str| Err(KvError::Limit(format!("the snapshot's key {}: {what}", key.escape_ascii())));
        if self.applied.is_some() {
            return refuse("it comes after a group of the log");
        }
        if key <= &self.last_key[..] {
            return refuse("it is out of order");
        }
        if key.len() > MAX_KEY_BYTES || value.len() > MAX_VALUE_BYTES {
            return refuse("it or its value is too long");
        }
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        self.pending.set(key, Some(value));
        if self.pending.bytes() >= STEP_BYTES { self.write(CommitSeq(0)) } else { Ok(()) }
    }

    /// Applies a group of the log to what is there. Each group's `after` is the `upto` of the one before.
    ///
    /// # Errors
    /// [`KvError::Corrupt`] if the group does not follow the one before, or its changes are damaged: this loader is of no
    /// use any more then.
    pub fn apply(&mut self, group: &LogGroup) -> Result<(), KvError> {
        let (after, upto) = (group.after, group.upto);
        if after >= upto || self.applied.is_some_and(|applied| applied != after) {
            return Err(KvError::Corrupt(format!(
                "the group of the log from {} to {} does not follow {}",
                after.0,
                upto.0,
                self.applied.unwrap_or_default().0
            )));
        }
        if self.applied.is_none() {
            self.write(CommitSeq(0))?;
        }
        for change in Changes::new(&group.changes)? {
            let (key, value) = change?;
            self.pending.set(key, value);
        }
        self.applied = Some(upto);
        if self.pending.bytes() >= STEP_BYTES { self.write(upto) } else { Ok(()) }
    }

    /// Makes everything durable at `position`, that of the last group if there was one, and marks the directory finished.
    ///
    /// # Errors
    /// [`KvError::Corrupt`] if the groups end at another position.
    pub fn finish(mut self, position: CommitSeq) -> Result<(), KvError> {
        if let Some(applied) = self.applied
            && applied != position
        {
            return Err(KvError::Corrupt(format!(
                "the log ends at {}, it should end at {}",
                applied.0, position.0
            )));
        }
        self.write(position)?;
        self.directory.finish_creation()
    }

    /// Commits what is pending.
    fn write(&mut self, upto: CommitSeq) -> Result<(), KvError> {
        let table = std::mem::take(&mut self.pending);
        let batch =
            Batch { table: &table, upto, log: None, trim: CommitSeq(0), append: self.applied.is_none() };
        let path = self.directory.path().display().to_string();
        match self.store.commit(&batch, &self.directory) {
            Ok(_) => Ok(()),
            Err(Fault::Full(detail)) => Err(KvError::Full { path, detail }),
            Err(Fault::Corrupt(detail)) => Err(KvError::Corrupt(detail)),
            Err(Fault::MapFull) => Err(KvError::Io {
                path,
                detail: "the address space this process may have is too small".into(),
            }),
            Err(Fault::Unusable(detail) | Fault::Write(detail) | Fault::Io(detail)) => {
                Err(KvError::Io { path, detail: format!("cannot write: {detail}") })
            }
        }
    }
}
