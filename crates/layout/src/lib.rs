//! The volume format: everything that is written to an object store, as pure codecs.
//!
//! No I/O and no clock here. `docs/format.md` describes the same at byte level.

pub mod extent;
pub mod id;

pub use extent::{Extent, ExtentData, ExtentMap, SegmentSlice};
pub use id::{InodeNo, SegmentId};

/// Bytes of file range whose extents are kept under one metadata key.
pub const CHUNK_SIZE: u64 = 64 << 20;
