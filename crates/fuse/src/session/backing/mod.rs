//! Backing files: files of a local disk that the kernel reads, writes and maps in place of asking here (passthrough).
//!
//! The kernel knows a backing file by a number it gives out, and wants the same number for all opens of an inode. So there is
//! one from the first open that has a backing file until the last such open is released.

mod ioctl;
mod table;

use std::io;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

pub(super) use ioctl::{allowed, close, open};
use table::{Closing, Table};

use super::transport::Transport;
use crate::abi::InitFlags;
use crate::{Backing, Errno, FileId, InodeNo};

const SHARDS: usize = 16;

/// The number the kernel knows a backing file by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BackingId(pub i32);

/// All backing files of a mount.
pub(crate) struct Backings {
    /// `None`: the kernel takes none.
    transport: Option<Arc<dyn Transport>>,
    shards: [Mutex<Table>; SHARDS],
    /// Inodes that have one: mostly none, and then a release needs no lock.
    inodes: AtomicUsize,
}

impl Backings {
    /// Without a `transport`, every one is refused.
    pub fn new(transport: Option<Arc<dyn Transport>>) -> Self {
        Backings { transport, shards: Default::default(), inodes: AtomicUsize::new(0) }
    }

    fn shard(&self, ino: InodeNo) -> &Mutex<Table> {
        &self.shards[(ino.0 % SHARDS as u64) as usize]
    }

    /// `file`, an open file of `ino` that the kernel is about to be told of, has this backing file, until it is released.
    ///
    /// # Errors
    /// What the kernel says: `EPERM` without `CAP_SYS_ADMIN`, `ELOOP` for a file on a stacked file system, `EOPNOTSUPP` where it
    /// takes none at all. `EBUSY`: the inode is open with another backing file.
    pub fn hold(&self, ino: InodeNo, file: FileId, backing: &Backing) -> Result<BackingId, Errno> {
        let transport = self.transport.as_ref().ok_or(Errno::EOPNOTSUPP)?;
        let open = || {
            let id = transport.open_backing(backing.0.as_fd())?;
            self.inodes.fetch_add(1, Ordering::Release);
            Ok(id)
        };
        let held = self.shard(ino).lock().hold(ino, file, backing, open);
        held.map_err(|error| Errno::new(error.raw_os_error().unwrap_or(libc::EIO)))
    }

    /// An open file is gone, or the kernel was not told of it after all.
    ///
    /// To be called before the file system is told: it may then give the inode another backing file.
    pub fn release(&self, ino: InodeNo, file: FileId) {
        if self.inodes.load(Ordering::Acquire) == 0 {
            return;
        }
        let closing = self.shard(ino).lock().release(ino, file);
        if let Some(closing) = closing {
            self.close(&closing);
        }
    }

    /// The connection has ended: no release will come any more.
    pub fn release_all(&self) {
        for shard in &self.shards {
            let closing = shard.lock().clear();
            closing.iter().for_each(|closing| self.close(closing));
        }
    }

    fn close(&self, closing: &Closing) {
        self.inodes.fetch_sub(1, Ordering::Release);
        if let Some(transport) = &self.transport
            && let Err(error) = transport.close_backing(closing.id)
        {
            tracing::error!(
                id = closing.id.0,
                "the kernel does not give a cached file back, whose space stays in use until the unmount: {error}"
            );
        }
    }
}

/// Whether the kernel reads files by itself for this mount, or why not, for a person to read.
pub(super) fn possible(transport: &dyn Transport, agreed: InitFlags) -> Result<(), String> {
    if !agreed.contains(InitFlags::PASSTHROUGH) {
        return Err("this kernel has no FUSE passthrough; Linux has it from 6.9 on, if built with \
                    CONFIG_FUSE_PASSTHROUGH"
            .to_owned());
    }
    transport.backing_allowed().map_err(|error: io::Error| match error.raw_os_error() {
        Some(libc::EPERM) => {
            "the kernel allows FUSE passthrough only to processes with CAP_SYS_ADMIN: mount as root"
                .to_owned()
        }
        _ => format!("the kernel refuses FUSE passthrough: {error}"),
    })
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;

    use super::super::transport::Received;
    use super::*;

    /// What it says when it is asked for backing files.
    struct Says(i32);

    impl Transport for Says {
        fn receive(&self, _space: &mut [u8]) -> io::Result<Received> {
            Ok(Received::Ended)
        }

        fn send(&self, _message: &[IoSlice<'_>]) -> io::Result<()> {
            Ok(())
        }

        fn backing_allowed(&self) -> io::Result<()> {
            if self.0 == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(self.0)) }
        }
    }

    #[test]
    fn why_it_is_not_possible_is_said() {
        let agreed = InitFlags::PASSTHROUGH;
        assert_eq!(possible(&Says(0), agreed), Ok(()));
        let why = |errno, agreed| possible(&Says(errno), agreed).unwrap_err();
        assert!(why(0, InitFlags::empty()).contains("6.9"));
        assert!(why(libc::EPERM, agreed).contains("CAP_SYS_ADMIN"));
        assert!(why(libc::ENOTTY, agreed).contains("Inappropriate ioctl"));
    }

    #[test]
    fn none_is_taken_where_there_is_no_passthrough() {
        let backing = Backing(Arc::new(std::fs::File::open("/dev/null").unwrap()));
        let refused = |backings: Backings| backings.hold(InodeNo(2), FileId(1), &backing).unwrap_err();
        assert_eq!(refused(Backings::new(None)), Errno::EOPNOTSUPP);
        // A transport that knows of no backing files.
        assert_eq!(refused(Backings::new(Some(Arc::new(Says(0))))), Errno::EOPNOTSUPP);
        assert_eq!(Arc::strong_count(&backing.0), 1);
    }
}
