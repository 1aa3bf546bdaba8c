//! A volume as a whole: create, open, lock, check, pack, compact, collect garbage, destroy.
//!
//! A volume is a superblock and segments in an object store, and metadata in a state directory of the one machine that
//! may mount it. Everything here keeps one promise: at every step, and after a crash at any step, metadata names only
//! objects that are in the store, and no byte that a file uses is deleted.

mod claim;
pub mod compact;
mod describe;
pub mod destroy;
mod engine;
mod error;
pub mod format;
mod found;
pub mod fsck;
pub mod gc;
pub mod holder;
pub mod info;
mod keys;
mod local;
mod log;
mod open;
mod options;
pub mod pack;
mod pending;
pub mod progress;
mod read;
pub mod rebuild;
pub mod repair;
pub mod restore;
mod rewrite;
pub mod scrub;
mod segment_index;
pub mod state_dir;
mod superblock_io;

pub use compact::{ChunkPlanner, ChunkReport, CompactReport, Compactor, MAX_EXTENTS, compact_chunk};
pub use destroy::{DestroyOptions, DestroyPlan, DestroyReport, Doomed};
pub use error::{Result, VolumeError};
pub use format::{FormatOptions, format};
pub use fsck::{DamagedFile, Finding, FindingSink, FsckOptions, FsckReport, Level, LostRange, fsck};
pub use gc::{DEFAULT_GRACE, Garbage, GcReport, gc};
pub use holder::Holder;
pub use info::{InodeInfo, describe};
pub use log::{Durability, Log, LogState, LogStatus};
pub use open::Volume;
pub use options::{DEFAULT_LEASE, DEFAULT_MEMORY, DEFAULT_RETENTION, OpenOptions};
pub use pack::{PackPlanner, PackReport, PackStep, pack, pack_telling};
pub use pending::{PendingSegment, PendingSegments};
pub use progress::{Progress, ProgressFn, Unit};
pub use read::read_extent;
pub use rebuild::{RebuildReport, rebuild};
pub use repair::{Correction, CorrectionSink, RepairOptions, RepairReport, repair};
pub use scrub::{Pacer, Scrub, ScrubStatus, Scrubber};
