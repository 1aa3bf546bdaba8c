//! One memory ceiling for the whole process, divided into pools: every bound on memory is computed here and nowhere else.
//!
//! The ceiling is on anonymous memory, which only this process can give back. Outside it are what every program has (its
//! text, its threads' stacks, what the allocator cannot hand back) and [`MemoryPlan::mapped`], pages of the metadata engine's
//! file that the kernel can drop at any time: together less than [`OVERHEAD`].
//!
//! A pool is a bound, not a reservation: what is not used is not taken from the system.

/// The least ceiling, bytes: below it a pool could not hold the largest request it gets.
pub const MIN_CEILING: u64 = 64 << 20;
/// What the process may take beyond its ceiling, bytes: see the [module](self).
pub const OVERHEAD: u64 = 64 << 20;
/// Largest request of a front end, in either direction, bytes.
pub const MAX_REQUEST: u64 = 1 << 20;
/// What a front end's buffer for one such request takes, bytes.
pub const REQUEST_BUFFER: u64 = MAX_REQUEST + (12 << 10);
/// What an open file takes at most, bytes: handle, state of the file, entries in the tables. Measured: about 700.
pub const OPEN_FILE: u64 = 1 << 10;
/// What a request that waits takes beside its data, bytes: its state and its place in the queue.
pub const WAITING_REQUEST: u64 = 2 << 10;
/// Open files, at most, however much memory there is.
pub const MAX_OPEN_FILES: u64 = 1 << 20;

/// The ceiling is divided into so many shares.
const SHARES: u64 = 32;
/// Anonymous memory that one changed key can cost while the engine writes a group: the page it is on, a page of the log, and
/// its share of the pages above.
const PAGES_PER_KEY: u64 = 5 << 10;
/// Pages of a group beyond the engine's share, bytes: a part of [`OVERHEAD`]. Keys nearly always share pages, and groups that are
/// very small cost a sync each.
const PAGES_BEYOND: u64 = 8 << 20;
/// Pages of the engine's file that may be mapped at one time, bytes.
const MAPPED: u64 = 16 << 20;
/// Largest object of the metadata log, and part of a snapshot, bytes.
const MAX_LOG_OBJECT: u64 = 8 << 20;
/// Buffered metadata that starts a commit, at most, bytes: beyond it groups gain nothing.
const MAX_FREEZE: u64 = 16 << 20;
/// Stored bytes of a segment beyond its contents, in parts of the contents: checksums, seals, index.
const SEGMENT_OVERHEAD: u64 = 32;

/// How a ceiling is divided. All sizes in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryPlan {
    /// The ceiling: what was asked for, or [`MIN_CEILING`].
    pub ceiling: u64,
    /// Written data, from acceptance until its extents are committed and nothing refers to it any more.
    pub dirty: u64,
    /// Data of writes that wait for a place in `dirty`; what is more waits in a file.
    pub intake: u64,
    /// Segments that are built and uploaded.
    pub uploads: u64,
    /// Data that goes into one such segment, at most: two of them fit `uploads` side by side.
    pub batch: u64,
    /// Data on its way from the store to readers.
    pub reads: u64,
    /// What of `reads` is for files that are fetched ahead of their readers.
    pub streams: u64,
    /// What of `dirty` is lent to `streams` while nobody writes.
    pub lent_to_streams: u64,
    /// What of it is lent to `cache_queue` then.
    pub lent_to_cache: u64,
    /// Cached pieces of segments of small files.
    pub spans: u64,
    /// Data on its way to a cache on local disks.
    pub cache_queue: u64,
    /// Indexes of such a cache.
    pub cache_index: u64,
    /// The metadata engine: `pending` and the pages of `group_keys`, but for a part of those.
    pub engine: u64,
    /// Metadata changes that are not on disk yet.
    pub pending: u64,
    /// Those of them that go to disk together.
    pub group: u64,
    /// Keys that go to disk together.
    pub group_keys: u64,
    /// Pending metadata that starts a commit although nobody waits for one.
    pub freeze: u64,
    /// The metadata log and its snapshots on their way to the store.
    pub log: u64,
    /// Plain bytes of one log object or snapshot part. One being shipped and one being read or written, three forms of each
    /// (as read, encoded, sealed), fit `log`.
    pub log_object: u64,
    /// Buffers that requests of the kernel are read into.
    pub requests: u64,
    /// Threads that may read them.
    pub workers: u64,
    /// Buffers kept for later beside theirs.
    pub spare_buffers: u64,
    /// Packing, compaction and checking, one of them at a time.
    pub rewrite: u64,
    /// Stored bytes of a segment that they build.
    pub rewrite_segment: u64,
    /// Bytes that they read in one piece, at most; as stored and as they are, it fits beside a segment.
    pub rewrite_piece: u64,
    /// Open files, waiting requests, inodes that the kernel knows.
    pub tables: u64,
    /// Files that may be open.
    pub open_files: u64,
    /// Requests that may wait before no more are taken from the kernel.
    pub waiting_requests: u64,
    /// Mapped pages of the metadata engine's file. Not anonymous, so not in the ceiling.
    pub mapped: u64,
}

