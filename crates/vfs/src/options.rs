//! What a mount can choose.

use std::time::Duration;

/// When a read changes the access time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AtimePolicy {
    /// Never.
    NoAtime,
    /// When it is not later than the last change, or older than a day (the kernel's default for native file systems).
    #[default]
    RelAtime,
    /// At every read that reaches the file system; reads that the kernel answers from its page cache do not.
    StrictAtime,
}

/// Policies of a mount. Sizes and windows are not among them.
#[derive(Clone, Debug)]
pub struct VfsOptions {
    /// Memory that data may take, bytes: written data awaiting upload, segments being built, cached spans. At least 64 MiB.
    pub memory: u64,
    /// Access times.
    pub atime: AtimePolicy,
    /// Refuse changes.
    pub read_only: bool,
    /// Make every write durable before it is acknowledged, as with O_SYNC.
    pub sync: bool,
    /// How long dead segments and unknown objects are kept.
    pub grace: Duration,
    /// Written data of files that nobody flushes is flushed after this time.
    pub writeback_age: Duration,
}

impl Default for VfsOptions {
    fn default() -> Self {
        VfsOptions {
            memory: 512 << 20,
            atime: AtimePolicy::default(),
            read_only: false,
            sync: false,
            grace: Duration::from_secs(3600),
            writeback_age: Duration::from_secs(5),
        }
    }
}

/// How [`VfsOptions::memory`] is divided.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryPlan {
    /// Written data, from acceptance until its extents are committed.
    pub dirty: u64,
    /// Segments being built and uploaded at one time.
    pub uploads: usize,
    /// Cached spans.
    pub spans: u64,
}

impl MemoryPlan {
    pub(crate) fn new(memory: u64, segment_size: u64) -> Self {
        let memory = memory.max(64 << 20);
        let uploads = (memory / 4 / segment_size.max(1)).clamp(1, 32) as usize;
        MemoryPlan { dirty: memory / 2, uploads, spans: memory / 8 }
    }
}
