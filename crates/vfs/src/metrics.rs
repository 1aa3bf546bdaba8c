//! What a mount counts, times and holds.

use headrace_metrics::{Collection, Unit};
use headrace_store::ObjectStore as _;

use crate::memory::{MemoryUse, Pool};
use crate::streaming::Figures;
use crate::vfs::Vfs;

impl Vfs {
    /// Adds the figures of the file system and of all that is below it.
    pub fn collect(&self, into: &mut Collection) {
        self.volume.engine.collect(into);
        self.spans.collect(into);
        if let Some(cache) = &self.cache {
            cache.collect(into);
        }
        self.volume.store_counters.collect(into);
        self.staging.collect(into);
        self.memory().collect(into);

        self.fetcher.figures().collect(into);

        self.backpressure.figures().collect(into);
        let help = "Writers that wait for their data to be accepted";
        into.gauge("headrace_waiting_writers", help, Unit::None, self.waiting_writers() as f64);
        let help = "Written data that is not in extents yet, as counted in its budget";
        into.gauge("headrace_dirty_bytes", help, Unit::Bytes, self.admission.used() as f64);
        let help = "Written data that is accepted before writers wait";
        into.gauge("headrace_dirty_limit_bytes", help, Unit::Bytes, self.admission.limit() as f64);
        let help = "Files that are open";
        into.gauge("headrace_open_files", help, Unit::None, self.handles.len() as f64);
        let help = "Inodes that the kernel refers to";
        into.gauge("headrace_referenced_inodes", help, Unit::None, self.lookups.len() as f64);
        let help = "Deleted files that somebody still holds, or that wait to be reclaimed";
        into.gauge("headrace_orphans", help, Unit::None, self.orphans.len() as f64);
        let trash = self.trash.figures(self.options.trash);
        let help = "Deleted files and directories that are kept in the trash";
        into.gauge("headrace_trash_files", help, Unit::None, trash.files as f64);
        let help = "Bytes of data that deleted files in the trash hold";
        into.gauge("headrace_trash_bytes", help, Unit::Bytes, trash.bytes as f64);
        let help = "Bytes of small files in the metadata that wait to be packed into segments";
        into.gauge("headrace_inline_bytes", help, Unit::Bytes, self.meta().inline_bytes() as f64);
        if let Ok(totals) = self.meta().statfs() {
            let help = "Inodes in the volume";
            into.gauge("headrace_volume_inodes", help, Unit::None, totals.inodes as f64);
            let help = "File data in the volume";
            into.gauge("headrace_volume_bytes", help, Unit::Bytes, totals.bytes as f64);
        }
    }
}

impl Figures {
    fn collect(&self, into: &mut Collection) {
        let (stats, windows) = (&self.stats, &self.windows);
        let help = "Streams of reads that are fetched ahead of their reader";
        into.gauge("headrace_read_streams", help, Unit::None, windows.len() as f64);
        let help = "How far ahead: the windows of all streams together, and the largest";
        let mut family = into.gauges("headrace_read_window_bytes", help, Unit::Bytes);
        family.gauge(&[("of", "all")], windows.iter().sum::<u64>() as f64);
        family.gauge(&[("of", "largest")], windows.iter().copied().max().unwrap_or_default() as f64);
        let help = "Fetches of files under way";
        into.gauge("headrace_read_fetches_in_flight", help, Unit::None, self.in_flight as f64);
        let help = "Fetches that could be under way side by side, as the store is known so far";
        into.gauge("headrace_read_fetches_allowed", help, Unit::None, self.allowed as f64);
        let help = "Whether this machine's processors were the limit when it was last looked, while somebody read (1) or not (0)";
        let busy = f64::from(u8::from(self.processors_busy));
        into.gauge("headrace_read_processors_busy", help, Unit::None, busy);
        let help = "Bytes of files that readers asked for, of those that are fetched in streams";
        into.counter("headrace_read_asked_bytes_total", help, Unit::Bytes, stats.asked);
        let help = "Bytes of files that were fetched for them, or ahead of them";
        into.counter("headrace_read_fetched_bytes_total", help, Unit::Bytes, stats.fetched);
        let help = "Fetched bytes that nobody read";
        into.counter("headrace_read_wasted_bytes_total", help, Unit::Bytes, stats.wasted);
        let help = "Fetches of files";
        into.counter("headrace_read_fetches_total", help, Unit::None, stats.fetches);
        let help = "Fetches that were sent a second time because the first took too long";
        into.counter("headrace_read_hedges_total", help, Unit::None, stats.hedges);
        let help = "Fetches that were given up: nobody wanted them any more, or another one was sooner";
        into.counter("headrace_read_cancelled_total", help, Unit::None, stats.cancelled);
        let help = "Times that a fetch was given up and sent anew because nothing came of it";
        into.counter("headrace_read_hung_total", help, Unit::None, stats.hung);
        let help = "Files that were fetched whole because they were read at random all over";
        into.counter("headrace_read_whole_files_total", help, Unit::None, stats.whole);
    }
}

impl MemoryUse {
    fn pools(&self) -> [(&'static str, Pool); 8] {
        [
            ("dirty", self.dirty),
            ("intake", self.intake),
            ("uploads", self.uploads),
            ("reads", self.reads),
            ("spans", self.spans),
            ("cache", self.cache),
            ("metadata", self.metadata),
            ("tables", self.tables),
        ]
    }

    fn collect(&self, into: &mut Collection) {
        let help = "Memory in use, by what it is for";
        let mut family = into.gauges("headrace_memory_bytes", help, Unit::Bytes);
        for (name, pool) in self.pools() {
            family.gauge(&[("pool", name)], pool.used as f64);
        }
        let help = "Memory that may be in use, by what it is for";
        let mut family = into.gauges("headrace_memory_limit_bytes", help, Unit::Bytes);
        for (name, pool) in self.pools() {
            family.gauge(&[("pool", name)], pool.limit as f64);
        }
        let help = "Those who wait for memory, by what it is for";
        let mut family = into.gauges("headrace_memory_waiting", help, Unit::None);
        for (name, pool) in self.pools() {
            family.gauge(&[("pool", name)], pool.waiting as f64);
        }
        let help = "Ceiling on the memory of this process, as set with --memory";
        into.gauge("headrace_memory_ceiling_bytes", help, Unit::Bytes, self.ceiling as f64);
    }
}
