//! Names and forms of what is in the tables.

use super::super::backlog::GroupFigures;
use super::super::record::CHECKSUM_BYTES;
use crate::CommitSeq;

pub(in super::super) const DATA_TABLE: &str = "data";
pub(in super::super) const ENGINE_TABLE: &str = "engine";
pub(in super::super) const LOG_TABLE: &str = "log";

/// Key of the one record in the engine's own table.
pub(in super::super) const STATE_KEY: &[u8] = b"state";

/// Before a group's changes in the log: its `at_ms` and its `after`.
pub(in super::super) const LOG_HEAD_BYTES: usize = 16;

/// `at_ms`, `after` and `upto` of a group, from its key and what it begins with.
pub(in super::super) fn log_numbers(key: &[u8], head: &[u8]) -> Option<(u64, CommitSeq, CommitSeq)> {
    let upto = u64::from_be_bytes(key.try_into().ok()?);
    let (at_ms, rest) = head.split_first_chunk::<8>()?;
    let after = rest.first_chunk::<8>()?;
    Some((u64::from_be_bytes(*at_ms), CommitSeq(u64::from_be_bytes(*after)), CommitSeq(upto)))
}

/// What a group's key, length and first bytes say; its checksum is left for when it is read.
pub(super) fn figures_of(key: &[u8], stored: &[u8]) -> Option<GroupFigures> {
    let changes = stored.len().checked_sub(LOG_HEAD_BYTES + CHECKSUM_BYTES)?;
    let (at_ms, after, upto) = log_numbers(key, stored)?;
    Some(GroupFigures { after, upto, at_ms, bytes: changes as u64 })
}
