//! What [`super::Reads`] is told and what it asks for.

use std::ops::Range;

/// A file, as whoever drives names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u64);

/// An open file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HandleId(pub u64);

/// One read of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// One ranged GET; never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FetchId(pub u64);

/// Bounds that measurements do not choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes that were fetched, or are being fetched, and are still to be read.
    pub memory: u64,
    /// Largest range of one fetch, bytes.
    pub request_max: u64,
    /// Most fetches in flight.
    pub requests: usize,
}

/// Whether what comes of a file is kept elsewhere too, on a local disk, and read there when it is not held any more. What is kept may be
/// fetched whole although it is larger than memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// It is not.
    No,
    /// It is, and all of it would be; but of what comes now only so many bytes, until more is told: the disk is so far behind.
    Yes {
        /// Bytes.
        room: u64,
    },
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Get this range: bytes are reported as they come, in order from its start.
    Fetch {
        /// Its name in the events that follow.
        fetch: FetchId,
        /// The file.
        file: FileId,
        /// Bytes of the file.
        range: Range<u64>,
        /// The one that takes too long, if this is its second attempt: whichever has the bytes first counts.
        hedge_of: Option<FetchId>,
        /// Nobody waits for it yet.
        ahead: bool,
    },
    /// Its bytes are not wanted any more; nothing that happens to it is to be reported from here on.
    Cancel {
        /// Which.
        fetch: FetchId,
    },
    /// All bytes of this read are there.
    Answer {
        /// Which.
        request: RequestId,
    },
    /// A byte of this read cannot be had.
    Fail {
        /// Which.
        request: RequestId,
    },
    /// These bytes are not kept any more.
    Release {
        /// The file.
        file: FileId,
        /// Bytes of the file.
        range: Range<u64>,
    },
}

/// What was done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Bytes asked for by reads.
    pub asked: u64,
    /// Bytes that arrived.
    pub fetched: u64,
    /// Bytes that arrived and were released without having been read.
    pub wasted: u64,
    /// Fetches.
    pub fetches: u64,
    /// Fetches that were second attempts.
    pub hedges: u64,
    /// Fetches that were cancelled.
    pub cancelled: u64,
    /// Times that a part was sent anew because nothing came of it.
    pub hung: u64,
    /// Files that were fetched whole because they were read at random all over.
    pub whole: u64,
}
