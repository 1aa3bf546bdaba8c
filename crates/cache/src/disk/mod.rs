//! Bytes kept on local disks: one sparse file per entry, and an index of what of it is there.
//!
//! An entry ([`Entry`]) is the content of a file, or the stored object of a segment of small files. What is present is known by
//! *block* (32 KiB), checked by *group* (256 KiB), and kept, evicted and made out of date by *chunk* (64 MiB). A chunk of a file
//! carries the *print* of the extents it was filled from: segments never change and their ids are never used again, so bytes are good
//! for as long as the print is that of the file's extents now, whatever happened in between, crashes and restores included.
//!
//! Files are only ever filled in where nothing was, or come as they are with all that is in them ([`Adoption`]), and are punched or removed; so what is present is right or, if the disk has lost
//! it, found out by its checksum when it is first used after a start. The index is synced, a second behind; files are for one reason only:
//! what the disk refuses would turn into zeros while it is used ([`Entry::sync`]).
//!
//! [`DiskCache`] is the whole; a [`directory`](self) is one disk of it, with an index, a lock and a thread of its own, so that a
//! disk that hangs or fails takes nothing else with it. Decisions are in [`presence`], [`room`] and [`victim`], without I/O.

mod adoption;
mod cache;
mod directory;
mod entry;
mod fill;
mod hit;
mod index;
mod key;
mod lane;
mod mapped;
mod presence;
mod removal;
mod room;
mod victim;
mod worker;

pub use adoption::Adoption;
pub use cache::{DirectoryOptions, DirectoryStatus, DiskCache, DiskOptions};
pub use entry::{Entry, Hit, Pass, Readiness};
pub use fill::Filling;
pub use key::Key;
pub use mapped::is_open_elsewhere;
pub use presence::{BLOCK, CHUNK, GROUP, sum_of};
pub use removal::{RemovalError, remove_directory};
pub use room::Floor;

/// Says from which extents a chunk of a file is made; `None` if it cannot be cached as it is.
pub type Prints<'a> = &'a dyn Fn(u32) -> Option<u64>;
