//! Batches become segments; segments become extents, in the order the batches were taken.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use headrace_flow::memory::MemoryPlan;
use headrace_layout::{InodeNo, SegmentBuilder, SegmentId};
use headrace_meta::{DataCommit, NewData, NewExtent};
use headrace_store::Body;
use headrace_volume::PendingSegment;

use super::outage::Attempts;
use crate::admission::Charge;
use crate::error::{Error, Result};
use crate::inode::dirty::{Batch, BatchId};
use crate::inode::{FileState, Inode, StoredBatch};
use crate::vfs::Vfs;

impl Vfs {
    /// Takes and uploads whole segments of what is pending, and leaves the rest for more to come.
    pub(crate) fn start_full_uploads(self: &Arc<Self>, inode: &Arc<Inode>) {
        let segment = self.plan.batch;
        let mut state = inode.state.lock();
        while state.dirty.pending_len() >= segment {
            let Some(batch) = self.take_batch(inode, &mut state, segment) else { break };
            self.spawn_upload(inode, batch);
        }
    }

    /// Takes and uploads everything that is pending.
    pub(crate) fn take_all(self: &Arc<Self>, inode: &Arc<Inode>, state: &mut FileState) {
        let segment = self.plan.batch;
        while let Some(batch) = self.take_batch(inode, state, segment) {
            self.spawn_upload(inode, batch);
        }
    }

    /// Takes up to about `max` pending bytes, which are on their way from now on.
    pub(super) fn take_batch(&self, inode: &Inode, state: &mut FileState, max: u64) -> Option<Batch> {
        let batch = state.dirty.take_batch(max)?;
        state.parts.insert(batch.id, self.backpressure.sent(inode.ino, batch.len()));
        Some(batch)
    }

    /// Forgets what is pending of a file from `start` on.
    pub(crate) fn discard_pending(&self, ino: InodeNo, state: &mut FileState, start: u64) {
        let len = state.dirty.pending_len();
        let (before, after) = state.dirty.discard(start, u64::MAX);
        self.admission.adjust(before, after);
        self.backpressure.adjust(ino, len, state.dirty.pending_len());
    }

    fn spawn_upload(self: &Arc<Self>, inode: &Arc<Inode>, batch: Batch) {
        // Its id is taken in the order of the batches, so that a rebuild from segments alone knows which one is newer.
        let segment = self.volume.begin_segment();
        self.spawn_segment(vec![(Arc::clone(inode), batch)], segment);
    }

    /// Uploads batches, one a file, as one segment. Its id was taken after them, and before any later batch of these files.
    pub(super) fn spawn_segment(
        self: &Arc<Self>,
        batches: Vec<(Arc<Inode>, Batch)>,
        segment: PendingSegment,
    ) {
        let stored = Arc::clone(self).store_segment(batches, segment);
        self.runtime.spawn(stored);
    }

