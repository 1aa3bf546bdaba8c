//! A read transaction that is kept for long, and can be taken away: the environment has to be closed at times.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use heed::{RoTxn, WithoutTls};
use parking_lot::Mutex;

use super::super::state::State;
use super::tables::Tables;
use crate::log::LogGroup;
use crate::{CommitSeq, KvError, MAX_KEY_BYTES, Visit};

pub(in super::super) struct Reader {
    /// The transaction, or why there is none any more.
    txn: Mutex<Result<RoTxn<'static, WithoutTls>, KvError>>,
    tables: Arc<Tables>,
}

impl Reader {
    pub(super) fn new(txn: RoTxn<'static, WithoutTls>, tables: Arc<Tables>) -> Reader {
        Reader { txn: Mutex::new(Ok(txn)), tables }
    }

    /// Waits for the call that runs, then ends the transaction.
    pub(super) fn revoke(&self, why: KvError) {
        let mut txn = self.txn.lock();
        if txn.is_ok() {
            *txn = Err(why);
        }
    }

    fn with<T>(
        &self,
        f: impl FnOnce(&RoTxn<'static, WithoutTls>, &Tables) -> Result<T, KvError>,
    ) -> Result<T, KvError> {
        match &*self.txn.lock() {
            Ok(txn) => f(txn, &self.tables),
            Err(why) => Err(why.clone()),
        }
    }

    pub(in super::super) fn state(&self) -> Result<State, KvError> {
        self.with(|txn, tables| Ok(tables.state(txn)?.unwrap_or_default()))
    }

    /// LMDB's number of the transaction that wrote what this sees.
    pub(in super::super) fn lmdb_txn(&self) -> Result<u64, KvError> {
        self.with(|txn, _| Ok(txn.id() as u64))
    }

    pub(in super::super) fn data_bytes(&self) -> Result<u64, KvError> {
        self.with(|txn, tables| tables.data_bytes(txn))
    }

    pub(in super::super) fn log_after(
        &self,
        after: CommitSeq,
        max_bytes: u64,
    ) -> Result<Vec<LogGroup>, KvError> {
        self.with(|txn, tables| tables.log_after(txn, after, max_bytes))
    }

    /// Visits the records after `after` in order.
    pub(in super::super) fn scan(&self, after: Option<&[u8]>, visit: Visit<'_>) -> Result<(), KvError> {
        let from = match after {
            // LMDB cannot seek to an empty key, and no stored one is longer than the longest.
            Some([]) => Bound::Unbounded,
            Some(after) if after.len() > MAX_KEY_BYTES => {
                return Err(KvError::Limit(format!("a key of {} bytes", after.len())));
            }
            Some(after) => Bound::Excluded(after),
            None => Bound::Unbounded,
        };
        self.with(|txn, tables| {
            let mut walk = tables.range(txn, &(from, Bound::Unbounded))?;
            while let Some((key, value)) = tables.entry(walk.next())? {
                if let ControlFlow::Break(()) = visit(key, value) {
                    break;
                }
            }
            Ok(())
        })
    }
}
