//! What an engine's log is made of: groups of transactions, each with the values it left behind.

mod changes;

use bytes::Bytes;

pub(crate) use self::changes::encode_changes_into;
pub use self::changes::{Changes, ChangesIter, encode_changes};
use crate::CommitSeq;

/// Consecutive transactions that became durable together.
///
/// Applying the changes of every group in order, each on top of the one whose `upto` is its `after`, gives the engine's
/// contents at the last group's `upto`. Applying a group twice in a row changes nothing: it holds absolute values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogGroup {
    /// The position before the group.
    pub after: CommitSeq,
    /// The position of its last transaction.
    pub upto: CommitSeq,
    /// When the group was closed, by the wall clock: milliseconds since the Unix epoch. No transaction in it is younger.
    pub at_ms: u64,
    /// The value each changed key has at `upto`, as [`encode_changes`] writes it.
    pub changes: Bytes,
}

/// What is in an engine's log: durable, and not yet given up with `trim_log`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LogBacklog {
    /// Number of groups.
    pub groups: u64,
    /// Bytes of their encoded changes.
    pub bytes: u64,
    /// [`LogGroup::at_ms`] of the first one.
    pub oldest_at_ms: Option<u64>,
}
