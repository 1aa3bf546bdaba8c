//! What data operations take.

use headrace_layout::{ExtentData, SegmentId, SegmentSlice};

use crate::Time;

/// Where the bytes of a new extent are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NewData {
    /// In a segment that was uploaded.
    Segment(SegmentSlice),
    /// Here, sealed: kept in the metadata engine until the packer moves it.
    Inline(Vec<u8>),
}

/// A range of a file and its new bytes. May cross chunk boundaries.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewExtent {
    /// First byte in the file.
    pub offset: u64,
    /// Plain length in bytes, at least 1.
    pub len: u32,
    /// Where they are.
    pub data: NewData,
}

/// Data that goes into a file in one transaction.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DataCommit {
    /// The ranges, later ones over earlier ones. What lies past the file's length (after `new_size`) is dropped.
    pub pieces: Vec<NewExtent>,
    /// Grow the file to at least this length.
    pub new_size: Option<u64>,
    /// Time of the write: becomes mtime, and ctime unless that is later. `None` leaves both.
    pub mtime: Option<Time>,
    /// Segments named for the first time, with their stored length in bytes.
    pub new_segments: Vec<(SegmentId, u64)>,
    /// Clear set-user-id, set-group-id where group execution is allowed, and file capabilities. A caller that commits
    /// later than the write took place does this at the time of the write instead: meanwhile they may have been set anew.
    pub kill_suid: bool,
}

/// A range whose bytes also exist elsewhere now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Swap {
    /// First byte in the file.
    pub offset: u64,
    /// Length in bytes, at least 1.
    pub len: u32,
    /// Where the byte at `offset` was when it was copied; later bytes follow from there. Ranges that are elsewhere by
    /// now are left alone.
    pub expect: ExtentData,
    /// Where the byte at `offset` is too.
    pub new: SegmentSlice,
}
