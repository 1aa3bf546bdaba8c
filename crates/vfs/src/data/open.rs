//! Opening and closing.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use headrace_layout::InodeNo;
use headrace_meta::{Kind, MetaError};

use crate::error::Result;
use crate::handles::{FileId, OpenFile, OpenMode};
use crate::vfs::Vfs;

impl Vfs {
    /// Opens a regular file. `flags` as in `open(2)`.
    pub fn open(&self, ino: InodeNo, flags: i32) -> Result<(FileId, OpenMode)> {
        let mode = self.open_mode(flags);
        let inode = self.inodes.pin(ino, || {
            let attr = self.meta().getattr(ino)?;
            match attr.kind {
                Kind::File => Ok(attr),
                Kind::Directory => Err(MetaError::IsDirectory.into()),
                _ => Err(MetaError::Invalid("only regular files are opened here").into()),
            }
        })?;
        let open = OpenFile::new(inode, flags);
        if open.writable() {
            self.writable()?;
        }
        Ok((self.handles.insert(open)?, mode))
    }

    pub(crate) fn open_mode(&self, flags: i32) -> OpenMode {
        OpenMode {
            keep_cache: self.exclusive(),
            direct_io: false,
            noflush: flags & libc::O_ACCMODE == libc::O_RDONLY,
        }
    }

    /// The last descriptor of an open file is gone.
    pub fn release(
        self: &Arc<Self>,
        ino: InodeNo,
        file: FileId,
    ) -> impl Future<Output = Result<()>> + Send + use<> {
        if let Some(open) = self.handles.remove(file) {
            let inode = Arc::clone(&open.inode);
            if open.streamed.load(Ordering::Relaxed) {
                self.fetcher.close(file.0);
            }
            drop(open);
            if inode.unlinked.load(Ordering::Relaxed) {
                self.settle(ino);
            } else if !self.inodes.evict(ino) && self.inodes.is_unpinned(ino) {
                // Something is still to be flushed (a shared mapping, or a failure): soon, and without keeping anybody.
                self.background.wake_flusher();
            }
        }
        std::future::ready(Ok(()))
    }
}
