//! The volume format: everything that is written to an object store, as pure codecs.
//!
//! No I/O and no clock here. `docs/format.md` describes the same at byte level.

mod checksum;
pub mod compression;
pub mod crypto;
pub mod extent;
pub mod frame;
pub mod id;
mod inline;
mod object;
pub mod segment;
pub mod superblock;
#[cfg(test)]
mod testing;
pub mod wire;

pub use checksum::joint;
pub use compression::Compression;
pub use crypto::{CryptoError, DataKey, MasterKey};
pub use extent::{DecodeError, Extent, ExtentData, ExtentMap, SegmentSlice};
pub use frame::{Codec, Decoder, FrameError};
pub use id::{InodeNo, SegmentId};
pub use object::{MAX_OBJECT_PLAIN, ObjectError};
pub use segment::{
    DirectoryRecord, FileRecord, IndexRun, RunPart, SegmentBuilder, SegmentFull, SegmentIndex,
};
pub use superblock::{Encryption, Superblock, SuperblockError};

/// Bytes of file range whose extents are kept under one metadata key.
pub const CHUNK_SIZE: u64 = 64 << 20;
