//! Bytes that are there.

use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use bytes::Bytes;

use super::entry::Entry;

/// Bytes of an entry that are in its file, and stay there while this lives.
pub struct Hit {
    pub(super) entry: Arc<Entry>,
    pub(super) range: Range<u64>,
    /// Keeps the chunks from being punched.
    pub(super) _users: Vec<Arc<()>>,
    /// Groups that were not compared with their checksums since the start.
    pub(super) unverified: Vec<(u32, u32)>,
    /// Groups that may not be on the disk yet.
    pub(super) volatile: Vec<(u32, u32)>,
}

impl Hit {
    /// The bytes, if they can be had without waiting for a disk. `None`: [`Self::read`] them.
    pub fn read_now(&self) -> Option<Bytes> {
        if !self.unverified.is_empty() || !self.volatile.is_empty() {
            return None;
        }
        let len = usize::try_from(self.range.end - self.range.start).ok()?;
        let mut bytes: Vec<u8> = Vec::with_capacity(len);
        let space = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: len };
        let (fd, offset) = (self.entry.file().as_raw_fd(), i64::try_from(self.range.start).ok()?);
        // SAFETY: `space` is the spare capacity of `bytes`, which lives and is not touched meanwhile; the kernel writes at most its length.
        #[allow(unsafe_code)]
        let read = unsafe { libc::preadv2(fd, &raw const space, 1, offset, libc::RWF_NOWAIT) };
        if usize::try_from(read) != Ok(len) {
            return None;
        }
        // SAFETY: the kernel has written all of the `len` bytes.
        #[allow(unsafe_code)]
        unsafe {
            bytes.set_len(len);
        }
        Some(Bytes::from(bytes))
    }

    /// The bytes, compared with their checksums if that was not done since the start, or they may not be on the disk yet. Blocks. `None` if they are not what they
    /// were, or cannot be read; then they are not there any more.
    pub fn read(&self) -> Option<Bytes> {
        self.entry.sync_inherited();
        for (chunk, group) in &self.unverified {
            match self.entry.check_group(*chunk, *group, false) {
                Ok(true) => {}
                Ok(false) | Err(_) => return None,
            }
        }
        let bytes = self.entry.read_at(&self.range).inspect_err(|error| self.entry.broken("read", error));
        let bytes = bytes.ok()?;
        // Afterwards: what is right now was right when it was read, since what the kernel drops does not come back.
        let right =
            |(chunk, group): &(u32, u32)| matches!(self.entry.check_group(*chunk, *group, true), Ok(true));
        self.volatile.iter().all(right).then(|| Bytes::from(bytes))
    }
}
