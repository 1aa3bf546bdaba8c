//! What goes on while nobody asks: flushing behind, reclaiming deleted files, packing, compaction, garbage collection.

mod flusher;
mod maintenance;
mod reclaim;
mod scrub;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use headrace_layout::InodeNo;
use headrace_volume::{ChunkPlanner, MAX_EXTENTS, ScrubStatus};
use parking_lot::{Condvar, Mutex};
use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::staging;
use crate::vfs::Vfs;

/// However slow the scrub is to be, it looks up once a day.
const LONGEST_REST: Duration = Duration::from_secs(24 * 3600);

/// Handles to the background work.
#[derive(Default)]
pub(crate) struct Background {
    stopping: AtomicBool,
    /// Told when that is set.
    stopped: Notify,
    reclaim: Signal,
    maintenance: Signal,
    scrub: Signal,
    /// Where the scrub is.
    scrubbed: Mutex<Option<ScrubStatus>>,
    flusher: Notify,
    /// Bytes of files that were closed with something pending, since the flusher was last woken for them.
    closed: AtomicU64,
    /// Chunks of files to compact.
    fragmented: Mutex<ChunkPlanner>,
    clock: Clock,
    threads: Mutex<Vec<JoinHandle<()>>>,
    tasks: Mutex<Vec<tokio::task::JoinHandle<()>>>,
}

/// What a background thread runs until it is told to stop or the file system is gone.
type Job = fn(Weak<Vfs>);

/// Wakes one thread; a wake-up before the wait is not lost.
#[derive(Default)]
struct Signal {
    raised: Mutex<bool>,
    condvar: Condvar,
}

impl Signal {
    fn raise(&self) {
        *self.raised.lock() = true;
        self.condvar.notify_one();
    }

    fn wait(&self, at_most: Duration) {
        let mut raised = self.raised.lock();
        if !*raised {
            self.condvar.wait_for(&mut raised, at_most);
        }
        *raised = false;
    }
}

impl Background {
    pub(crate) fn start(vfs: &Arc<Vfs>) -> Result<()> {
        if vfs.options.read_only {
            return Ok(());
        }
        for (name, job) in
            [("reclaim", reclaim::run as Job), ("maintenance", maintenance::run), ("scrub", scrub::run)]
        {
            let weak = Arc::downgrade(vfs);
            let thread = std::thread::Builder::new()
                .name(format!("headrace-{name}"))
                .spawn(move || job(weak))
                .map_err(|e| Error::Internal(format!("cannot start the {name} thread: {e}")))?;
            vfs.background.threads.lock().push(thread);
        }
        let mut tasks = vec![vfs.runtime.spawn(flusher::run(Arc::downgrade(vfs)))];
        if vfs.staging.is_used() {
            tasks.push(vfs.runtime.spawn(staging::run(Arc::downgrade(vfs))));
        }
        vfs.background.tasks.lock().extend(tasks);
        Ok(())
    }

    /// Ends all of it. Work on the volume's shape is dropped where it is; the rest that is under way is finished first.
    pub(crate) async fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.stopped.notify_waiters();
        self.reclaim.raise();
        self.maintenance.raise();
        self.scrub.raise();
        self.flusher.notify_one();
        let tasks = std::mem::take(&mut *self.tasks.lock());
        for task in tasks {
            let _ = task.await;
        }
        let threads = std::mem::take(&mut *self.threads.lock());
        let joined = tokio::task::spawn_blocking(move || threads.into_iter().for_each(|t| drop(t.join())));
        let _ = joined.await;
    }

    /// Where the scrub is; `None` before it has looked.
    pub(crate) fn scrub_status(&self) -> Option<ScrubStatus> {
        self.scrubbed.lock().clone()
    }

    /// Waits for a time, in the scrub's thread; whether to go on.
    fn rest(&self, time: Duration) -> bool {
        let end = Instant::now() + time.min(LONGEST_REST);
        while !self.stopping() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            self.scrub.wait(left);
        }
        false
    }

    /// Does work that may be dropped at any point, as by a crash; none when everything is to end first. A store may be slow, and
    /// nobody who unmounts wants to wait for tidying up.
    fn until_stopped<T>(&self, runtime: &Handle, work: impl Future<Output = T>) -> Option<T> {
        runtime.block_on(async {
            let stopped = self.stopped.notified();
            tokio::pin!(stopped);
            // From here on it is not missed.
            stopped.as_mut().enable();
            if self.stopping() {
                return None;
            }
            tokio::select! {
                biased;
                () = stopped => None,
                done = work => Some(done),
            }
        })
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping()
    }

    fn stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// A deleted file can be reclaimed.
    pub(crate) fn wake(&self) {
        self.reclaim.raise();
    }

    /// Something should be flushed soon.
    pub(crate) fn wake_flusher(&self) {
        self.flusher.notify_one();
    }

    /// A file was closed of which so many bytes are pending. They are flushed with the next round, or when those of all such files fill a
    /// segment of `batch` bytes: together they need fewer requests.
    pub(crate) fn closed(&self, bytes: u64, batch: u64) {
        if self.closed.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) >= batch {
            self.closed.store(0, Ordering::Relaxed);
            self.wake_flusher();
        }
    }

    /// Chunks of a file were written, each of which has so many extents now.
    pub(crate) fn chunks_written(&self, ino: InodeNo, chunks: &[(u32, usize)]) {
        let (now, mut fragmented) = (self.clock.now(), self.fragmented.lock());
        chunks.iter().for_each(|(chunk, extents)| fragmented.written(now, ino, *chunk, *extents));
    }

    /// A chunk of so many extents is read.
    pub(crate) fn chunk_read(&self, ino: InodeNo, chunk: u32, extents: usize) {
        if extents > MAX_EXTENTS {
            self.fragmented.lock().read(self.clock.now(), ino, chunk, extents);
        }
    }

    /// The next chunk to compact.
    fn next_chunk(&self) -> Option<(InodeNo, u32)> {
        self.fragmented.lock().next(self.clock.now())
    }
}
