//! Which segments hold data that is in use, and how much.

use headrace_layout::SegmentId;

use crate::Time;

/// A segment and its use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentUse {
    /// The segment.
    pub id: SegmentId,
    /// Length of the stored object, bytes.
    pub stored: u64,
    /// Plain bytes that extents refer to (a byte shared by two files counts twice).
    pub live: u64,
    /// Since when nothing refers to it.
    pub dead_since: Option<Time>,
}
