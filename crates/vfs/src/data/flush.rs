//! From the buffer to extents: close, fsync, and flushing behind.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::StreamExt;
use headrace_layout::InodeNo;
use headrace_meta::{NewData, NewExtent};

use super::outage::Attempts;
use super::patience::Patience;
use crate::error::Result;
use crate::handles::{FileId, OpenFile};
use crate::inode::dirty::Batch;
use crate::inode::{Inode, StoredBatch};
use crate::vfs::Vfs;

/// Sealed bytes that may wait in the metadata engine for the packer; above it small writes become segments of their own.
const INLINE_LIMIT: u64 = 1 << 30;
/// Files flushed side by side.
const FLUSH_WIDTH: usize = 16;

impl Vfs {
    /// One descriptor of an open file was closed: its bytes are visible to every later open, and become extents soon. Not necessarily
    /// durable. Where others may open the file without asking this process, or the store is known not to take data, they are extents
    /// when this is done.
    ///
    /// # Errors
    /// A failure that this open file has not heard of, or that its bytes could not be stored in time. They are kept and tried again.
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
            open.unheard_at_close()?;
            if open.staged_file().is_some() {
                // The local file has it.
                return Ok(());
            }
            if vfs.exclusive() && !vfs.outage.is_on() {
                vfs.hand_over(&open.inode).await
            } else {
                vfs.commit_pending(&open.inode).await
            }
        }
    }

    /// Makes a file durable: its bytes, its attributes and its name.
    ///
    /// # Errors
    /// As [`Self::flush`]. A later call that succeeds says that everything is durable.
    pub fn fsync(
        self: &Arc<Self>,
        _ino: InodeNo,
        file: FileId,
        _datasync: bool,
    ) -> impl Future<Output = Result<()>> + Send + use<> {
        let vfs = Arc::clone(self);
        async move {
            let open = vfs.handles.get(file)?;
            vfs.make_durable(&open).await
        }
    }

    pub(crate) async fn make_durable(self: &Arc<Self>, open: &OpenFile) -> Result<()> {
        open.unheard()?;
        let result = match open.staged_file() {
            Some(_) => self.sync_staged(&open.inode).await,
            None => self.commit_pending(&open.inode).await,
        };
        // What failed meanwhile was made good, or is what is answered.
        let _ = open.unheard();
        result?;
        let engine = &self.volume.engine;
        engine.durable(engine.position()).await?;
        Ok(())
    }

    /// Makes extents of everything that was written before the call.
    ///
    /// # Errors
    /// The bytes could not be stored in time. They stay in memory and are tried again.
    pub(crate) async fn commit_pending(self: &Arc<Self>, inode: &Arc<Inode>) -> Result<()> {
        self.take_mapped_changes(inode).await?;
        if inode.state.lock().dirty.is_clean() {
            return Ok(());
        }
        let patience = Patience::new("waiting for written data");
        {
            let _exclusive = self.in_time(&patience, inode.exclusive.lock()).await?;
            self.take_pending(inode);
        }
        self.batches_settled(inode, &patience).await
    }

    /// Leaves what was written to a file to be flushed behind, together with others; what is small goes into metadata at once.
    ///
    /// # Errors
    /// What was written through a mapping cannot be read.
    pub(crate) async fn hand_over(self: &Arc<Self>, inode: &Arc<Inode>) -> Result<()> {
        self.take_mapped_changes(inode).await?;
        let pending = inode.state.lock().dirty.pending_len();
        if self.fits_metadata(pending) {
            let patience = Patience::new("waiting for others who change the file");
            let _exclusive = self.in_time(&patience, inode.exclusive.lock()).await?;
            self.take_pending(inode);
        } else {
            self.background.closed(pending, self.plan.batch);
        }
        Ok(())
    }

    /// Whether so many pending bytes go into the metadata engine.
    pub(crate) fn fits_metadata(&self, pending: u64) -> bool {
        (1..=u64::from(self.volume.superblock.inline_max)).contains(&pending)
            && self.meta().inline_bytes() < INLINE_LIMIT
    }

    /// The same for a caller that holds [`Inode::exclusive`].
    pub(crate) async fn commit_pending_exclusive(self: &Arc<Self>, inode: &Arc<Inode>) -> Result<()> {
        self.take_mapped_changes(inode).await?;
        self.take_pending(inode);
        self.batches_settled(inode, &Patience::new("waiting for written data")).await
    }

    /// Sends everything that is pending on its way.
    pub(crate) fn take_pending(self: &Arc<Self>, inode: &Arc<Inode>) {
        let small = {
            let mut state = inode.state.lock();
            // Few bytes go into the metadata engine. Their commit waits for the batches that were taken before them.
            if self.fits_metadata(state.dirty.pending_len()) {
                self.take_batch(inode, &mut state, u64::MAX)
            } else {
                self.take_all(inode, &mut state);
                None
            }
        };
        if let Some(batch) = small {
            self.commit_inline(inode, &batch);
        }
    }

    /// Waits until every batch taken so far is committed.
    ///
    /// # Errors
    /// When nothing has been stored for the store's deadline, or when the store has said no meanwhile.
    pub(crate) async fn batches_settled(&self, inode: &Inode, patience: &Patience) -> Result<()> {
        let (last, failures) = {
            let state = inode.state.lock();
            (state.dirty.last_batch(), state.failures.number())
        };
        loop {
            let changed = inode.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            {
                let state = inode.state.lock();
                let behind = state.dirty.oldest_batch().is_some_and(|oldest| Some(oldest) <= last);
                if !behind {
                    return Ok(());
                }
                if let Some(error) =
                    state.failures.since(failures).filter(|error| super::outage::is_final(error))
                {
                    return Err(error.clone());
                }
            }
            self.in_time(patience, changed).await?;
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
        let stored = StoredBatch {
            pieces,
            segments: Vec::new(),
            end: batch.end(),
            attempts: Attempts::default(),
            _guard: None,
        };
        inode.state.lock().stored.insert(batch.id, stored);
        self.commit_stored(inode);
    }

    /// Sends the files that `which` chooses on their way, those that were written first before others; says which.
    pub(crate) fn send_behind(self: &Arc<Self>, which: impl Fn(&Inode) -> bool) -> Vec<Arc<Inode>> {
        let mut dirty: Vec<_> = self.inodes.all().into_iter().filter(|inode| which(inode)).collect();
        dirty.retain(|inode| !inode.state.lock().dirty.is_clean());
        oldest_first(&mut dirty);
        let outage = self.outage.is_on();
        let (mut started, mut small) = (Vec::new(), Vec::new());
        for inode in &dirty {
            let (pending, has_batches) = {
                let state = inode.state.lock();
                (state.dirty.pending_len(), state.dirty.has_batches())
            };
            // What cannot be stored now is left to grow together. Somebody else who holds the file sees to it.
            let stuck = outage && has_batches;
            if let (false, Ok(exclusive)) = (stuck, inode.exclusive.try_lock()) {
                if (1..self.plan.batch).contains(&pending) {
                    small.push((inode, exclusive));
                } else {
                    self.take_pending(inode);
                }
                started.push(Arc::clone(inode));
            }
        }
        self.take_together(small);
        started
    }

    /// Waits for files that are on their way, but not longer than `at_most`.
    pub(crate) async fn settled_behind(&self, files: &[Arc<Inode>], at_most: Duration) {
        let patience = Patience::new("flushing behind");
        let settled = futures::stream::iter(files).for_each_concurrent(None, async |inode| {
            // Whoever wrote it is told, and the log was.
            let _ = self.batches_settled(inode, &patience).await;
            self.inodes.evict(inode.ino);
        });
        let _ = tokio::time::timeout(at_most, settled).await;
    }

    /// Flushes every file.
    ///
    /// # Errors
    /// The first one; the others are flushed all the same.
    pub(crate) async fn flush_dirty(self: &Arc<Self>) -> Result<()> {
        self.flush_those(|_| true).await
    }

    /// Flushes every file that is nowhere but in memory.
    ///
    /// # Errors
    /// The first one; the others are flushed all the same.
    pub(crate) async fn flush_unstaged(self: &Arc<Self>) -> Result<()> {
        self.flush_those(|inode| inode.state.lock().staged.is_none()).await
    }

    async fn flush_those(self: &Arc<Self>, which: impl Fn(&Inode) -> bool) -> Result<()> {
        // Together first: one by one each file would be a segment of its own.
        self.send_behind(&which);
        let mut dirty = self.inodes.all();
        dirty.retain(|inode| which(inode) && !inode.state.lock().dirty.is_clean());
        oldest_first(&mut dirty);
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

/// Sorts files by when they were written first. Each is looked at once: others write meanwhile, and a sort whose order changes may panic.
fn oldest_first(files: &mut [Arc<Inode>]) {
    files.sort_by_cached_key(|inode| inode.state.lock().dirty_since);
}
