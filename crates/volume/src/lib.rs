//! A volume as a whole: create, open, lock, check, pack, compact, collect garbage, destroy.
//!
//! A volume is a superblock and segments in an object store, and metadata in a state directory of the one machine that
//! may mount it. Everything here keeps one promise: at every step, and after a crash at any step, metadata names only
//! objects that are in the store, and no byte that a file uses is deleted.

pub mod compact;
mod describe;
pub mod destroy;
mod engine;
mod error;
pub mod format;
pub mod fsck;
pub mod gc;
pub mod holder;
pub mod info;
mod keys;
mod open;
pub mod pack;
mod pending;
pub mod progress;
mod read;
pub mod restore;
mod rewrite;
pub mod state_dir;
mod superblock_io;

pub use compact::{ChunkReport, CompactReport, Compactor, compact_chunk};
pub use destroy::{DestroyOptions, DestroyPlan, DestroyReport, Doomed};
pub use error::{Result, VolumeError};
pub use format::{FormatOptions, format};
pub use fsck::{Finding, FindingSink, FsckOptions, FsckReport, Level, fsck};
pub use gc::{DEFAULT_GRACE, GcReport, gc};
pub use holder::Holder;
pub use info::{InodeInfo, describe};
pub use open::{DEFAULT_MEMORY, OpenOptions, Volume};
pub use pack::{PackPlanner, PackReport, PackStep, pack};
pub use pending::{PendingSegment, PendingSegments};
pub use progress::{Progress, ProgressFn, Unit};
pub use read::read_extent;
