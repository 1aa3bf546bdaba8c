//! The tables, and reading them: every byte that LMDB hands out is checked to be in the file and to be what was stored.

use std::ops::Bound;

use heed::types::Bytes;
use heed::{Database, RoRange, RoRevRange, RoTxn, WithoutTls};

use super::super::backlog::GroupFigures;
use super::super::record;
use super::super::state::State;
use super::faults::is_corruption;
use super::layout::{LOG_HEAD_BYTES, STATE_KEY, figures_of, log_numbers};
use super::mapping::Mapping;
use super::resident::Resident;
use crate::log::LogGroup;
use crate::{CommitSeq, KvError};

pub(super) type Table = Database<'static, Bytes, Bytes>;

/// A key and what is stored under it.
type Pair<'t> = (&'t [u8], &'t [u8]);
type Range<'r> = (Bound<&'r [u8]>, Bound<&'r [u8]>);

/// Handles of the tables; good for any transaction of their environment.
pub(in super::super) struct Tables {
    pub(super) data: Table,
    pub(super) engine: Table,
    pub(super) log: Table,
    pub(super) mapping: Mapping,
    pub(super) resident: Resident,
    /// Of the data file, for messages.
    pub(super) path: String,
    /// Bytes of a page.
    pub(super) page: usize,
}

impl Tables {
    #[inline]
    pub(super) fn get<'t>(
        &self,
        txn: &'t RoTxn<'_, WithoutTls>,
        key: &[u8],
    ) -> Result<Option<&'t [u8]>, KvError> {
        match self.data.get(txn, key) {
            Ok(Some(stored)) => self.open(key, stored).map(Some),
            Ok(None) => Ok(None),
            Err(e) => Err(self.read_error(&e)),
        }
    }

    pub(super) fn range<'t>(
        &self,
        txn: &'t RoTxn<'_, WithoutTls>,
        range: &Range<'_>,
    ) -> Result<RoRange<'t, Bytes, Bytes>, KvError> {
        self.data.range(txn, range).map_err(|e| self.read_error(&e))
    }

    pub(super) fn rev_range<'t>(
        &self,
        txn: &'t RoTxn<'_, WithoutTls>,
        range: &Range<'_>,
    ) -> Result<RoRevRange<'t, Bytes, Bytes>, KvError> {
        self.data.rev_range(txn, range).map_err(|e| self.read_error(&e))
    }

    /// The next entry of a walk, checked.
    #[inline]
    pub(in super::super) fn entry<'t>(
        &self,
        found: Option<Result<Pair<'t>, heed::Error>>,
    ) -> Result<Option<Pair<'t>>, KvError> {
        match found {
            None => Ok(None),
            Some(Err(e)) => Err(self.read_error(&e)),
            Some(Ok((key, stored))) => {
                if !self.mapping.covers(key) {
                    return Err(self.damaged("a key lies past the end of the file"));
                }
                Ok(Some((key, self.open(key, stored)?)))
            }
        }
    }

    /// The value in what is stored under `key`.
    #[inline]
    fn open<'t>(&self, key: &[u8], stored: &'t [u8]) -> Result<&'t [u8], KvError> {
        if !self.mapping.covers(stored) {
            return Err(self.damaged("a value reaches past the end of the file"));
        }
        let (start, len) = self.mapping.extent();
        self.resident.read(start, len, stored.len());
        match record::open(key, stored) {
            Some((value, _)) => Ok(value),
            None => Err(self.damaged(&format!("the checksum of the record {} is wrong", key.escape_ascii()))),
        }
    }

    pub(super) fn state(&self, txn: &RoTxn<'_, WithoutTls>) -> Result<Option<State>, KvError> {
        let Some(stored) = self.engine.get(txn, STATE_KEY).map_err(|e| self.read_error(&e))? else {
            return Ok(None);
        };
        let state = State::decode(self.open(STATE_KEY, stored)?);
        state.map(Some).ok_or_else(|| self.damaged("the record about the whole has the wrong length"))
    }

    /// About how many bytes the records are.
    pub(super) fn data_bytes(&self, txn: &RoTxn<'_, WithoutTls>) -> Result<u64, KvError> {
        let stat = self.data.stat(txn).map_err(|e| self.read_error(&e))?;
        let pages = stat.leaf_pages.saturating_add(stat.overflow_pages);
        Ok((pages as u64).saturating_mul(self.page as u64))
    }

    pub(super) fn log_figures(&self, txn: &RoTxn<'_, WithoutTls>) -> Result<Vec<GroupFigures>, KvError> {
        let mut figures: Vec<GroupFigures> = Vec::new();
        for found in self.log.iter(txn).map_err(|e| self.read_error(&e))? {
            let (key, stored) = found.map_err(|e| self.read_error(&e))?;
            if !self.mapping.covers(key) || !self.mapping.covers(stored) {
                return Err(self.damaged("a group of the log reaches past the end of the file"));
            }
            let Some(group) = figures_of(key, stored) else {
                return Err(self.damaged("a group of the log is too short"));
            };
            if figures.last().is_some_and(|last| last.upto != group.after) || group.after >= group.upto {
                return Err(self.damaged(&format!("the log has a gap before position {}", group.upto.0)));
            }
            figures.push(group);
        }
        Ok(figures)
    }

    /// See [`super::super::EmbeddedEngine::log_after`].
    pub(super) fn log_after(
        &self,
        txn: &RoTxn<'_, WithoutTls>,
        after: CommitSeq,
        max_bytes: u64,
    ) -> Result<Vec<LogGroup>, KvError> {
        let first = after.0.to_be_bytes();
        let range: Range<'_> = (Bound::Excluded(&first), Bound::Unbounded);
        let mut walk = self.log.range(txn, &range).map_err(|e| self.read_error(&e))?;
        let mut groups: Vec<LogGroup> = Vec::new();
        let mut bytes = 0u64;
        while let Some((key, value)) = self.entry(walk.next())? {
            // The checksum is gone from `value`; what it covered is right.
            let Some((head, changes)) = value.split_at_checked(LOG_HEAD_BYTES) else {
                return Err(self.damaged("a group of the log is too short"));
            };
            let Some((at_ms, from, upto)) = log_numbers(key, head) else {
                return Err(self.damaged("a group of the log has a key of the wrong length"));
            };
            if groups.last().is_some_and(|last| last.upto != from) {
                return Err(self.damaged(&format!("the log has a gap before position {}", upto.0)));
            }
            bytes = bytes.saturating_add(changes.len() as u64);
            if bytes > max_bytes && !groups.is_empty() {
                break;
            }
            let (start, len) = self.mapping.extent();
            self.resident.read(start, len, changes.len());
            let changes = bytes::Bytes::copy_from_slice(changes);
            groups.push(LogGroup { after: from, upto, at_ms, changes });
        }
        Ok(groups)
    }

    pub(super) fn read_error(&self, e: &heed::Error) -> KvError {
        if is_corruption(e) {
            self.damaged(&e.to_string())
        } else {
            KvError::Io { path: self.path.clone(), detail: format!("read failed: {e}") }
        }
    }

    pub(super) fn damaged(&self, detail: &str) -> KvError {
        KvError::Corrupt(format!("{}: {detail}", self.path))
    }
}
