//! Length and allocation: truncate, fallocate, lseek.

use std::future::Future;
use std::sync::Arc;

use headrace_layout::InodeNo;
use headrace_meta::{Kind, MetaError};

use super::patience::Patience;
use crate::error::{Error, Result};
use crate::handles::FileId;
use crate::inode::Inode;
use crate::trash::shown::real;
use crate::vfs::Vfs;

impl Vfs {
    pub(crate) async fn truncate(self: &Arc<Self>, ino: InodeNo, size: u64, kill_suid: bool) -> Result<()> {
        if size > headrace_meta::MAX_FILE_SIZE {
            return Err(MetaError::FileTooBig.into());
        }
        match self.meta().getattr(ino)?.kind {
            Kind::File => {}
            Kind::Directory => return Err(MetaError::IsDirectory.into()),
            _ => return Err(Error::Invalid("only regular files have a length to set")),
        }
        let inode = self.pin(ino)?;
        if self.truncate_staged(&inode, size)? {
            self.drop_privileges(&inode, kill_suid)?;
            return Ok(());
        }
        let _exclusive = inode.exclusive.lock().await;
        // A batch under way would bring bytes back behind the new end.
        let patience = Patience::new("waiting for data written before the truncation");
        while inode.state.lock().dirty.has_batches() {
            self.batches_settled(&inode, &patience).await?;
        }
        let _in_order = inode.commit.lock();
        self.meta().truncate(ino, size, kill_suid)?;
        let mut state = inode.state.lock();
        let kept = size.min(state.size);
        state.content.changed_from(kept);
        self.cached_bytes_changed(ino, kept..u64::MAX);
        state.size = size;
        state.mtime = None;
        self.discard_pending(ino, &mut state, size);
        state.passing_change(|passing| passing.resize(size))
    }

    /// As `fallocate(2)`: allocate, keep-size, punch hole, zero, collapse, insert. Allocation reserves nothing: a store has no
    /// blocks to reserve.
    pub fn fallocate(
        self: &Arc<Self>,
        _ino: InodeNo,
        file: FileId,
        offset: u64,
        len: u64,
        mode: i32,
    ) -> impl Future<Output = Result<()>> + Send + use<> {
        let vfs = Arc::clone(self);
        async move {
            let open = vfs.handles.get(file)?;
            if !open.writable() {
                return Err(Error::BadHandle);
            }
            if len == 0 {
                return Err(Error::Invalid("length of zero"));
            }
            let inode = Arc::clone(&open.inode);
            if vfs.allocate_staged(&inode, offset, len, mode)? {
                return Ok(());
            }
            let _exclusive = inode.exclusive.lock().await;
            if mode & !libc::FALLOC_FL_KEEP_SIZE != 0 {
                vfs.commit_pending_exclusive(&inode).await?;
            }
            vfs.change_allocation(&inode, offset, len, mode)?;
            if mode & !libc::FALLOC_FL_KEEP_SIZE != 0 {
                vfs.pass_on(&inode, offset).await?;
            }
            Ok(())
        }
    }

    fn change_allocation(&self, inode: &Inode, offset: u64, len: u64, mode: i32) -> Result<()> {
        let keep = mode & libc::FALLOC_FL_KEEP_SIZE != 0;
        let _in_order = inode.commit.lock();
        let ino = inode.ino;
        let attr = match mode & !libc::FALLOC_FL_KEEP_SIZE {
            0 => self.meta().allocate(ino, offset, len, keep)?,
            libc::FALLOC_FL_PUNCH_HOLE if keep => self.meta().punch(ino, offset, len)?,
            libc::FALLOC_FL_ZERO_RANGE => self.meta().zero_range(ino, offset, len, keep)?,
            libc::FALLOC_FL_COLLAPSE_RANGE if !keep => self.meta().collapse(ino, offset, len)?,
            libc::FALLOC_FL_INSERT_RANGE if !keep => self.meta().insert(ino, offset, len)?,
            _ => return Err(Error::Unsupported("this mode of fallocate")),
        };
        let mut state = inode.state.lock();
        state.content.changed_from(offset);
        self.cached_bytes_changed(ino, offset..u64::MAX);
        // Nothing is pending after the modes that change the file's length downwards.
        state.size = if state.dirty.is_clean() { attr.size } else { state.size.max(attr.size) };
        state.mtime = None;
        let size = state.size;
        state.passing_change(|passing| passing.resize(size))
    }

    /// `SEEK_DATA` and `SEEK_HOLE`.
    pub fn lseek(
        self: &Arc<Self>,
        ino: InodeNo,
        offset: u64,
        whence: i32,
    ) -> impl Future<Output = Result<u64>> + Send + use<> {
        let (vfs, ino) = (Arc::clone(self), real(ino));
        async move {
            let hole = match whence {
                libc::SEEK_DATA => false,
                libc::SEEK_HOLE => true,
                _ => return Err(Error::Invalid("only SEEK_DATA and SEEK_HOLE come here")),
            };
            if let Some(inode) = vfs.inodes.find(ino) {
                if let Some(found) = vfs.seek_staged(&inode, offset, hole)? {
                    return Ok(found);
                }
                vfs.commit_pending(&inode).await?;
            }
            Ok(vfs.meta().seek(ino, offset, hole)?)
        }
    }
}
