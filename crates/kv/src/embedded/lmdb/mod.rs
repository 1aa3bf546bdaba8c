//! The layer on disk: one LMDB environment, its read transactions, and group commits into it.
//!
//! Three tables: `data` holds the records, `log` the groups that were committed (by the big-endian number of their last
//! transaction), `engine` one record about the whole. What is stored under a key anywhere is a value and its checksum
//! ([`super::record`]), looked at whenever it is read.

mod commit;
mod descriptors;
mod environment;
mod faults;
pub(super) mod layout;
mod mapping;
mod reader;
mod resident;
mod tables;

use std::fs::File;
use std::ops::Bound;
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Arc, Weak};

use heed::{Env, RoTxn, WithoutTls};
use parking_lot::Mutex;

pub(super) use self::commit::{Batch, LogEntry};
pub(super) use self::environment::Check;
pub(super) use self::faults::Fault;
pub(super) use self::reader::Reader;
pub(super) use self::tables::Tables;
use super::backlog::GroupFigures;
use super::merge::{Direction, Source};
use super::state::State;
use super::witness::Witness;
use crate::KvError;

/// Read transactions open at once, at most: one for each thread that is inside a view. A slot takes 64 bytes.
const MAX_READERS: u32 = 4096;
/// Read transactions kept for reuse.
const MAX_IDLE: usize = 64;

pub(super) struct Lmdb {
    /// Open transactions of the newest snapshot, not in use. See [`Lmdb::forget_snapshots`].
    idle: Mutex<Vec<RoTxn<'static, WithoutTls>>>,
    /// Read transactions of those who keep one for long.
    readers: Mutex<Vec<Weak<Reader>>>,
    tables: Arc<Tables>,
    /// The contents' digest on disk: changed by commits only, of which one runs at a time.
    state: Mutex<State>,
    env: Env<WithoutTls>,
    /// The data file, to look at it beside the mapping.
    file: Arc<File>,
    /// Remembers the newest commit beside it.
    witness: Witness,
    /// Whether everything in it was looked at when it was opened.
    verified: bool,
}

impl Lmdb {
    /// What the newest commit says of the whole.
    pub(super) fn state(&self) -> State {
        *self.state.lock()
    }

    /// Whether everything in it was verified when it was opened.
    pub(super) fn verified(&self) -> bool {
        self.verified
    }

    /// How much of the data may stay mapped, in bytes.
    pub(super) fn limit_mapped(&self, bytes: u64) {
        self.tables.resident.limit(bytes);
    }

    /// Address space reserved for the data, in bytes.
    pub(super) fn map_size(&self) -> u64 {
        self.env.info().map_size as u64
    }

    /// Bytes on disk.
    pub(super) fn disk_bytes(&self) -> u64 {
        self.file.metadata().map_or(0, |m| m.blocks().saturating_mul(512))
    }

    /// The data file, for reading.
    pub(super) fn file(&self) -> Arc<File> {
        self.file.clone()
    }

    /// The figures of the groups in the log. Reads a page of each.
    pub(super) fn log_figures(&self) -> Result<Vec<GroupFigures>, KvError> {
        let txn = self.env.read_txn().map_err(|e| self.tables.read_error(&e))?;
        self.tables.log_figures(&txn)
    }

    /// A read transaction on the newest snapshot, or on one that differs from it only by what is in the frozen memtable.
    pub(super) fn snapshot(&self) -> Result<Snapshot<'_>, KvError> {
        let idle = self.idle.lock().pop();
        let txn = match idle {
            Some(txn) => txn,
            None => self.read_txn()?,
        };
        Ok(Snapshot { txn: Some(txn), owner: self })
    }

    /// A read transaction on what is durable, to be kept for long.
    pub(super) fn reader(&self) -> Result<Arc<Reader>, KvError> {
        let reader = Arc::new(Reader::new(self.read_txn()?, self.tables.clone()));
        let mut readers = self.readers.lock();
        readers.retain(|r| r.strong_count() > 0);
        readers.push(Arc::downgrade(&reader));
        Ok(reader)
    }

    /// Ends the idle transactions, so that later views see the newest commit. The caller holds the layers' write lock:
    /// every transaction is idle then.
    pub(super) fn forget_snapshots(&self) {
        let idle = std::mem::take(&mut *self.idle.lock());
        drop(idle);
    }

    /// Ends the transactions that are kept for long too, each once its owner is done with the call that runs. They fail with
    /// `why` from now on. The environment can be closed then.
    pub(super) fn revoke_readers(&self, why: &KvError) {
        let readers = std::mem::take(&mut *self.readers.lock());
        for reader in readers.iter().filter_map(Weak::upgrade) {
            reader.revoke(why.clone());
        }
    }

    fn read_txn(&self) -> Result<RoTxn<'static, WithoutTls>, KvError> {
        self.env.clone().static_read_txn().map_err(|e| self.tables.read_error(&e))
    }
}

/// A borrowed read transaction; goes back to the idle ones.
pub(super) struct Snapshot<'l> {
    txn: Option<RoTxn<'static, WithoutTls>>,
    owner: &'l Lmdb,
}

impl Snapshot<'_> {
    pub(super) fn get(&self, key: &[u8]) -> Result<Option<&[u8]>, KvError> {
        match &self.txn {
            Some(txn) => self.owner.tables.get(txn, key),
            None => Ok(None),
        }
    }

    /// The stored entries in `[start, end)`.
    pub(super) fn range(
        &self,
        start: &[u8],
        end: &[u8],
        direction: Direction,
    ) -> Result<Option<Source<'_>>, KvError> {
        let Some(txn) = &self.txn else { return Ok(None) };
        // LMDB cannot seek to an empty key.
        let from = if start.is_empty() { Bound::Unbounded } else { Bound::Included(start) };
        let range = (from, Bound::Excluded(end));
        let tables = &*self.owner.tables;
        Ok(Some(match direction {
            Direction::Forward => Source::Disk(tables.range(txn, &range)?, tables),
            Direction::Reverse => Source::DiskReverse(tables.rev_range(txn, &range)?, tables),
        }))
    }
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        if let Some(txn) = self.txn.take() {
            let mut idle = self.owner.idle.lock();
            if idle.len() < MAX_IDLE {
                idle.push(txn);
            }
        }
    }
}
