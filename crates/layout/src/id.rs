//! Identifiers that appear in the format.

use std::fmt;

/// An inode number. 1 is the root; numbers are never reused within a volume.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct InodeNo(pub u64);

impl InodeNo {
    /// The root directory.
    pub const ROOT: InodeNo = InodeNo(1);
}

impl fmt::Display for InodeNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A segment's identity: 48 bits of Unix milliseconds, then 80 random bits (the ULID layout), so that ids are
/// unique for ever without an allocator, sort by age, and are never reused, even after a restore.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SegmentId(pub u128);
