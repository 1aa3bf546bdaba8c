//! The layer on disk: one LMDB environment, its read transactions, and group commits into it.

use std::ops::Bound;
use std::os::unix::fs::MetadataExt as _;

use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvOpenOptions, MdbError, RoTxn, WithoutTls};
use parking_lot::Mutex;
use rustix::io::Errno;

use super::directory::{Directory, is_no_space};
use super::memtable::Memtable;
use super::merge::{Direction, Source};
use crate::{CommitSeq, KvError};

type Table = Database<'static, Bytes, Bytes>;

/// Read transactions open at once, at most: one for each thread that is inside a view. A slot takes 64 bytes.
const MAX_READERS: u32 = 4096;
/// Read transactions kept for reuse.
const MAX_IDLE: usize = 64;
/// Least address space to fall back to where the process may not have what was asked for.
const MIN_MAP: u64 = 1 << 30;

/// Key in the engine's own table: the newest committed position, u64 big-endian.
const POSITION: &[u8] = b"position";

/// Why a commit failed. Nothing of it is in the database.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The disk is full.
    Full(String),
    /// The mapping is too small.
    MapFull,
    /// LMDB gave up on this environment; a fresh one may do.
    Unusable(String),
    /// A write failed although there is room. It may have been cut short by a full disk that was given room since.
    Write(String),
    /// Anything else.
    Io(String),
}

pub(super) struct Lmdb {
    /// Open transactions of the newest snapshot, not in use. See [`Lmdb::forget_snapshots`].
    idle: Mutex<Vec<RoTxn<'static, WithoutTls>>>,
    data: Table,
    engine: Table,
    env: Env<WithoutTls>,
    path: String,
}

impl Lmdb {
    /// Opens the environment in `directory`, creating it if need be.
    pub(super) fn open(directory: &Directory, map_size: u64) -> Result<Lmdb, KvError> {
        let dir = directory.path();
        directory.reserve_reader_table(64 * (u64::from(MAX_READERS) + 16))?;
        let env = map_environment(directory, map_size)?;
        let info = env.info();
        let page = u64::from(env.unnamed_database_stat().page_size);
        directory.cover((info.last_page_number as u64).saturating_add(1).saturating_mul(page))?;
        let (data, engine) = env
            .write_txn()
            .and_then(|txn| {
                env.create_databases_and_commit(txn, |opener, txn| {
                    let data = opener.create_database::<Bytes, Bytes>(txn, Some("data"))?;
                    let engine = opener.create_database::<Bytes, Bytes>(txn, Some("engine"))?;
                    Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit((data, engine)))
                })
            })
            .and_then(|done| done.commit().ok_or(heed::Error::Mdb(MdbError::Problem)))
            .map_err(|e| open_error(directory, &e))?;
        directory.sync().map_err(|e| open_error(directory, &heed::Error::Io(e)))?;
        Ok(Lmdb { idle: Mutex::new(Vec::new()), data, engine, env, path: dir.display().to_string() })
    }

    /// The newest position on disk.
    pub(super) fn position(&self) -> Result<CommitSeq, KvError> {
        let read = || -> Result<Option<Vec<u8>>, heed::Error> {
            let txn = self.env.read_txn()?;
            Ok(self.engine.get(&txn, POSITION)?.map(<[u8]>::to_vec))
        };
        let Some(bytes) = read().map_err(|e| self.read_error(&e))? else {
            return Ok(CommitSeq(0));
        };
        let bytes = <[u8; 8]>::try_from(&bytes[..]).map_err(|_| {
            KvError::Corrupt(format!("{}: the position is {} bytes, not 8", self.path, bytes.len()))
        })?;
        Ok(CommitSeq(u64::from_be_bytes(bytes)))
    }

    /// Address space reserved for the data, in bytes.
    pub(super) fn map_size(&self) -> u64 {
        self.env.info().map_size as u64
    }

    /// Bytes on disk.
    pub(super) fn disk_bytes(&self) -> u64 {
        let file = self.env.try_clone_inner_file().and_then(|f| Ok(f.metadata()?));
        file.map_or(0, |m| m.blocks().saturating_mul(512))
    }

    /// Writes `table` as one durable transaction: when this returns, both it and `upto` are on disk.
    pub(super) fn commit(
        &self,
        table: &Memtable,
        upto: CommitSeq,
        directory: &Directory,
    ) -> Result<(), Fault> {
        let write = || -> Result<(), heed::Error> {
            let mut txn = self.env.write_txn()?;
            for (key, value) in table.iter() {
                match value {
                    Some(value) => self.data.put(&mut txn, key, value)?,
                    None => drop(self.data.delete(&mut txn, key)?),
                }
            }
            self.engine.put(&mut txn, POSITION, &upto.0.to_be_bytes())?;
            txn.commit()
        };
        write().map_err(|e| {
            // Copied pages may be far more than the entries, but a page each is enough to tell full from broken.
            classify(&e, || directory.has_room(table.bytes().saturating_mul(2).max(1 << 20)))
        })
    }

    /// A read transaction on the newest snapshot, or on one that differs from it only by what is in the frozen memtable.
    pub(super) fn snapshot(&self) -> Result<Snapshot<'_>, KvError> {
        let idle = self.idle.lock().pop();
        let txn = match idle {
            Some(txn) => txn,
            None => self.env.clone().static_read_txn().map_err(|e| self.read_error(&e))?,
        };
        Ok(Snapshot { txn: Some(txn), owner: self })
    }

    /// Ends the idle transactions, so that later views see the newest commit. The caller holds the layers' write lock:
    /// every transaction is idle then.
    pub(super) fn forget_snapshots(&self) {
        let idle = std::mem::take(&mut *self.idle.lock());
        drop(idle);
    }

    pub(super) fn read_error(&self, e: &heed::Error) -> KvError {
        if is_corruption(e) {
            KvError::Corrupt(format!("{}: {e}", self.path))
        } else {
            KvError::Io { path: self.path.clone(), detail: format!("read failed: {e}") }
        }
    }
}

