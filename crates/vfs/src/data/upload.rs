//! Batches become segments; segments become extents, in the order the batches were taken.

use std::sync::Arc;

use headrace_layout::SegmentBuilder;
use headrace_meta::{DataCommit, NewData, NewExtent};
use headrace_volume::PendingSegment;

use crate::error::{Error, Result};
use crate::inode::dirty::{Batch, BatchId};
use crate::inode::{FileState, Inode, StoredBatch};
use crate::vfs::Vfs;

impl Vfs {
    /// Takes and uploads whole segments of what is pending, and leaves the rest for more to come.
    pub(crate) fn start_full_uploads(self: &Arc<Self>, inode: &Arc<Inode>) {
        let segment = u64::from(self.volume.superblock.segment_size);
        let mut state = inode.state.lock();
        while state.dirty.pending_len() >= segment {
            let Some(batch) = state.dirty.take_batch(segment) else { break };
            self.spawn_upload(inode, batch);
        }
    }

    /// Takes and uploads everything that is pending.
    pub(crate) fn take_all(self: &Arc<Self>, inode: &Arc<Inode>, state: &mut FileState) {
        let segment = u64::from(self.volume.superblock.segment_size);
        while let Some(batch) = state.dirty.take_batch(segment) {
            self.spawn_upload(inode, batch);
        }
    }

    fn spawn_upload(self: &Arc<Self>, inode: &Arc<Inode>, batch: Batch) {
        let (vfs, inode) = (Arc::clone(self), Arc::clone(inode));
        // Its id is taken in the order of the batches, so that a rebuild from segments alone knows which one is newer.
        let segment = self.volume.begin_segment();
        self.runtime.spawn(async move {
            let place = vfs.uploads.clone().acquire_owned().await;
            let id = batch.id;
            let (worker_vfs, worker_inode) = (Arc::clone(&vfs), Arc::clone(&inode));
            // Building is work for the processor and a local store blocks: neither belongs on the runtime's own threads.
            let done = tokio::task::spawn_blocking(move || {
                let _place = place;
                let uploaded = worker_vfs.upload(&worker_inode, &batch, segment);
                worker_vfs.uploaded(&worker_inode, batch.id, uploaded);
            });
            if let Err(panicked) = done.await {
                vfs.uploaded(&inode, id, Err(Error::Internal(format!("uploading failed: {panicked}"))));
            }
        });
    }

    fn upload(&self, inode: &Inode, batch: &Batch, guard: PendingSegment) -> Result<StoredBatch> {
        let volume = &self.volume;
        let id = guard.id();
        let mut builder = SegmentBuilder::new(&volume.codec, volume.superblock.uuid, id);
        let mut pieces = Vec::new();
        for (offset, run) in batch.runs() {
            let parts: Vec<&[u8]> = run.iter().map(|(_, data)| &data[..]).collect();
            let len = parts.iter().map(|p| p.len()).sum::<usize>() as u32;
            let slice = builder
                .push_run(inode.ino, offset, &parts)
                .map_err(|e| Error::Internal(format!("batch of {} bytes: {e}", batch.len())))?;
            pieces.push(NewExtent { offset, len, data: NewData::Segment(slice) });
        }
        volume.describe(&mut builder);
        let body = builder.finish();
        let stored = body.len() as u64;
        self.runtime.block_on(volume.store.put(&id.object_key(), body))?;
        Ok(StoredBatch { pieces, segments: vec![(id, stored)], end: batch.end(), _guard: Some(guard) })
    }

    fn uploaded(&self, inode: &Inode, id: BatchId, result: Result<StoredBatch>) {
        match result {
            Ok(stored) => {
                inode.state.lock().stored.insert(id, stored);
            }
            Err(error) => {
                tracing::error!(ino = %inode.ino, %error, "cannot store written data; it is kept and tried again");
                self.give_back(inode, id, error);
            }
        }
        self.commit_stored(inode);
    }

    /// Commits every batch whose turn it is.
    pub(crate) fn commit_stored(&self, inode: &Inode) {
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
            match self.meta().commit_write(inode.ino, &commit).map_err(Error::from) {
                Ok(_) => self.batch_committed(inode, id, mtime),
                // Deleted meanwhile: its bytes are nobody's; the object is found by garbage collection.
                Err(error) if error.is_gone() => self.batch_committed(inode, id, mtime),
                Err(error) => {
                    tracing::error!(ino = %inode.ino, %error, "cannot commit written data; it is kept and tried again");
                    self.give_back(inode, id, error);
                }
            }
        }
        drop(in_order);
        inode.changed.notify_waiters();
        self.inodes.evict(inode.ino);
    }

    fn batch_committed(&self, inode: &Inode, id: BatchId, mtime: Option<headrace_meta::Time>) {
        let mut state = inode.state.lock();
        let released = state.dirty.committed(id);
        if state.mtime == mtime && state.dirty.is_clean() {
            state.mtime = None;
        }
        if state.dirty.is_clean() {
            state.dirty_since = None;
        }
        drop(state);
        self.admission.release(released);
    }

    /// The bytes are pending again; whoever flushes next hears of the failure.
    fn give_back(&self, inode: &Inode, id: BatchId, error: Error) {
        let mut state = inode.state.lock();
        let released = state.dirty.restore(id);
        state.error = Some(error);
        // Not at once again: the flusher waits its time.
        state.dirty_since = Some(std::time::Instant::now());
        drop(state);
        match u64::try_from(released) {
            Ok(bytes) => self.admission.release(bytes),
            Err(_) => self.admission.force(released.unsigned_abs()),
        }
    }
}
