//! What a mount can choose.

use std::time::Duration;

use headrace_flow::reading::Fixed;
use headrace_volume::Scrub;

use crate::caching::CacheOptions;

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

/// How new files are written back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Writeback {
    /// Bytes that may wait on this machine's disk before new files go to the store directly; `None`: as many as leave a tenth of it free.
    pub limit: Option<u64>,
    /// Bytes of them that are stored in a second at most; `None`: as many as the store takes.
    pub rate: Option<u64>,
}

/// Policies of a mount. Sizes and windows are not among them.
#[derive(Clone, Debug)]
pub struct VfsOptions {
    /// Memory that the process may take, bytes, divided by [`headrace_flow::memory`]. At least 64 MiB. The volume is opened
    /// with the same.
    pub memory: u64,
    /// Access times.
    pub atime: AtimePolicy,
    /// Refuse changes.
    pub read_only: bool,
    /// Make every write durable before it is acknowledged, as with O_SYNC.
    pub sync: bool,
    /// Write new files to this machine's disk first, and store them behind that; `None`: to the store directly.
    pub writeback: Option<Writeback>,
    /// How long dead segments and unknown objects are kept.
    pub grace: Duration,
    /// How long what is deleted is kept, so that it can be restored; `None`: not at all.
    pub trash: Option<Duration>,
    /// Written data of files that nobody flushes is flushed after this time.
    pub writeback_age: Duration,
    /// How fast stored data is read again to find damage.
    pub scrub: Scrub,
    /// Where what was fetched is kept on local disks; `None`: nowhere.
    pub cache: Option<CacheOptions>,
    /// Whether this machine has a use for SELinux's labels. Where it has none, who asks for one is told that there are no such things here,
    /// and not only that this file has none: `ls -l` asks for no other then.
    pub labels: bool,
    /// Reads ahead by these numbers instead of what is measured. For measurements.
    pub fixed_reads: Option<Fixed>,
}

impl Default for VfsOptions {
    fn default() -> Self {
        VfsOptions {
            memory: headrace_volume::DEFAULT_MEMORY,
            atime: AtimePolicy::default(),
            read_only: false,
            sync: false,
            writeback: None,
            grace: Duration::from_secs(3600),
            trash: None,
            writeback_age: Duration::from_secs(5),
            scrub: Scrub::default(),
            cache: None,
            labels: true,
            fixed_reads: None,
        }
    }
}