    /// Stores batches, however long it takes: until then their bytes are nowhere else.
    async fn store_segment(self: Arc<Self>, batches: Vec<(Arc<Inode>, Batch)>, segment: PendingSegment) {
        let _place = self.uploads.clone().acquire_owned().await;
        let contents: u64 = batches.iter().map(|(_, batch)| batch.len()).sum();
        // Where bytes are stored as they are, written data goes out from where it is.
        let shared = if self.volume.codec.stores_plain() { contents } else { 0 };
        let memory = self.upload_bytes.acquire(MemoryPlan::upload(contents) - shared).await;
        let (number, key) = (segment.id(), segment.id().object_key());
        let files: Vec<_> =
            batches.iter().map(|(inode, batch)| (Arc::clone(inode), batch.id, batch.end())).collect();
        let mut attempts = Attempts::default();
        // Building is work for the processor, which does not belong on the runtime's own threads. It is built once: what goes out
        // under one key is always the same bytes.
        let vfs = Arc::clone(&self);
        let building = tokio::task::spawn_blocking(move || vfs.build(&batches, number, memory));
        let mut built = flatten(building.await);
        loop {
            let put = match &built {
                Ok((body, _)) => self.volume.store.put_body(&key, body.clone()).await.map_err(Error::from),
                Err(error) => Err(error.clone()),
            };
            let error = match put {
                Ok(()) => {
                    // The store is free for more, whatever its commit waits for.
                    for (inode, id, _) in &files {
                        let part = inode.state.lock().parts.get(id).copied();
                        part.into_iter().for_each(|part| self.backpressure.stored(part));
                    }
                    break;
                }
                Err(error) => error,
            };
            let first = files.first().map_or(0, |(inode, ..)| inode.ino.0);
            let wait = self.outage.failure("store written data", first, &error, &mut attempts);
            for (inode, ..) in &files {
                inode.state.lock().failures.record(error.clone());
                inode.changed.notify_waiters();
            }
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = self.outage.recovered.notified() => {}
            }
            let gone =
                |inode: &Inode| inode.unlinked.load(Ordering::Relaxed) && self.inodes.is_unpinned(inode.ino);
            if files.iter().all(|(inode, ..)| gone(inode)) {
                // Deleted and closed: nobody will miss it.
                self.outage.abandoned(&mut attempts);
                built = Ok((Body::default(), files.iter().map(|_| Vec::new()).collect()));
                break;
            }
        }
        if let Ok((body, pieces)) = built {
            let segments = if body.is_empty() { Vec::new() } else { vec![(number, body.len() as u64)] };
            drop(body);
            let guard = Arc::new(segment);
            for ((inode, id, end), pieces) in files.into_iter().zip(pieces) {
                let stored = StoredBatch {
                    pieces,
                    segments: segments.clone(),
                    end,
                    attempts: std::mem::take(&mut attempts),
                    _guard: Some(Arc::clone(&guard)),
                };
                inode.state.lock().stored.insert(id, stored);
                self.commit_stored(&inode);
            }
        }
    }

    /// The object of batches, and the extents of each. `memory` is for the object's own bytes, for as long as anything refers to them.
    fn build(
        &self,
        batches: &[(Arc<Inode>, Batch)],
        id: SegmentId,
        memory: Charge,
    ) -> Result<(Body, Vec<Vec<NewExtent>>)> {
        let volume = &self.volume;
        let mut builder = SegmentBuilder::for_shared(&volume.codec, volume.superblock.uuid, id);
        let mut extents = Vec::with_capacity(batches.len());
        for (inode, batch) in batches {
            let mut pieces = Vec::new();
            for (offset, run) in batch.runs() {
                let parts: Vec<Bytes> = run.iter().map(|(_, data)| data.clone()).collect();
                let len = parts.iter().map(Bytes::len).sum::<usize>() as u32;
                let slice = builder
                    .push_shared_run(inode.ino, offset, &parts)
                    .map_err(|e| Error::Internal(format!("batch of {} bytes: {e}", batch.len())))?;
                pieces.push(NewExtent { offset, len, data: NewData::Segment(slice) });
            }
            extents.push(pieces);
        }
        volume.describe(&mut builder);
        let mut pieces = builder.finish_pieces();
        let last = pieces.pop().map(|last| memory.attach(last));
        Ok((pieces.into_iter().chain(last).collect(), extents))
    }

    /// Commits every batch whose turn it is.
    pub(crate) fn commit_stored(self: &Arc<Self>, inode: &Arc<Inode>) {
        let in_order = inode.commit.lock();
        loop {
            let (id, mut stored, mtime) = {
                let mut state = inode.state.lock();
                let Some(id) = state.dirty.oldest_batch() else { break };
                let Some(stored) = state.stored.remove(&id) else { break };
                (id, stored, state.mtime)
            };
            let commit = DataCommit {
                pieces: std::mem::take(&mut stored.pieces),
                new_size: Some(stored.end),
                mtime,
                new_segments: std::mem::take(&mut stored.segments),
                kill_suid: false,
            };
            let in_store = !commit.new_segments.is_empty();
            match self.meta().commit_write_counting(inode.ino, &commit).map_err(Error::from) {
                Ok((_, chunks)) => {
                    self.background.chunks_written(inode.ino, &chunks);
                    let whole = self.batch_committed(inode, id, mtime, &stored.attempts, in_store);
                    // Before anything else of this file can be committed.
                    if let Some(content) = whole.filter(|_| in_store) {
                        self.keep_written(inode.ino, &content);
                    }
                }
                // Deleted meanwhile: its bytes are nobody's; the object is found by garbage collection.
                Err(error) if error.is_gone() => {
                    drop(self.batch_committed(inode, id, mtime, &stored.attempts, in_store));
                }
                Err(error) => {
                    let what = "commit written data";
                    let wait = self.outage.failure(what, inode.ino.0, &error, &mut stored.attempts);
                    (stored.pieces, stored.segments) = (commit.pieces, commit.new_segments);
                    let mut state = inode.state.lock();
                    state.failures.record(error);
                    state.stored.insert(id, stored);
                    if !std::mem::replace(&mut state.commit_again, true) {
                        self.commit_again(inode, wait);
                    }
                    break;
                }
            }
        }
        drop(in_order);
        inode.changed.notify_waiters();
        self.inodes.evict(inode.ino);
    }

    fn commit_again(self: &Arc<Self>, inode: &Arc<Inode>, wait: Duration) {
        let (vfs, inode) = (Arc::clone(self), Arc::clone(inode));
        self.runtime.spawn(async move {
            tokio::time::sleep(wait).await;
            let commit = move || {
                inode.state.lock().commit_again = false;
                vfs.commit_stored(&inode);
            };
            // An engine may wait for its disk.
            let _ = tokio::task::spawn_blocking(commit).await;
        });
    }

    /// Answers its bytes if they are worth to be kept.
    fn batch_committed(
        &self,
        inode: &Inode,
        id: BatchId,
        mtime: Option<headrace_meta::Time>,
        attempts: &Attempts,
        stored: bool,
    ) -> Option<Vec<Bytes>> {
        // What only went into metadata says nothing of the store.
        if stored || attempts.has_failed() {
            self.outage.success(attempts);
        }
        let mut state = inode.state.lock();
        if let Some(range) = state.dirty.range_of(id) {
            state.content.changed_from(range.start);
            self.cached_bytes_changed(inode.ino, range);
        }
        let whole = self.whole_and_short(&state, id);
        let released = state.dirty.committed(id);
        let part = state.parts.remove(&id);
        if state.mtime == mtime && state.dirty.is_clean() {
            state.mtime = None;
        }
        if state.dirty.is_clean() {
            state.dirty_since = None;
        }
        drop(state);
        part.into_iter().for_each(|part| self.backpressure.committed(part));
        self.admission.release(released);
        whole
    }
}

fn flatten<T>(joined: Result<Result<T>, tokio::task::JoinError>) -> Result<T> {
    joined.unwrap_or_else(|panicked| Err(Error::Internal(format!("storing written data failed: {panicked}"))))
}
