//! Open files: the read path, the write path, and what makes the two agree.
//!
//! Front ends speak to [`Vfs`] and to nothing below it. Calls that may have to wait (for the store, for a place in the write
//! budget, for a sync) return futures that own what they need; calls that touch metadata alone are plain functions.

mod admission;
mod background;
mod backpressure;
mod caching;
mod clock;
mod data;
mod error;
mod handles;
mod inode;
mod intake;
mod keeper;
mod log;
mod lookups;
mod memory;
mod metrics;
mod names;
mod options;
mod orphans;
mod paths;
mod staging;
mod status;
mod streaming;
mod trash;
mod vfs;

pub use backpressure::WriteQueue;
pub use caching::{
    CacheDirectory, CacheDirectoryStatus, CacheOptions, CacheStatus, FreeSpace, Pace, Passthrough, Warmth,
};
pub use error::{Error, Result};
pub use handles::{Backing, FileId, OpenMode};
pub use headrace_cache::disk::{RemovalError as CacheRemovalError, remove_directory as remove_cache};
pub use headrace_flow::memory::{MemoryPlan, REQUEST_BUFFER};
pub use headrace_flow::reading::Fixed as FixedReads;
pub use headrace_layout::InodeNo;
pub use headrace_meta::{Attr, Caller, DirEntry, DirTotals, Kind, RenameMode, SetAttr, Time, XattrMode};
pub use headrace_volume::{LogStatus, Scrub, ScrubStatus};
pub use keeper::Keeper;
pub use memory::{MemoryUse, Pool};
pub use options::{AtimePolicy, VfsOptions, Writeback};
pub use staging::WritebackStatus;
pub use status::{StatFs, Status};
pub use trash::shown::is_shown;
pub use trash::{Came, Deleted, Restoration, RestoreError, TrashFigures, Wanted};
pub use vfs::Vfs;

/// A file's bytes, in order, as pieces that need not be joined.
pub type ReadReply = Vec<bytes::Bytes>;
