//! What [`super::Writing`] is told and what it asks for.

use std::time::Duration;

use super::FileId;
use super::slab::Key;
use crate::endpoint::bandwidth;

/// A request that waits; never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub(super) Key);

/// What was sent of one file at one time; never used again, however often it is sent anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartId(pub(super) Key);

/// Bytes, and the operations that brought them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Amount {
    /// Bytes.
    pub bytes: u64,
    /// Writes that were accepted.
    pub operations: u64,
}

impl Amount {
    /// Nothing at all.
    pub fn is_zero(self) -> bool {
        self == Amount::default()
    }

    pub(super) fn add(&mut self, other: Amount) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.operations = self.operations.saturating_add(other.operations);
    }

    pub(super) fn take(&mut self, other: Amount) {
        debug_assert!(
            self.bytes >= other.bytes && self.operations >= other.operations,
            "{self:?} - {other:?}"
        );
        self.bytes = self.bytes.saturating_sub(other.bytes);
        self.operations = self.operations.saturating_sub(other.operations);
    }

    pub(super) fn plus(mut self, other: Amount) -> Amount {
        self.add(other);
        self
    }
}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admit {
    /// It is accepted.
    Granted,
    /// It waits, until an [`Action::Admit`] names it.
    Queued(Ticket),
    /// As many wait as may. Whoever asks takes no more from those who write until somebody was admitted.
    Refused,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// This one waits no longer: it is accepted. Whoever has given up since hands it back with [`super::Writing::withdraw`].
    Admit {
        /// Which.
        ticket: Ticket,
        /// Of this file.
        file: FileId,
        /// What it asked for.
        bytes: u64,
    },
    /// Somebody waits for what has been gathered and not sent: send it although it does not fill parts.
    Send,
    /// Commit all that is stored.
    Commit,
}

/// Bounds that measurements do not choose. May change at any time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes in memory: in flight, and stored but not committed.
    pub memory: u64,
    /// What is usually sent at once, bytes.
    pub part: u64,
    /// Writes in flight.
    pub operations: u64,
    /// Bytes stored but not committed that ask for a commit. At most a quarter of `memory` counts.
    pub uncommitted: u64,
    /// Writes stored but not committed that ask for one.
    pub uncommitted_operations: u64,
    /// Bytes on a local disk that are not in the store yet; none if there is no such disk.
    pub staged: Option<u64>,
    /// Requests that may wait.
    pub waiting: usize,
}

impl Limits {
    /// Of so much memory, sending parts of so many bytes, without a disk to stage on.
    pub fn new(memory: u64, part: u64) -> Limits {
        Limits {
            memory,
            part,
            operations: 1 << 16,
            uncommitted: 64 << 20,
            uncommitted_operations: 1 << 14,
            staged: None,
            waiting: 1 << 16,
        }
    }
}

/// The constants. No clock: times are those of the events.
#[derive(Debug, Clone)]
pub struct Tuning {
    /// So much of what the store takes may be in flight, beside a part; more where it brings more.
    pub reach: Duration,
    /// Parts that may be in flight, 2 or more, while it is not known what the store takes. A short file is written before it is, so with
    /// too few it takes a part's time more for each doubling; with too many what a slow store gets first stands in its queue.
    pub first_parts: u64,
    /// Bytes of a turn, where several files wait.
    pub quantum: u64,
    /// Of measuring what the store takes.
    pub drain: bandwidth::Tuning,
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning {
            reach: Duration::from_millis(200),
            first_parts: 4,
            quantum: 256 << 10,
            drain: bandwidth::Tuning::default(),
        }
    }
}

/// What was done so far. `accepted` is always what became of it together with what is still held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Accepted, and what was added because it could not be refused.
    pub accepted: Amount,
    /// Committed.
    pub committed: Amount,
    /// Given back before it was sent, or overwritten.
    pub withdrawn: Amount,
    /// Sent, and given up.
    pub abandoned: Amount,
    /// Requests that had to wait.
    pub waited: u64,
    /// Requests that were refused.
    pub refused: u64,
    /// Events that came twice, or for what is not there any more.
    pub duplicates: u64,
    /// Commits asked for.
    pub commits: u64,
    /// Times that gathered data was asked to be sent.
    pub sends: u64,
}
