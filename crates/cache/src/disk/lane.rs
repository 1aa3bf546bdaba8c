//! What entries need of the directory they are in.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;

use headrace_metrics::Counter;
use parking_lot::Mutex;
use rustix::fs::statfs;

use super::worker::Job;

/// What is counted of a directory.
#[derive(Default)]
pub(super) struct Figures {
    /// Bytes answered.
    pub hit_bytes: Counter,
    /// Bytes that came to be cached.
    pub filled_bytes: Counter,
    /// Bytes that were not cached because the disk was behind, or full.
    pub skipped_bytes: Counter,
    /// Bytes evicted or expired.
    pub evicted_bytes: Counter,
    /// Groups whose checksum was wrong.
    pub damaged: Counter,
}

/// The way to a directory's thread, and what everybody may know of it.
pub(super) struct Lane {
    pub path: PathBuf,
    /// Whether room is to be allocated before it is written to: that saves time on ext4, and was measured on no other file system.
    pub preallocates: bool,
    jobs: Sender<Job>,
    failed: Mutex<Option<String>>,
    is_failed: AtomicBool,
    /// Bytes that wait to be written.
    queued: AtomicU64,
    queue_limit: AtomicU64,
    /// Bytes that are there, those included that the index does not know yet.
    pub held: AtomicU64,
    pub figures: Figures,
}

impl Lane {
    pub(super) fn new(path: PathBuf, jobs: Sender<Job>, queue_limit: u64) -> Lane {
        // ext2 and ext3 say the same, and refuse.
        let preallocates = statfs(&path).is_ok_and(|system| system.f_type == libc::EXT4_SUPER_MAGIC);
        Lane {
            path,
            preallocates,
            jobs,
            failed: Mutex::new(None),
            is_failed: AtomicBool::new(false),
            queued: AtomicU64::new(0),
            queue_limit: AtomicU64::new(queue_limit),
            held: AtomicU64::new(0),
            figures: Figures::default(),
        }
    }

    /// Gives the directory's thread something to do. Nothing happens if it has ended.
    pub(super) fn send(&self, job: Job) {
        let _ = self.jobs.send(job);
    }

    pub(super) fn is_failed(&self) -> bool {
        self.is_failed.load(Ordering::Relaxed)
    }

    pub(super) fn failure(&self) -> Option<String> {
        self.failed.lock().clone()
    }

    /// It is not used any more, for the first reason there was.
    pub(super) fn fail(&self, why: String) {
        let mut failed = self.failed.lock();
        if failed.is_none() {
            tracing::warn!(
                directory = %self.path.display(),
                why,
                "the cache does without this directory until the next mount; what was in it is fetched again"
            );
            *failed = Some(why);
            self.is_failed.store(true, Ordering::Relaxed);
        }
    }

    /// A place for so many bytes that wait to be written, if there is one.
    pub(super) fn reserve(self: &Arc<Self>, bytes: u64) -> Option<Reserved> {
        // In the order opposite to who lowers the limit and then asks what is taken: one of both sees the other.
        let before = self.queued.fetch_add(bytes, Ordering::SeqCst);
        let reserved = Reserved { lane: Arc::clone(self), bytes };
        if before + bytes > self.queue_limit.load(Ordering::SeqCst) || self.is_failed() {
            self.figures.skipped_bytes.add(bytes);
            return None;
        }
        Some(reserved)
    }

    /// So many bytes may wait from now on. Those that do already are not thrown away.
    pub(super) fn set_queue(&self, bytes: u64) {
        self.queue_limit.store(bytes, Ordering::SeqCst);
    }

    /// Bytes that wait.
    pub(super) fn queued(&self) -> u64 {
        self.queued.load(Ordering::SeqCst)
    }

    /// Bytes for which there are places.
    pub(super) fn room(&self) -> u64 {
        self.queue_limit.load(Ordering::Relaxed).saturating_sub(self.queued())
    }

    /// Whether less than half of the places are taken.
    pub(super) fn has_room(&self) -> bool {
        self.queued() < self.queue_limit.load(Ordering::Relaxed) / 2
    }

    /// Whether no place is taken.
    pub(super) fn is_idle(&self) -> bool {
        self.queued() == 0
    }

    pub(super) fn release_held(&self, bytes: u64) {
        let _ = self
            .held
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| Some(held.saturating_sub(bytes)));
    }
}

/// Bytes that wait to be written.
pub(super) struct Reserved {
    lane: Arc<Lane>,
    bytes: u64,
}

impl Reserved {
    /// Takes another one of the same lane in.
    pub(super) fn join(&mut self, mut other: Reserved) {
        self.bytes += std::mem::take(&mut other.bytes);
    }

    /// Gives so many of them to another one.
    pub(super) fn split(&mut self, bytes: u64) -> Reserved {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Reserved { lane: Arc::clone(&self.lane), bytes }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.lane.queued.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
