//! Data of writes that wait for a place in the write budget.
//!
//! The kernel hands a write's data over with the request, before it can be told to wait. Some of it is kept in memory; what is
//! more goes to a file without a name in the state directory until its turn comes, so that a slow store neither takes memory
//! without bound nor keeps requests of other kinds from being read. In the file it is sealed as it would be in the metadata:
//! an encrypted volume leaves nothing plain on a disk.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use headrace_flow::memory::MAX_REQUEST;
use headrace_layout::Codec;
use parking_lot::{Condvar, Mutex};

use crate::error::{Error, Result};

/// Room for one write in the file, sealed.
const SLOT: u64 = MAX_REQUEST + (64 << 10);

/// See the module's description.
pub(crate) struct Intake {
    codec: Codec,
    dir: PathBuf,
    /// Bytes that are kept in memory.
    limit: u64,
    inner: Mutex<Inner>,
    /// What [`Inner::held`] is, for who only wants to look.
    seen: AtomicU64,
    /// Told when less is kept in memory.
    fewer: Condvar,
}

#[derive(Default)]
struct Inner {
    /// Bytes in memory.
    held: u64,
    file: Option<Arc<File>>,
    /// Slots that are in use, as many as there are bits; and how many those are.
    slots: Vec<bool>,
    used: usize,
}

impl Intake {
    /// Keeps up to `limit` bytes in memory, what is more in a file in `dir`.
    pub(crate) fn new(limit: u64, dir: PathBuf, codec: Codec) -> Arc<Intake> {
        Arc::new(Intake {
            codec,
            dir,
            limit,
            inner: Mutex::default(),
            seen: AtomicU64::new(0),
            fewer: Condvar::new(),
        })
    }

    /// Takes a write's data in until [`Waiting::back`].
    pub(crate) fn take(self: &Arc<Self>, data: Bytes) -> Waiting {
        let len = data.len() as u64;
        let slot = {
            let mut inner = self.inner.lock();
            if inner.held.saturating_add(len) <= self.limit || len > MAX_REQUEST {
                None
            } else {
                inner.slot(&self.dir).inspect_err(|error| self.refused(error)).ok()
            }
        };
        if let Some((file, number)) = slot {
            let parked = Parked { intake: Arc::clone(self), number };
            let sealed = self.codec.seal_inline(&data);
            let written = if sealed.len() as u64 > SLOT {
                Err(io::Error::other("the sealed data is larger than its slot"))
            } else {
                file.write_all_at(&sealed, number as u64 * SLOT)
            };
            match written {
                Ok(()) => return Waiting::InFile { parked, file, len: sealed.len() },
                Err(error) => self.refused(&error),
            }
        }
        // More than there is memory for, if need be: then no more requests are read until it is less.
        let mut inner = self.inner.lock();
        inner.held += len;
        self.seen.store(inner.held, Ordering::Release);
        drop(inner);
        Waiting::InMemory { data, _held: Held { intake: Arc::clone(self), len } }
    }

    fn refused(&self, error: &io::Error) {
        let dir = self.dir.display();
        tracing::warn!(%dir, %error, "cannot set written data aside in a file: no more requests are read until there is memory");
    }

    /// Blocks until no more is kept in memory than there may be; false if there still is after `at_most`.
    pub(crate) fn wait_for_room(&self, at_most: Duration) -> bool {
        if self.seen.load(Ordering::Acquire) <= self.limit {
            return true;
        }
        let mut inner = self.inner.lock();
        let until = Instant::now() + at_most;
        while inner.held > self.limit {
            if self.fewer.wait_until(&mut inner, until).timed_out() {
                return inner.held <= self.limit;
            }
        }
        true
    }

    /// Bytes in memory.
    pub(crate) fn held(&self) -> u64 {
        self.seen.load(Ordering::Acquire)
    }

    /// Writes whose data is in the file.
    pub(crate) fn parked(&self) -> u64 {
        self.inner.lock().used as u64
    }
}

