//! From the buffer to extents: close, fsync, and flushing behind.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::StreamExt;
use headrace_layout::InodeNo;
use headrace_meta::{NewData, NewExtent};

use crate::error::Result;
use crate::handles::FileId;
use crate::inode::dirty::Batch;
use crate::inode::{Inode, StoredBatch};
use crate::vfs::Vfs;

/// Sealed bytes that may wait in the metadata engine for the packer; above it small writes become segments of their own.
const INLINE_LIMIT: u64 = 1 << 30;
/// Files flushed side by side.
const FLUSH_WIDTH: usize = 16;

impl Vfs {
    /// One descriptor of an open file was closed: its bytes become extents, visible to every later open. Not necessarily durable.
    pub fn flush(
        self: &Arc<Self>,
        _ino: InodeNo,
        file: FileId,
    ) -> impl Future<Output = Result<()>> + Send + use<> {
        let vfs = Arc::clone(self);
        async move {
            let open = vfs.handles.get(file)?;
            if open.inode.unlinked.load(Ordering::Relaxed) {
                return Ok(());
            }
            vfs.commit_pending(&open.inode).await
        }
    }

    /// Makes a file durable: its bytes, its attributes and its name.
    pub fn fsync(
        self: &Arc<Self>,
        _ino: InodeNo,
        file: FileId,
        _datasync: bool,
    ) -> impl Future<Output = Result<()>> + Send + use<> {
        let vfs = Arc::clone(self);
        async move {
            let open = vfs.handles.get(file)?;
            vfs.make_durable(&open.inode).await
        }
    }

    pub(crate) async fn make_durable(self: &Arc<Self>, inode: &Arc<Inode>) -> Result<()> {
        self.commit_pending(inode).await?;
        let engine = &self.volume.engine;
        engine.durable(engine.position()).await?;
        Ok(())
    }

    /// Makes extents of everything that was written before the call.
    ///
    /// # Errors
    /// What went wrong with these bytes, or earlier in the background. They stay in the buffer and are tried again.
    pub(crate) async fn commit_pending(self: &Arc<Self>, inode: &Arc<Inode>) -> Result<()> {
        {
            let mut state = inode.state.lock();
            if state.dirty.is_clean() {
                return state.error.take().map_or(Ok(()), Err);
            }
        }
        let _exclusive = inode.exclusive.lock().await;
        self.commit_pending_exclusive(inode).await
    }

    /// The same for a caller that holds [`Inode::exclusive`].
    pub(crate) async fn commit_pending_exclusive(self: &Arc<Self>, inode: &Arc<Inode>) -> Result<()> {
        let inline_max = u64::from(self.volume.superblock.inline_max);
        let room = self.meta().inline_bytes() < INLINE_LIMIT;
        // Few bytes go into the metadata engine, but only behind batches that were taken before them.
        let small = |pending: u64| pending <= inline_max && room;
        {
            let mut state = inode.state.lock();
            if let Some(error) = state.error.take() {
                return Err(error);
            }
            let pending = state.dirty.pending_len();
            if pending > 0 && !small(pending) {
                self.take_all(inode, &mut state);
            }
        }
        self.batches_settled(inode).await?;
        let rest = {
            let mut state = inode.state.lock();
            let pending = state.dirty.pending_len();
            if pending == 0 {
                None
            } else if small(pending) {
                state.dirty.take_batch(u64::MAX)
            } else {
                self.take_all(inode, &mut state);
                None
            }
        };
        if let Some(batch) = rest {
            self.commit_inline(inode, &batch);
        }
        self.batches_settled(inode).await
    }

    /// Waits until every batch taken so far is committed.
    pub(crate) async fn batches_settled(&self, inode: &Inode) -> Result<()> {
        let last = inode.state.lock().dirty.last_batch();
        loop {
            let changed = inode.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            {
                let mut state = inode.state.lock();
                if let Some(error) = state.error.take() {
                    return Err(error);
                }
                let behind = state.dirty.oldest_batch().is_some_and(|oldest| Some(oldest) <= last);
                if !behind {
                    return Ok(());
                }
            }
            changed.await;
        }
    }

    fn commit_inline(self: &Arc<Self>, inode: &Arc<Inode>, batch: &Batch) {
        let mut pieces = Vec::new();
        for (offset, run) in batch.runs() {
            let len = run.iter().map(|(_, d)| d.len()).sum::<usize>();
            let sealed = match run {
                [(_, only)] => self.volume.codec.seal_inline(only),
                _ => {
                    let mut joined = Vec::with_capacity(len);
                    run.iter().for_each(|(_, d)| joined.extend_from_slice(d));
                    self.volume.codec.seal_inline(&joined)
                }
            };
            pieces.push(NewExtent { offset, len: len as u32, data: NewData::Inline(sealed) });
        }
        let stored = StoredBatch { pieces, segments: Vec::new(), end: batch.end(), _guard: None };
        inode.state.lock().stored.insert(batch.id, stored);
        self.commit_stored(inode);
    }

    /// Flushes the files that `which` chooses.
    ///
    /// # Errors
    /// The first one; the others are flushed all the same.
    pub(crate) async fn flush_dirty(self: &Arc<Self>, which: impl Fn(&Inode) -> bool) -> Result<()> {
        let mut dirty: Vec<_> = self.inodes.all().into_iter().filter(|inode| which(inode)).collect();
        dirty.retain(|inode| !inode.state.lock().dirty.is_clean());
        dirty.sort_by_key(|inode| inode.state.lock().dirty_since);
        let mut flushes = futures::stream::iter(dirty)
            .map(|inode| {
                let vfs = Arc::clone(self);
                async move {
                    let flushed = vfs.commit_pending(&inode).await;
                    vfs.inodes.evict(inode.ino);
                    match flushed {
                        Err(error) if error.is_gone() => Ok(()),
                        other => other,
                    }
                }
            })
            .buffer_unordered(FLUSH_WIDTH);
        let mut first = Ok(());
        while let Some(result) = flushes.next().await {
            if first.is_ok() {
                first = result;
            }
        }
        first
    }
}
