//! The cache on local disks: what was fetched is kept, and what is whole is read by the kernel itself.
//!
//! [`headrace_cache::disk`] keeps bytes; here is what they are of. Large files have a copy each, which is good for as long as the
//! extents it was made from ([`print`]); small ones are in segments that are kept as they are stored. How a file is opened is decided
//! in [`modes`]; what happens when a file changes that the kernel reads from its copy, in [`passing`].

mod lookup;
pub(crate) mod modes;
mod open;
mod options;
pub(crate) mod passing;
pub(crate) mod print;
mod status;
mod warm;

pub use options::{CacheDirectory, CacheOptions, FreeSpace};
pub use status::{CacheDirectoryStatus, CacheStatus, Passthrough};
pub use warm::{Pace, Warmth};

use std::sync::atomic::{AtomicU64, Ordering};

use headrace_cache::disk::{DirectoryOptions, DiskCache, DiskOptions, Floor};
use headrace_flow::memory::MemoryPlan;
use headrace_metrics::{Collection, Unit};

/// The cache of a mount.
pub(crate) struct Cache {
    pub(crate) disk: DiskCache,
    /// Open files of which it does.
    passed: AtomicU64,
}

impl Cache {
    /// Opens it. What cannot be used of it is done without.
    pub(crate) fn open(options: &CacheOptions, plan: &MemoryPlan) -> Cache {
        let directory = |CacheDirectory { path, limit }: &CacheDirectory| DirectoryOptions {
            path: path.clone(),
            limit: *limit,
        };
        let disk = DiskCache::open(&DiskOptions {
            directories: options.directories.iter().map(directory).collect(),
            floor: match options.free {
                FreeSpace::Bytes(bytes) => Floor::Bytes(bytes),
                FreeSpace::Part(part) => Floor::Part(part),
            },
            expire: options.expire,
            queue: plan.cache_queue,
            index_memory: plan.cache_index,
        });
        Cache { disk, passed: AtomicU64::new(0) }
    }

    /// Adds what it holds and what it was good for.
    pub(crate) fn collect(&self, into: &mut Collection) {
        self.disk.collect(into);
        let help = "Open files that the kernel reads from the cache by itself";
        let passed = self.passed.load(Ordering::Relaxed) as f64;
        into.gauge("headrace_passed_through_files", help, Unit::None, passed);
    }
}
