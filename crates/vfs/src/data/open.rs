//! Opening and closing.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use headrace_layout::InodeNo;
use headrace_meta::{Kind, MetaError};

use crate::error::Result;
use crate::handles::{FileId, OpenFile, OpenMode};
use crate::inode::Pinned;
use crate::trash::shown::{is_shown, real};
use crate::vfs::Vfs;

impl Vfs {
    /// Opens a regular file. `flags` as in `open(2)`.
    pub fn open(self: &Arc<Self>, ino: InodeNo, flags: i32) -> Result<(FileId, OpenMode)> {
        if is_shown(ino) {
            return self.open_shown(ino, flags);
        }
        let inode = self.inodes.pin(ino, || {
            let attr = self.meta().getattr(ino)?;
            match attr.kind {
                Kind::File => Ok(attr),
                Kind::Directory => Err(MetaError::IsDirectory.into()),
                _ => Err(MetaError::Invalid("only regular files are opened here").into()),
            }
        })?;
        if flags & libc::O_ACCMODE != libc::O_RDONLY {
            self.writable()?;
        }
        self.handle(inode, flags)
    }

    /// An open file of an inode.
    pub(crate) fn handle(self: &Arc<Self>, inode: Pinned, flags: i32) -> Result<(FileId, OpenMode)> {
        let (mode, answer) = self.enter(&inode, flags)?;
        let kept = Arc::clone(&inode);
        match self.handles.insert(OpenFile::new(inode, flags, mode)) {
            Ok(file) => Ok((file, answer)),
            Err(error) => {
                self.left(&kept, mode);
                self.staging.enqueue(kept.ino);
                Err(error)
            }
        }
    }

    pub(crate) fn open_mode(&self, flags: i32) -> OpenMode {
        OpenMode {
            keep_cache: self.exclusive(),
            direct_io: false,
            noflush: flags & libc::O_ACCMODE == libc::O_RDONLY,
            backing: None,
        }
    }

    /// The last descriptor of an open file is gone.
    pub fn release(
        self: &Arc<Self>,
        ino: InodeNo,
        file: FileId,
    ) -> impl Future<Output = Result<()>> + Send + use<> {
        let (vfs, ino) = (Arc::clone(self), real(ino));
        let open = self.handles.remove(file);
        let mapped =
            open.as_ref().filter(|open| open.maps_what_is_passed()).map(|open| Arc::clone(&open.inode));
        async move {
            let taken = match mapped {
                Some(inode) => vfs.take_mapped_changes(&inode).await,
                None => Ok(()),
            };
            if let Err(error) = &taken {
                tracing::error!(%ino, %error, "what was written through a mapping of a file is lost");
            }
            let staged = open.as_ref().filter(|open| open.is_staged()).map(|open| Arc::clone(&open.inode));
            vfs.released(ino, file, open);
            if let Some(inode) = staged {
                vfs.closed_staged(&inode).await;
            }
            taken
        }
    }

    fn released(self: &Arc<Self>, ino: InodeNo, file: FileId, open: Option<Arc<OpenFile>>) {
        if let Some(open) = open {
            let inode = Arc::clone(&open.inode);
            if open.streamed.load(Ordering::Relaxed) {
                self.fetcher.close(file.0);
            }
            self.left(&inode, *open.mode.lock());
            drop(open);
            if inode.unlinked.load(Ordering::Relaxed) {
                self.settle(ino);
            } else {
                // Something may still be to be flushed: soon, and without keeping anybody.
                self.inodes.evict(ino);
            }
        }
    }
}
