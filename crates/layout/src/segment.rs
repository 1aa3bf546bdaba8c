//! Segments: immutable objects of runs, ending with an index of what they hold.
//!
//! `[header][frames of run 0][frames of run 1]...[index][footer]`. A segment can be read without the metadata: the footer,
//! of fixed length, tells where the index is, and the index tells whose bytes each run holds.

mod builder;
mod envelope;
mod index;
mod names;
#[cfg(test)]
mod tests;

pub use builder::{SegmentBuilder, SegmentFull};
pub use envelope::{SegmentFooter, SegmentHeader};
pub use index::{IndexError, IndexRun, SegmentIndex};
pub use names::{DirectoryRecord, FileRecord, RunPart};

/// Bytes of the header, and so the offset of the first frame.
pub const HEADER_LEN: usize = 64;

/// Bytes of the footer.
pub const FOOTER_LEN: usize = 48;

/// The longest segment, stored bytes with header, index and footer: the largest `segment_size` plus an eighth, so that a
/// whole target's worth of plain bytes always fits whatever frames and index add.
pub const MAX_STORED_LEN: u32 = 288 << 20;
