//! What a mount says of itself.

use headrace_volume::{LogStatus, ScrubStatus};
use serde::Serialize;

use crate::backpressure::WriteQueue;
use crate::error::Result;
use crate::memory::MemoryUse;
use crate::staging::WritebackStatus;
use crate::trash::TrashFigures;
use crate::vfs::Vfs;

/// Space and inode counts, as `statvfs(3)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct StatFs {
    /// Size, in units of `bsize`.
    pub blocks: u64,
    /// Free, in units of `bsize`.
    pub bfree: u64,
    /// Free for ordinary users, in units of `bsize`.
    pub bavail: u64,
    /// Inodes, used and free.
    pub files: u64,
    /// Free inodes.
    pub ffree: u64,
    /// Unit, bytes.
    pub bsize: u32,
    /// Longest name, bytes.
    pub namelen: u32,
}

/// Figures of a mount at one moment.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// Files that are open.
    pub open_files: u64,
    /// Files that are open or have unflushed data.
    pub active_inodes: u64,
    /// Inodes the front end refers to.
    pub referenced_inodes: u64,
    /// Deleted files that somebody still holds, or that wait to be reclaimed.
    pub orphans: u64,
    /// What was deleted and is kept.
    pub trash: TrashFigures,
    /// Written bytes that are not in extents yet, as counted in the write budget.
    pub dirty_bytes: u64,
    /// The write budget, bytes.
    pub dirty_limit: u64,
    /// Memory by pool.
    pub memory: MemoryUse,
    /// Writers that wait: for the store to take what was written before, or for memory.
    pub waiting_writers: u64,
    /// What was written and is on its way to the store.
    pub write_queue: WriteQueue,
    /// New files on this machine's disk that are not stored yet; `None` where that was never asked for.
    pub writeback: Option<WritebackStatus>,
    /// Sealed bytes in the metadata engine that wait for the packer.
    pub inline_bytes: u64,
    /// Metadata bytes that are not durable yet.
    pub metadata_pending_bytes: u64,
    /// Bytes the metadata engine occupies on disk.
    pub metadata_disk_bytes: u64,
    /// Metadata transactions since the mount.
    pub metadata_transactions: u64,
    /// Syncs of the metadata engine since the mount.
    pub metadata_syncs: u64,
    /// Bytes of stored data cached in memory.
    pub cached_bytes: u64,
    /// Inodes in the volume.
    pub inodes: u64,
    /// Bytes of file data in the volume.
    pub bytes: u64,
    /// The metadata's log; none of a volume that is mounted read-only.
    pub log: Option<LogStatus>,
    /// Where reading everything again is; none before it began.
    pub scrub: Option<ScrubStatus>,
}

const BLOCK: u32 = 4096;
/// What a store without a size of its own is said to hold: 1 EiB.
const UNBOUNDED: u64 = 1 << 60;

impl Vfs {
    /// Space and inode counts.
    pub fn statfs(&self) -> Result<StatFs> {
        let totals = self.meta().statfs()?;
        let used = totals.bytes.saturating_add(self.admission.used());
        let (total, free) = match self.volume.store.space() {
            Some(space) => (space.total, space.free),
            None => (UNBOUNDED, UNBOUNDED.saturating_sub(used)),
        };
        let unit = u64::from(BLOCK);
        let ffree = (u64::MAX >> 32).saturating_sub(totals.inodes);
        Ok(StatFs {
            blocks: total / unit,
            bfree: free / unit,
            bavail: free / unit,
            files: totals.inodes.saturating_add(ffree),
            ffree,
            bsize: BLOCK,
            namelen: 255,
        })
    }

    pub(crate) fn waiting_writers(&self) -> u64 {
        (self.backpressure.waiting() + self.admission.waiting()) as u64
    }

    /// Figures of this moment.
    pub fn status(&self) -> Status {
        let engine = self.volume.engine.stats();
        let totals = self.meta().statfs().unwrap_or_default();
        Status {
            open_files: self.handles.len() as u64,
            active_inodes: self.inodes.len() as u64,
            referenced_inodes: self.lookups.len(),
            orphans: self.orphans.len(),
            trash: self.trash.figures(self.options.trash),
            dirty_bytes: self.admission.used(),
            dirty_limit: self.admission.limit(),
            memory: self.memory(),
            waiting_writers: self.waiting_writers(),
            write_queue: self.backpressure.figures(),
            writeback: self.staging.status(),
            inline_bytes: self.meta().inline_bytes(),
            metadata_pending_bytes: engine.pending_bytes,
            metadata_disk_bytes: engine.disk_bytes,
            metadata_transactions: engine.transactions,
            metadata_syncs: engine.syncs,
            cached_bytes: self.spans.bytes(),
            inodes: totals.inodes,
            bytes: totals.bytes,
            log: self.volume.log_status(),
            scrub: self.background.scrub_status(),
        }
    }
}
