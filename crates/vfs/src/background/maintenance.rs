//! Keeps the volume in shape: packing, compaction, garbage collection. One thread, one thing at a time, so that it never takes
//! more than its share of the store or of memory.

use std::sync::Weak;
use std::time::{Duration, Instant, SystemTime};

use headrace_volume::gc::gc_dead;
use headrace_volume::{
    Compactor, PackPlanner, PackReport, PackStep, VolumeError, compact_chunk, gc, pack_telling,
};

use crate::vfs::Vfs;

/// Chunks of files compacted before everything else has its turn: one who overwrites all over makes new ones all the time.
const CHUNKS: usize = 16;
/// How often segments are looked at for compaction and dead ones deleted.
const ROUND: Duration = Duration::from_secs(60);
/// How often the store is listed to find objects that metadata does not know.
const SWEEP: Duration = Duration::from_secs(24 * 3600);

struct Maintenance {
    started: Instant,
    planner: PackPlanner,
    compactor: Compactor,
    next_round: Duration,
    next_sweep: Duration,
}

pub(super) fn run(weak: Weak<Vfs>) {
    let mut work: Option<Maintenance> = None;
    loop {
        let Some(vfs) = weak.upgrade() else { return };
        if vfs.background.stopping() {
            return;
        }
        let work = work.get_or_insert_with(|| Maintenance {
            started: Instant::now(),
            planner: PackPlanner::new(u32::try_from(vfs.volume.memory.rewrite_segment).unwrap_or(u32::MAX)),
            compactor: Compactor::new(),
            next_round: ROUND,
            next_sweep: SWEEP,
        });
        let wait = work.step(&vfs);
        vfs.background.maintenance.wait(wait);
    }
}

impl Vfs {
    /// Moves up to `max_bytes` of small files' data out of the metadata into segments, and keeps these in the cache.
    ///
    /// # Errors
    /// The store or the metadata fails. What was moved is moved.
    pub async fn pack(&self, max_bytes: u64) -> Result<PackReport, VolumeError> {
        pack_telling(&self.volume, max_bytes, &|segment, object| self.keep_packed(segment, object)).await
    }
}

impl Maintenance {
    /// Does what is due; how long to wait for the next.
    fn step(&mut self, vfs: &Vfs) -> Duration {
        let now = self.started.elapsed();
        let wait = match self.planner.step(now, vfs.meta().inline_bytes()) {
            PackStep::Wait(wait) => wait,
            PackStep::Pack { max_bytes } => {
                self.pack(vfs, max_bytes);
                Duration::ZERO
            }
        };
        if vfs.background.stopping() {
            return Duration::ZERO;
        }
        let chunks = self.compact_chunks(vfs);
        if wait.is_zero() || chunks > 0 {
            vfs.cached_bytes_moved();
        }
        if now >= self.next_round {
            self.round(vfs);
            self.next_round = self.started.elapsed() + ROUND;
        }
        if now >= self.next_sweep {
            let sweep = gc(&vfs.volume, vfs.options.grace, false, &|_| ());
            match vfs.background.until_stopped(&vfs.runtime, sweep) {
                None => return Duration::ZERO,
                Some(Ok(report)) => tracing::info!(?report, "looked for unknown objects"),
                Some(Err(error)) => {
                    tracing::warn!(%error, "cannot look for unknown objects; tried again tomorrow")
                }
            }
            self.next_sweep = self.started.elapsed() + SWEEP;
        }
        wait
    }

    fn pack(&mut self, vfs: &Vfs, max_bytes: u64) {
        match vfs.background.until_stopped(&vfs.runtime, vfs.pack(max_bytes)) {
            None => {}
            Some(Ok(report)) => {
                tracing::debug!(?report, "packed small files");
                self.planner.packed(self.started.elapsed(), report.bytes);
            }
            Some(Err(error)) => {
                tracing::warn!(%error, "packing small files failed; it is tried again");
                self.planner.failed(self.started.elapsed());
            }
        }
    }

    /// How many there were.
    fn compact_chunks(&mut self, vfs: &Vfs) -> usize {
        for done in 0..CHUNKS {
            if vfs.background.stopping() {
                return done;
            }
            let Some((ino, chunk)) = vfs.background.next_chunk() else { return done };
            match vfs.background.until_stopped(&vfs.runtime, compact_chunk(&vfs.volume, ino, chunk)) {
                None => return done,
                Some(Ok(report)) => tracing::debug!(%ino, chunk, ?report, "compacted a chunk"),
                Some(Err(error)) => tracing::warn!(%ino, chunk, %error, "cannot compact a chunk"),
            }
        }
        CHUNKS
    }

    fn round(&mut self, vfs: &Vfs) {
        let now = SystemTime::now();
        let compacted = self.compactor.round(&vfs.volume, now, &|_| ());
        match vfs.background.until_stopped(&vfs.runtime, compacted) {
            None => return,
            Some(Ok(report)) => tracing::debug!(?report, "compacted segments"),
            Some(Err(error)) => tracing::warn!(%error, "cannot compact segments"),
        }
        vfs.cached_bytes_moved();
        match vfs.background.until_stopped(&vfs.runtime, gc_dead(&vfs.volume, now, vfs.options.grace)) {
            None => {}
            Some(Ok(report)) => tracing::debug!(?report, "deleted dead segments"),
            Some(Err(error)) => tracing::warn!(%error, "cannot delete dead segments"),
        }
    }
}
