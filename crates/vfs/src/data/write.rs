//! The write path up to the buffer.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Instant;

use bytes::Bytes;
use headrace_layout::{CHUNK_SIZE, InodeNo};
use headrace_meta::{MetaError, SetAttr, Time};

use super::patience::Patience;
use crate::admission::Charge;
use crate::backpressure::Place;
use crate::error::{Error, Result};
use crate::handles::{FileId, OpenFile};
use crate::inode::{FileState, Inode};
use crate::names::CAPABILITY;
use crate::vfs::Vfs;

/// End of the last byte that can be written: what chunk numbers can name.
const MAX_WRITE_END: u64 = (u32::MAX as u64 + 1) * CHUNK_SIZE;

impl Vfs {
    /// Writes `data` at `offset`; answers how many bytes were accepted: all. Waits while the write budget is used up; dropping
    /// the future before it is ready leaves nothing written. `kill_suid`: the writer is not allowed to keep set-id bits.
    pub fn write(
        self: &Arc<Self>,
        _ino: InodeNo,
        file: FileId,
        offset: u64,
        data: Bytes,
        kill_suid: bool,
    ) -> impl Future<Output = Result<u32>> + Send + use<> {
        let vfs = Arc::clone(self);
        async move {
            let open = vfs.handles.get(file)?;
            if !open.writable() {
                return Err(Error::BadHandle);
            }
            let len = u32::try_from(data.len()).map_err(|_| Error::Invalid("write of more than 4 GiB"))?;
            if offset.checked_add(u64::from(len)).is_none_or(|end| end > MAX_WRITE_END) {
                return Err(MetaError::FileTooBig.into());
            }
            if len == 0 {
                return Ok(0);
            }
            if let Some(staged) = open.staged_file() {
                vfs.drop_privileges(&open.inode, kill_suid)?;
                vfs.write_staged(&open, staged, offset, data).await?;
                return Ok(len);
            }
            vfs.lender.written();
            let ((place, charge), data) = {
                let admitted = vfs.admitted(&open, u64::from(len));
                tokio::pin!(admitted);
                match futures::poll!(&mut admitted) {
                    Poll::Ready(admitted) => (admitted?, data),
                    Poll::Pending => {
                        let waiting = vfs.intake.take(data);
                        (admitted.await?, waiting.back()?)
                    }
                }
            };
            let data = charge.attach(data);
            let inode = &open.inode;
            vfs.drop_privileges(inode, kill_suid)?;
            let pending = {
                let mut state = inode.state.lock();
                state.passing_change(|passing| passing.write(offset, &data))?;
                vfs.accept(inode.ino, &mut state, offset, &data, Some(place));
                state.dirty.pending_len()
            };
            inode.accessed.outdated();
            if pending >= vfs.plan.batch {
                vfs.start_full_uploads(inode);
            }
            if open.synchronous() || vfs.options.sync {
                vfs.make_durable(&open).await?;
            }
            Ok(len)
        }
    }

    /// Takes written bytes in; `place`: the leave to do so, if it was asked for.
    pub(crate) fn accept(
        &self,
        ino: InodeNo,
        state: &mut FileState,
        offset: u64,
        data: &Bytes,
        place: Option<Place>,
    ) {
        let before = (state.dirty.charge(), state.dirty.pending_len());
        state.dirty.write(offset, data);
        self.admission.adjust(before.0, state.dirty.charge());
        let more = state.dirty.pending_len().saturating_sub(before.1);
        match place {
            Some(place) => place.written(more),
            None => self.backpressure.adjust(ino, 0, more),
        }
        state.size = state.size.max(offset + data.len() as u64);
        state.mtime = Some(Time::now());
        state.dirty_since.get_or_insert_with(Instant::now);
    }

    /// Leave to write, and the memory for it.
    ///
    /// # Errors
    /// A failure that this open file has not heard of; the store's refusal, if it takes nothing; that nothing was stored for the store's
    /// deadline.
    async fn admitted(&self, open: &OpenFile, len: u64) -> Result<(Place, Charge)> {
        let patience = Patience::new("waiting for the store to take what was written before");
        let place = async {
            let place = self.backpressure.admit(open.inode.ino, len).await?;
            Ok((place, self.admission.acquire(len).await))
        };
        tokio::pin!(place);
        loop {
            let failed = self.outage.failed.notified();
            tokio::pin!(failed);
            failed.as_mut().enable();
            open.unheard()?;
            if let Some(refusal) = self.outage.refusal() {
                return Err(refusal);
            }
            let either = async {
                tokio::select! {
                    biased;
                    place = &mut place => Some(place),
                    () = failed => None,
                }
            };
            if let Some(place) = self.in_time(&patience, either).await? {
                return place;
            }
        }
    }

    /// What a change of the file's bytes takes away.
    pub(super) fn drop_privileges(&self, inode: &Inode, kill_suid: bool) -> Result<()> {
        if kill_suid {
            self.drop_set_id(inode)?;
        }
        self.drop_capability(inode)
    }

    fn drop_capability(&self, inode: &Inode) -> Result<()> {
        if inode.without_capability.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        match self.meta().getxattr(inode.ino, CAPABILITY) {
            Ok(_) => Ok(self.meta().removexattr(inode.ino, CAPABILITY)?),
            Err(MetaError::NoData) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn drop_set_id(&self, inode: &Inode) -> Result<()> {
        if self.meta().getattr(inode.ino)?.mode & 0o6000 != 0 {
            self.meta().setattr(inode.ino, &SetAttr { kill_suid: true, ..SetAttr::default() })?;
        }
        Ok(())
    }
}