impl Inner {
    /// A free slot, the first there is.
    fn slot(&mut self, dir: &Path) -> io::Result<(Arc<File>, usize)> {
        let file = match &self.file {
            Some(file) => Arc::clone(file),
            None => {
                let mut options = OpenOptions::new();
                options.read(true).write(true).mode(0o600).custom_flags(libc::O_TMPFILE | libc::O_CLOEXEC);
                Arc::clone(self.file.insert(Arc::new(options.open(dir)?)))
            }
        };
        let free = self.slots.iter().position(|used| !used).unwrap_or(self.slots.len());
        match self.slots.get_mut(free) {
            Some(slot) => *slot = true,
            None => self.slots.push(true),
        }
        self.used += 1;
        Ok((file, free))
    }
}

/// A write's data that waits.
pub(crate) enum Waiting {
    InMemory {
        data: Bytes,
        _held: Held,
    },
    InFile {
        parked: Parked,
        file: Arc<File>,
        /// Sealed length, bytes.
        len: usize,
    },
}

impl Waiting {
    /// The data.
    ///
    /// # Errors
    /// When the file cannot be read, or does not hold what was written to it.
    pub(crate) fn back(self) -> Result<Bytes> {
        match self {
            Waiting::InMemory { data, .. } => Ok(data),
            Waiting::InFile { parked, file, len } => {
                let mut sealed = vec![0; len];
                file.read_exact_at(&mut sealed, parked.number as u64 * SLOT).map_err(|error| {
                    Error::Internal(format!(
                        "cannot read written data back from a file in {}: {error}",
                        parked.intake.dir.display()
                    ))
                })?;
                Ok(parked.intake.codec.open_inline(&sealed)?)
            }
        }
    }
}

/// Bytes in memory, until dropped.
pub(crate) struct Held {
    intake: Arc<Intake>,
    len: u64,
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut inner = self.intake.inner.lock();
        inner.held = inner.held.saturating_sub(self.len);
        self.intake.seen.store(inner.held, Ordering::Release);
        self.intake.fewer.notify_all();
    }
}

/// A slot of the file, until dropped.
pub(crate) struct Parked {
    intake: Arc<Intake>,
    number: usize,
}

impl Drop for Parked {
    fn drop(&mut self) {
        let mut inner = self.intake.inner.lock();
        if let Some(slot) = inner.slots.get_mut(self.number) {
            *slot = false;
        }
        inner.used = inner.used.saturating_sub(1);
        if inner.used == 0 {
            // The disk has its room back.
            inner.file = None;
            inner.slots = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use headrace_layout::Superblock;

    use super::*;

    fn intake(limit: u64, dir: &std::path::Path) -> Arc<Intake> {
        let superblock = Superblock::new(uuid::Uuid::nil(), "test", 0);
        Intake::new(limit, dir.to_owned(), Codec::new(&superblock, None).expect("codec"))
    }

    fn data(seed: u8, len: usize) -> Bytes {
        (0..len).map(|i| (i as u8).wrapping_mul(31) ^ seed).collect::<Vec<_>>().into()
    }

    #[test]
    fn beyond_its_memory_data_waits_in_a_file_and_comes_back() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let intake = intake(1 << 20, dir.path());
        let waiting: Vec<_> = (0..8).map(|n| intake.take(data(n, 700 << 10))).collect();
        assert_eq!((intake.held(), intake.parked()), (700 << 10, 7));
        assert!(intake.wait_for_room(Duration::ZERO));
        for (n, waiting) in waiting.into_iter().enumerate().rev() {
            assert_eq!(waiting.back().expect("back"), data(n as u8, 700 << 10));
        }
        assert_eq!((intake.held(), intake.parked()), (0, 0));
        assert!(intake.inner.lock().file.is_none(), "the disk should have its room back");
        assert_eq!(std::fs::read_dir(dir.path()).expect("list").count(), 0);
    }

    #[test]
    fn without_a_disk_memory_is_taken_and_whoever_reads_requests_waits() {
        let intake = intake(1 << 20, std::path::Path::new("/nonexistent"));
        let waiting: Vec<_> = (0..3).map(|n| intake.take(data(n, 1 << 20))).collect();
        assert_eq!((intake.held(), intake.parked()), (3 << 20, 0));
        assert!(!intake.wait_for_room(Duration::from_millis(1)));
        let told = std::thread::spawn({
            let intake = Arc::clone(&intake);
            move || intake.wait_for_room(Duration::from_secs(60))
        });
        drop(waiting);
        assert!(told.join().expect("no panic"));
    }
}
