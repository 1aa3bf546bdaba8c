//! A disk that loses power: what may be left of a file system when writes were not yet synced.
//!
//! [`Disk`] keeps a tree of files in memory and, beside its current state, what a sync has made durable and every
//! change since. [`Disk::image`] then gives one of the trees that may be found after a power cut. It has no I/O and no
//! clock; a test puts it behind a real mount.
//!
//! # The model
//!
//! - *A file's bytes and size* are durable up to its last fsync or fdatasync. Of the changes since, each 512-byte sector
//!   shows any one of the states it went through; a sector is never torn itself. The size shows any one of the states it
//!   went through, in order; where it covers a sector whose write was lost, there are zeros. Nothing that was written after a
//!   lost truncation shows.
//! - *Names* are durable by an fsync of the directory they are in, and by nothing else: not by an fsync of the file. Of
//!   the changes since, a directory shows those up to some point; different directories may stop at different points. A
//!   change of two directories (a rename) is there in both or in neither.
//! - *Attributes* (mode, owner) are always those of the last moment; times are not kept at all.
//! - Nothing durable is damaged: no bit rot, no disk that lies about its flushes.
//!
//! This is weaker than what ext4 and xfs promise in any of their modes (one journal for all directories, a new file's
//! name durable with its fsync, no size before its data), so what survives here survives there.

mod disk;
mod file;
mod image;
mod names;
mod state;

pub use disk::{Attributes, Disk, Entry, Ino, Kind, ROOT, Replace};
pub use image::Image;

/// Bytes that a disk writes wholly or not at all.
pub const SECTOR: usize = 512;