impl MemoryPlan {
    /// Divides `ceiling` bytes (taken for [`MIN_CEILING`] if less) for a volume whose segments are `segment_size` bytes.
    pub fn new(ceiling: u64, segment_size: u64) -> MemoryPlan {
        let ceiling = ceiling.max(MIN_CEILING);
        let share = ceiling / SHARES;
        let uploads = 5 * share;
        let largest_batch = contents_of(uploads / 2);
        let engine = 3 * share;
        let pending = share / 2;
        let requests = 2 * share;
        let buffers = requests / REQUEST_BUFFER;
        // A worker that hands its buffer on takes another before the first comes back.
        let workers = buffers.saturating_sub(1).max(1);
        let rewrite = 2 * share;
        let tables = 3 * share;
        MemoryPlan {
            ceiling,
            dirty: 8 * share,
            intake: share,
            uploads,
            batch: segment_size.clamp(1, largest_batch),
            reads: 4 * share,
            streams: 3 * share,
            lent_to_streams: 9 * share / 2,
            // Of a GiB read at 1 GB/s with all processors busy, 2 shares left out up to 139 MB under a ceiling of 1 GiB, this up to 23 MB.
            lent_to_cache: 5 * share / 2,
            spans: share,
            cache_queue: share - share / 4,
            cache_index: share / 4,
            engine,
            pending,
            group: pending / 2,
            group_keys: (engine - pending + PAGES_BEYOND) / PAGES_PER_KEY,
            freeze: (pending / 4).min(MAX_FREEZE),
            log: 2 * share,
            log_object: (pending / 2).min(MAX_LOG_OBJECT),
            requests,
            workers,
            spare_buffers: buffers.saturating_sub(workers),
            rewrite,
            rewrite_segment: segment_size.clamp(1, rewrite / 2),
            rewrite_piece: rewrite / 4,
            tables,
            open_files: (tables / 3 / OPEN_FILE).min(MAX_OPEN_FILES),
            waiting_requests: tables / 3 / WAITING_REQUEST,
            mapped: MAPPED,
        }
    }

    /// The same where segments are sent from the memory that data was written to: of what is for building them a fifth is enough for what
    /// describes that data, the rest is for readers.
    #[must_use]
    pub fn without_copies(self) -> MemoryPlan {
        let left = self.uploads - self.uploads / 5;
        let (uploads, reads, streams) = (self.uploads - left, self.reads + left, self.streams + left);
        MemoryPlan { uploads, reads, streams, ..self }
    }

    /// The same where nothing is kept on local disks: what would be lent for that is lent to readers.
    #[must_use]
    pub fn without_cache(self) -> MemoryPlan {
        let lent_to_streams = self.lent_to_streams + self.lent_to_cache;
        MemoryPlan { lent_to_streams, lent_to_cache: 0, ..self }
    }

    /// What an upload of `contents` bytes takes from `uploads`.
    pub fn upload(contents: u64) -> u64 {
        contents.saturating_add(contents / SEGMENT_OVERHEAD).saturating_add(64 << 10)
    }
}

