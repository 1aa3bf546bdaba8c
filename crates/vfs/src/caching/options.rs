//! Where to cache, and how much.

use std::path::PathBuf;
use std::time::Duration;

/// Space of a disk that is left to others.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum FreeSpace {
    /// So many bytes.
    Bytes(u64),
    /// This part of the disk, 0 to 1.
    Part(f64),
}

/// One directory to cache in.
#[derive(Clone, PartialEq, Debug)]
pub struct CacheDirectory {
    /// The directory of this volume: nothing else is in it. It is made if it is not there, its parents too.
    pub path: PathBuf,
    /// Bytes it may hold; `None` for as many as `free` allows.
    pub limit: Option<u64>,
}

/// A cache on local disks.
#[derive(Clone, PartialEq, Debug)]
pub struct CacheOptions {
    /// At least one. An entry is in one of them; one that fails is done without.
    pub directories: Vec<CacheDirectory>,
    /// Space that is kept free on each of their disks.
    pub free: FreeSpace,
    /// What nobody has used for so long is dropped.
    pub expire: Option<Duration>,
}