/// A borrowed read transaction; goes back to the idle ones.
pub(super) struct Snapshot<'l> {
    txn: Option<RoTxn<'static, WithoutTls>>,
    owner: &'l Lmdb,
}

impl Snapshot<'_> {
    pub(super) fn get(&self, key: &[u8]) -> Result<Option<&[u8]>, heed::Error> {
        match &self.txn {
            Some(txn) => self.owner.data.get(txn, key),
            None => Ok(None),
        }
    }

    /// The stored entries in `[start, end)`.
    pub(super) fn range(
        &self,
        start: &[u8],
        end: &[u8],
        direction: Direction,
    ) -> Result<Option<Source<'_>>, heed::Error> {
        let Some(txn) = &self.txn else { return Ok(None) };
        // LMDB cannot seek to an empty key.
        let from = if start.is_empty() { Bound::Unbounded } else { Bound::Included(start) };
        let range = (from, Bound::Excluded(end));
        Ok(Some(match direction {
            Direction::Forward => Source::Disk(self.owner.data.range(txn, &range)?),
            Direction::Reverse => Source::DiskReverse(self.owner.data.rev_range(txn, &range)?),
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

/// Maps the environment, with less address space where the process may not have that much.
fn map_environment(directory: &Directory, map_size: u64) -> Result<Env<WithoutTls>, KvError> {
    let page = rustix::param::page_size() as u64;
    let mut bytes = map_size.max(64 * page).next_multiple_of(page);
    loop {
        let size = usize::try_from(bytes).unwrap_or(usize::MAX - (usize::MAX % page as usize));
        let mut options = EnvOpenOptions::new().read_txn_without_tls();
        options.map_size(size).max_readers(MAX_READERS).max_dbs(2);
        // SAFETY: the file must not change under the mapping other than through LMDB. The directory is private to this
        // user (0700, no symbolic link) and locked by the `Directory` for as long as the environment is open; no flag
        // that weakens LMDB's guarantees is set.
        #[allow(unsafe_code)]
        let opened = unsafe { options.open(directory.path()) };
        match opened {
            Err(heed::Error::Io(e))
                if e.raw_os_error() == Some(Errno::NOMEM.raw_os_error()) && bytes / 2 >= MIN_MAP =>
            {
                bytes = (bytes / 2).next_multiple_of(page);
            }
            other => return other.map_err(|e| open_error(directory, &e)),
        }
    }
}

fn open_error(directory: &Directory, e: &heed::Error) -> KvError {
    let path = directory.path().display().to_string();
    if let Fault::Full(detail) = classify(e, || directory.has_room(1 << 20)) {
        return KvError::Full { path, detail: format!("cannot open: {detail}") };
    }
    match e {
        heed::Error::EnvAlreadyOpened => {
            KvError::Io { path, detail: "already open in this process; only one engine may use it".into() }
        }
        heed::Error::Mdb(MdbError::VersionMismatch) => {
            KvError::Io { path, detail: "data.mdb was written by another version of LMDB".into() }
        }
        e if is_corruption(e) => KvError::Corrupt(format!("{path}: data.mdb: {e}")),
        e => KvError::Io { path, detail: format!("cannot open: {e}") },
    }
}

fn is_corruption(e: &heed::Error) -> bool {
    use MdbError::{Corrupted, Incompatible, Invalid, PageNotFound};
    matches!(e, heed::Error::Mdb(Corrupted | PageNotFound | Invalid | Incompatible))
}

/// What a failed commit means. LMDB reports a write that was cut short, as a nearly full disk does, as an I/O error:
/// `has_room` tells the two apart.
fn classify(e: &heed::Error, has_room: impl FnOnce() -> bool) -> Fault {
    match e {
        heed::Error::Io(io) if is_no_space(io) => Fault::Full(io.to_string()),
        heed::Error::Io(io) if io.raw_os_error() == Some(Errno::IO.raw_os_error()) => {
            if has_room() {
                Fault::Write(io.to_string())
            } else {
                Fault::Full("write cut short".into())
            }
        }
        heed::Error::Mdb(MdbError::MapFull) => Fault::MapFull,
        heed::Error::Mdb(MdbError::Panic) => Fault::Unusable(e.to_string()),
        e => Fault::Io(e.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    fn os(errno: Errno) -> heed::Error {
        heed::Error::Io(io::Error::from_raw_os_error(errno.raw_os_error()))
    }

    #[test]
    fn a_full_disk_is_told_from_a_broken_one() {
        assert!(matches!(classify(&os(Errno::NOSPC), || true), Fault::Full(_)));
        assert!(matches!(classify(&os(Errno::DQUOT), || true), Fault::Full(_)));
        assert!(matches!(classify(&os(Errno::IO), || false), Fault::Full(_)));
        assert!(matches!(classify(&os(Errno::IO), || true), Fault::Write(_)));
        assert!(matches!(classify(&os(Errno::ROFS), || false), Fault::Io(_)));
        assert_eq!(classify(&heed::Error::Mdb(MdbError::MapFull), || true), Fault::MapFull);
    }
}
