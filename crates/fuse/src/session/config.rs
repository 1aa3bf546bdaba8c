//! What a mount is started with, and the figures it does not ask for because they were measured.

use std::time::Duration;

use headrace_vfs::MemoryPlan;

use crate::mount::MountOptions;

/// Largest WRITE, and with that READ: the kernel's own ceiling (256 pages).
pub(crate) const MAX_WRITE: u32 = 1 << 20;
/// Requests the kernel keeps in flight for readahead, of all files together; whoever reads ahead beyond that waits. A file alone has
/// 32 at most, fewer starve a store that is milliseconds away.
pub(crate) const MAX_BACKGROUND: u16 = 256;
/// At its congestion threshold the kernel leaves out the rest of a file's readahead and goes on behind it later: what is left out is asked
/// for out of its turn, 30 MiB late, and no stream is to be seen in that. So the threshold is never reached.
pub(crate) const NEVER_CONGESTED: u16 = u16::MAX;

/// How to mount.
#[derive(Clone, Debug)]
pub struct MountConfig {
    /// The `-o` options.
    pub options: MountOptions,
    /// Worker threads; `None` chooses the larger of 4 and twice the number of processors. At most 64, and no more than there
    /// is memory for their buffers.
    pub threads: Option<usize>,
    /// Have requests come by io_uring where the kernel offers it; see [`crate::RequestPath`].
    pub io_uring: bool,
    /// For volumes that others may change too: how long the kernel may believe entries and attributes.
    pub shared_ttl: Duration,
}

impl Default for MountConfig {
    fn default() -> Self {
        MountConfig {
            options: MountOptions::default(),
            threads: None,
            io_uring: false,
            shared_ttl: Duration::from_secs(1),
        }
    }
}

impl MountConfig {
    pub(crate) fn worker_threads(&self, memory: &MemoryPlan) -> usize {
        let by_default = || std::thread::available_parallelism().map_or(4, |cores| (2 * cores.get()).max(4));
        let wanted = self.threads.unwrap_or_else(by_default).clamp(1, 64);
        let most = usize::try_from(memory.workers).unwrap_or(usize::MAX).max(1);
        if wanted > most && self.threads.is_some() {
            tracing::warn!(
                threads = wanted,
                most,
                "fewer FUSE worker threads: more memory is needed for more"
            );
        }
        wanted.min(most)
    }
}
