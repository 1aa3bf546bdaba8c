//! The namespace: POSIX semantics, written once, over any ordered transactional key-value engine.
//!
//! [`Namespace`] is synchronous: every call is one view or one transaction of the engine (or a few bounded ones where a
//! huge file shrinks). What a call changed is visible when it returns, and durable once
//! [`Engine::durable`](headrace_kv::Engine::durable) of the engine's position says so. No permission is checked here (the
//! kernel does that), only rules that depend on stored state. `docs/metadata.md` describes the keys and records.

mod attr;
mod check;
mod data;
mod describe;
mod error;
mod key;
mod namespace;
mod orphan;
mod packing;
mod rebuild;
mod record;
mod repair;
mod segments;
mod time;
mod totals;
mod transaction;
mod trash;

pub use attr::{
    Attr, Caller, DirEntry, DirTotals, Kind, RenameMode, Renamed, SetAttr, Totals, Unlinked, XattrMode,
};
pub use check::{CheckSummary, Problem, ProblemKind, Severity};
pub use data::{DataCommit, NewData, NewExtent, Swap};
pub use error::{MetaError, Result};
pub use namespace::Namespace;
pub use orphan::Nameless;
pub use packing::InlineRef;
pub use repair::{LOST_SEGMENT, Repair, RepairOptions, RepairSummary};
pub use segments::SegmentUse;
pub use time::Time;
pub use trash::{Kept, Restored, Revival, Trashed};

/// Longest name of a directory entry, bytes.
pub const MAX_NAME: usize = 255;
/// Longest target of a symbolic link, bytes.
pub const MAX_SYMLINK: usize = 4095;
/// Most names of one file.
pub const MAX_LINKS: u32 = 65_000;
/// Longest file, bytes: as many chunks as a u32 can number.
pub const MAX_FILE_SIZE: u64 = headrace_layout::CHUNK_SIZE << 32;
/// Granularity of [`Namespace::collapse`] and [`Namespace::insert`], bytes.
pub const SHIFT_ALIGNMENT: u64 = 4096;

#[cfg(test)]
mod tests;
