//! What of the memory plan is in use.

use std::sync::Arc;
use std::time::Duration;

use headrace_flow::memory::MemoryPlan;
use serde::Serialize;

use crate::keeper::Keeper;
use crate::vfs::Vfs;

/// One pool of the memory plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Pool {
    /// In use, bytes.
    pub used: u64,
    /// The bound, bytes.
    pub limit: u64,
    /// Those who wait for a share of it.
    pub waiting: u64,
}

/// The memory plan and what of it is in use, by pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct MemoryUse {
    /// The ceiling, bytes.
    pub ceiling: u64,
    /// Written data that is not in extents yet; who waits are writers.
    pub dirty: Pool,
    /// Data of those writers; who waits are those whose data is in a file.
    pub intake: Pool,
    /// Segments being built and uploaded; who waits are uploads.
    pub uploads: Pool,
    /// Data on its way from the store to readers; who waits are reads.
    pub reads: Pool,
    /// Cached pieces of segments of small files.
    pub spans: Pool,
    /// Data on its way to the cache's disks.
    pub cache: Pool,
    /// Metadata that is not on disk yet.
    pub metadata: Pool,
    /// What is known of inodes that the kernel refers to, and open files.
    pub tables: Pool,
    /// Files that may be open.
    pub open_files_limit: u64,
}

impl Vfs {
    /// How the memory of this process is divided.
    pub fn memory_plan(&self) -> MemoryPlan {
        self.plan
    }

    /// Blocks until writes that wait for a place hold no more data than there is memory for; false if they still do not after
    /// `at_most`. Whoever reads requests asks this before each.
    pub fn wait_for_room(&self, at_most: Duration) -> bool {
        self.intake.wait_for_room(at_most)
    }

    /// `keeper` may fill what written data leaves free of its pool with buffers that are kept for later, and is told what that is. Only
    /// the first one to ask.
    pub fn keep_buffers(&self, keeper: Arc<dyn Keeper>) {
        self.admission.keep(keeper);
    }

    fn memory_of_reads(&self) -> Pool {
        let (whole, streams) = (self.reads.pool(), self.fetcher.figures());
        Pool {
            used: whole.used.saturating_add(streams.held),
            limit: self.plan.reads.saturating_add(self.lender.lent_to_streams()),
            waiting: whole.waiting.saturating_add(streams.waiting),
        }
    }

    fn memory_of_cache(&self) -> Pool {
        let Some(cache) = &self.cache else { return Pool::default() };
        let limit = self.plan.cache_queue.saturating_add(self.lender.lent_to_cache());
        Pool { used: cache.disk.queued(), limit, waiting: 0 }
    }

    /// Memory by pool, at this moment.
    pub fn memory(&self) -> MemoryUse {
        let plan = &self.plan;
        let open = (self.handles.len() as u64).saturating_mul(headrace_flow::memory::OPEN_FILE);
        MemoryUse {
            ceiling: plan.ceiling,
            dirty: self.admission.pool(),
            intake: Pool { used: self.intake.held(), limit: plan.intake, waiting: self.intake.parked() },
            uploads: self.upload_bytes.pool(),
            reads: self.memory_of_reads(),
            spans: Pool { used: self.spans.bytes(), limit: plan.spans, waiting: 0 },
            cache: self.memory_of_cache(),
            metadata: Pool {
                used: self.volume.engine.stats().pending_bytes,
                limit: plan.pending,
                waiting: 0,
            },
            tables: Pool { used: self.lookups.bytes().saturating_add(open), limit: plan.tables, waiting: 0 },
            open_files_limit: self.handles.limit(),
        }
    }
}
