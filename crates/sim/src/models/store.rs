//! What every model of a store looks like to whoever reads from it.

use headrace_flow::backoff::Failure;
use headrace_flow::reading::{FetchId, FileId};
use std::ops::Range;
use std::time::Duration;

/// One ranged GET.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Get {
    /// Which of the store's endpoints is asked; 0 if it has only one.
    pub endpoint: usize,
    /// Its name in reports; never used twice for one endpoint.
    pub fetch: FetchId,
    /// The object.
    pub file: FileId,
    /// Bytes of it; not empty.
    pub range: Range<u64>,
}

/// What became of a GET so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// So many more bytes are there, in order from the start of the range; never 0.
    Bytes(u64),
    /// All bytes have been reported. Nothing more is reported of it.
    Finished,
    /// It ended early. Nothing more is reported of it; what was reported before counts.
    Failed(Failure),
}

/// Something happened to a GET.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// The endpoint that was asked.
    pub endpoint: usize,
    /// The GET.
    pub fetch: FetchId,
    /// What happened.
    pub progress: Progress,
}

/// A store in virtual time. Whoever drives it calls [`advance`](Store::advance) no later than [`next_at`](Store::next_at) says, with
/// times that never go back.
pub trait Store {
    /// Sends a GET.
    fn submit(&mut self, now: Duration, get: Get);

    /// Gives a GET up; nothing more is reported of it. Returns how many bytes came that were not reported.
    fn cancel(&mut self, now: Duration, endpoint: usize, fetch: FetchId) -> u64;

    /// When something happens next, if nobody does anything before.
    fn next_at(&self) -> Option<Duration>;

    /// Everything that happened up to `now`, oldest first.
    fn advance(&mut self, now: Duration, reports: &mut Vec<Report>);
}
