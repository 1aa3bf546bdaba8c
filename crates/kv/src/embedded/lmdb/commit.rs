//! Group commits: changes, their log entry, the digest and the position in one transaction of LMDB.

use std::ops::Bound;

use heed::types::Bytes;
use heed::{Database, PutFlags, RwTxn};

use super::super::backlog::GroupFigures;
use super::super::directory::Directory;
use super::super::memtable::Memtable;
use super::super::record;
use super::super::state::{Digest, State};
use super::Lmdb;
use super::faults::{Fault, classify};
use super::layout::{LOG_HEAD_BYTES, STATE_KEY};
use crate::CommitSeq;
use crate::log::encode_changes_into;

/// What one commit writes.
pub(in super::super) struct Batch<'b> {
    pub(in super::super) table: &'b Memtable,
    pub(in super::super) upto: CommitSeq,
    /// Also write the changes to the log.
    pub(in super::super) log: Option<LogEntry>,
    /// Groups of the log that end here or before are removed.
    pub(in super::super) trim: CommitSeq,
    /// Every key comes after all that are stored: pages are filled to the brim.
    pub(in super::super) append: bool,
}

/// What the log says of a group besides its changes.
#[derive(Clone, Copy)]
pub(in super::super) struct LogEntry {
    pub(in super::super) after: CommitSeq,
    pub(in super::super) at_ms: u64,
}

enum Failure {
    Lmdb(heed::Error),
    Damaged(String),
}

impl From<heed::Error> for Failure {
    fn from(e: heed::Error) -> Self {
        Failure::Lmdb(e)
    }
}

impl Lmdb {
    /// Writes `batch` as one durable transaction: when this returns, all of it is on disk. Returns the figures of the
    /// group in the log.
    pub(in super::super) fn commit(
        &self,
        batch: &Batch<'_>,
        directory: &Directory,
    ) -> Result<Option<GroupFigures>, Fault> {
        let mut state = self.state.lock();
        let (next, logged) = self.write(batch, state.digest).map_err(|failure| match failure {
            Failure::Damaged(detail) => Fault::Corrupt(detail),
            Failure::Lmdb(e) => {
                // Copied pages may be far more than the entries, but a page each is enough to tell full from broken.
                classify(&e, || directory.has_room(batch.table.bytes().saturating_mul(2).max(1 << 20)))
            }
        })?;
        *state = next;
        self.witness.note(next.lmdb_txn);
        self.tables.mapping.look();
        Ok(logged)
    }

    fn write(&self, batch: &Batch<'_>, mut digest: Digest) -> Result<(State, Option<GroupFigures>), Failure> {
        let mut txn = self.env.write_txn()?;
        let flags = if batch.append { PutFlags::APPEND } else { PutFlags::empty() };
        let mut stored = Vec::new();
        for (key, value) in batch.table.iter() {
            match value {
                Some(value) => {
                    stored.clear();
                    stored.extend_from_slice(value);
                    digest.add(record::seal(key, &mut stored));
                    let old = self.tables.data.get_or_put_with_flags(&mut txn, flags, key, &stored)?;
                    if let Some(old) = old {
                        digest.remove(self.stated(key, old)?);
                        self.tables.data.put(&mut txn, key, &stored)?;
                    }
                }
                None => {
                    if let Some(old) = self.tables.data.get(&txn, key)? {
                        digest.remove(self.stated(key, old)?);
                        self.tables.data.delete(&mut txn, key)?;
                    }
                }
            }
        }
        if batch.trim > CommitSeq(0) {
            let last = batch.trim.0.to_be_bytes();
            let range: (Bound<&[u8]>, Bound<&[u8]>) = (Bound::Unbounded, Bound::Included(&last));
            self.tables.log.delete_range(&mut txn, &range)?;
        }
        let logged = batch.log.map(|entry| self.write_log(&mut txn, batch, entry)).transpose()?;
        let state = State { position: batch.upto, lmdb_txn: txn.id() as u64, digest };
        put_state(&mut txn, &self.tables.engine, &state)?;
        txn.commit()?;
        Ok((state, logged))
    }

    fn write_log(
        &self,
        txn: &mut RwTxn<'_>,
        batch: &Batch<'_>,
        entry: LogEntry,
    ) -> Result<GroupFigures, heed::Error> {
        let key = batch.upto.0.to_be_bytes();
        let table = batch.table;
        let room = usize::try_from(table.bytes()).unwrap_or(0);
        let mut stored = Vec::with_capacity(room.saturating_add(64));
        stored.extend_from_slice(&entry.at_ms.to_be_bytes());
        stored.extend_from_slice(&entry.after.0.to_be_bytes());
        encode_changes_into(&mut stored, table.iter());
        let bytes = (stored.len() - LOG_HEAD_BYTES) as u64;
        record::seal(&key, &mut stored);
        // Always the last one.
        self.tables.log.put_with_flags(txn, PutFlags::APPEND, &key, &stored)?;
        Ok(GroupFigures { after: entry.after, upto: batch.upto, at_ms: entry.at_ms, bytes })
    }

    /// The checksum of a record that is about to go.
    fn stated(&self, key: &[u8], stored: &[u8]) -> Result<u64, Failure> {
        let readable = self.tables.mapping.covers_in_write(stored, self.tables.page);
        readable.then(|| record::stated(stored)).flatten().ok_or_else(|| {
            let key = key.escape_ascii();
            Failure::Damaged(format!("{}: the record {key} has an impossible length", self.tables.path))
        })
    }
}

/// Writes the record about the whole.
pub(super) fn put_state(
    txn: &mut RwTxn<'_>,
    engine: &Database<'_, Bytes, Bytes>,
    state: &State,
) -> Result<(), heed::Error> {
    let mut stored = state.encode().to_vec();
    record::seal(STATE_KEY, &mut stored);
    engine.put(txn, STATE_KEY, &stored)
}