/// The largest contents for which [`MemoryPlan::upload`] is at most `stored`.
fn contents_of(stored: u64) -> u64 {
    let room = stored.saturating_sub(64 << 10);
    room - room.div_ceil(SEGMENT_OVERHEAD + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plans() -> impl Strategy<Value = MemoryPlan> {
        let ceilings = prop_oneof![Just(MIN_CEILING), MIN_CEILING..=(2 << 30), MIN_CEILING..=(1 << 44)];
        (ceilings, (20u32..=28).prop_map(|bits| 1u64 << bits)).prop_map(|(c, s)| MemoryPlan::new(c, s))
    }

    proptest! {
        #[test]
        fn the_parts_are_within_the_ceiling(plan in plans()) {
            let parts = [
                plan.dirty, plan.intake, plan.uploads, plan.reads, plan.spans, plan.engine, plan.log,
                plan.requests, plan.rewrite, plan.tables, plan.cache_queue + plan.cache_index,
            ];
            prop_assert!(parts.iter().sum::<u64>() <= plan.ceiling);
            prop_assert!(parts.iter().all(|part| *part >= 2 << 20), "{plan:?}");
        }

        #[test]
        fn the_largest_request_fits_its_pool(plan in plans()) {
            // Written: one batch being uploaded, and one being filled.
            prop_assert!(plan.dirty >= 2 * plan.batch + MAX_REQUEST);
            prop_assert!(plan.dirty >= plan.lent_to_streams + plan.lent_to_cache + MAX_REQUEST, "a write while all of that is lent");
            prop_assert!(plan.intake >= MAX_REQUEST && plan.cache_queue >= MAX_REQUEST);
            prop_assert!(2 * MemoryPlan::upload(plan.batch) <= plan.uploads);
            // Read: stored and plain, and the spans that small pieces come in.
            prop_assert!(plan.reads >= 2 * (MAX_REQUEST + (1 << 20)) + (4 << 20));
            // Metadata: an inline value or an extended attribute of 64 KiB with what belongs to it.
            prop_assert!(plan.group >= 256 << 10 && plan.group_keys >= 256);
            prop_assert!(plan.pending + plan.group_keys * PAGES_PER_KEY <= plan.engine + PAGES_BEYOND);
            prop_assert!(plan.freeze < plan.group && plan.group < plan.pending);
            prop_assert!(2 * 3 * plan.log_object.max(plan.group) <= plan.log && plan.log_object >= 512 << 10);
            prop_assert!((plan.workers + plan.spare_buffers) * REQUEST_BUFFER <= plan.requests);
            prop_assert!(plan.workers >= 2);
            prop_assert!(plan.rewrite_segment + 2 * plan.rewrite_piece <= plan.rewrite);
            prop_assert!(plan.rewrite_piece >= 256 << 10);
            let (open, waiting) = (plan.open_files * OPEN_FILE, plan.waiting_requests * WAITING_REQUEST);
            prop_assert!(open + waiting <= plan.tables && plan.open_files >= 2048 && plan.waiting_requests >= 1024);
        }

        #[test]
        fn readers_have_what_copies_do_not_need(plan in plans()) {
            let without = plan.without_copies();
            prop_assert_eq!(without.uploads + without.reads, plan.uploads + plan.reads);
            prop_assert_eq!(without.reads - without.streams, plan.reads - plan.streams);
            prop_assert!(without.streams > plan.streams);
            // All that may be written at one time on its way at once, in whole segments.
            let segments = plan.dirty.div_ceil(plan.batch);
            prop_assert!(segments * (MemoryPlan::upload(plan.batch) - plan.batch) <= without.uploads, "{without:?}");
        }

        #[test]
        fn more_memory_is_never_less_of_anything(a in MIN_CEILING..=(1u64 << 34), b in MIN_CEILING..=(1u64 << 34)) {
            let (small, large) = (MemoryPlan::new(a.min(b), 16 << 20), MemoryPlan::new(a.max(b), 16 << 20));
            prop_assert!(small.dirty <= large.dirty && small.batch <= large.batch && small.reads <= large.reads);
            prop_assert!(small.workers <= large.workers && small.open_files <= large.open_files);
        }

        #[test]
        fn a_batch_is_no_larger_than_its_share(stored in (64u64 << 10)..(1 << 40)) {
            prop_assert!(MemoryPlan::upload(contents_of(stored)) <= stored);
            prop_assert!(MemoryPlan::upload(contents_of(stored) + 2) > stored, "and no smaller than need be");
        }
    }

    #[test]
    fn what_is_promised_and_what_the_kernel_is_told() {
        assert_eq!((MIN_CEILING, OVERHEAD, MAX_REQUEST), (64 << 20, 64 << 20, 1 << 20));
        assert_eq!(REQUEST_BUFFER, (1 << 20) + 12_288, "three pages beside the data");
    }

    #[test]
    fn an_upload_takes_its_contents_and_what_describes_them() {
        assert_eq!(MemoryPlan::upload(0), 64 << 10);
        assert_eq!(MemoryPlan::upload(3_200 << 10), (3_200 + 100 + 64) << 10);
    }

    #[test]
    fn less_than_the_least_is_the_least() {
        assert_eq!(MemoryPlan::new(0, 16 << 20), MemoryPlan::new(MIN_CEILING, 16 << 20));
    }

    #[test]
    fn segments_are_whole_where_memory_allows() {
        assert_eq!(MemoryPlan::new(256 << 20, 16 << 20).batch, 16 << 20);
        assert!(MemoryPlan::new(MIN_CEILING, 16 << 20).batch >= 4 << 20);
    }
}
