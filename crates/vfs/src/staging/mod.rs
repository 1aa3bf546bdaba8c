//! Writing back: new files are written to this machine's disk, by the kernel itself where it can, and stored behind that.
//!
//! From its creation until all of it is stored and committed, and nobody has it open any more, such a *staged* file's bytes are in one local
//! file ([`directory`]), and in nothing else that counts: what metadata has of it meanwhile is unfinished. So nothing has to be journaled
//! with a write, and after a crash the local file is stored anew ([`replay`]). Metadata has the file's names and attributes from the beginning.
//!
//! The kernel tells nobody of what it writes by itself; what changed is seen by the local file's length and times. When to store and when to
//! remove it is decided in [`life`]. Its bytes go the way of all written data from there on ([`store`]), and the local file into the cache
//! ([`finish`]).

mod directory;
mod file;
mod finish;
mod life;
mod replay;
mod run;
mod serve;
mod status;
mod store;

pub(crate) use file::Staged;
pub(crate) use run::run;
pub use status::WritebackStatus;

use std::collections::{HashSet, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use headrace_cache::disk::is_open_elsewhere;
use headrace_layout::InodeNo;
use headrace_volume::Pacer;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::inode::FileState;
use crate::options::VfsOptions;
use directory::Directory;

/// A part of the disk, of which this much stays free: one in so many. Half of what the cache leaves free, which gives way for these files.
const FREE_PART: u64 = 20;
/// What is kept for metadata: one part in so many of the disk, and so many bytes at most.
const RESERVE_PART: u64 = 16;
const RESERVE_MAX: u64 = 256 << 20;
/// With fewer bytes free metadata is given that.
const LITTLE: u64 = 4 << 20;

/// The staged files of a mount.
pub(crate) struct Staging {
    /// Whether there are to be new ones.
    takes_new: bool,
    /// How many there may be before there are no new ones: each takes memory, as an open file does.
    files_limit: u64,
    /// Bytes that they may take on the disk before there are no new ones.
    limit: Option<u64>,
    /// Bytes of them that are stored in a second at most.
    rate: Option<u64>,
    /// `None` where there never were any.
    directory: Option<Directory>,
    /// Those to be looked at.
    queue: Mutex<VecDeque<InodeNo>>,
    wake: Notify,
    /// Those to be looked at again in a while.
    watched: Mutex<HashSet<InodeNo>>,
    /// Those that somebody has open, which grow unheard.
    open: Mutex<HashSet<InodeNo>>,
    /// Those of which everything is stored and committed.
    stored: Mutex<Vec<InodeNo>>,
    /// Those whose files are deleted.
    doomed: Mutex<Vec<Staged>>,
    files: AtomicU64,
    bytes: AtomicU64,
    /// Whether the disk has room.
    room: AtomicBool,
    /// Whether some of it is kept for metadata.
    reserved: AtomicBool,
    /// Bytes stored since the mount.
    stored_bytes: AtomicU64,
    pacer: Mutex<Pacer>,
    clock: Clock,
    /// Told when one is stored, or removed.
    changed: Notify,
}

impl Staging {
    /// The one in `path`, with so many files at most.
    ///
    /// # Errors
    /// The directory cannot be made or opened.
    pub(crate) fn open(options: &VfsOptions, path: PathBuf, files_limit: u64) -> Result<Staging> {
        let takes_new = options.writeback.is_some() && !options.read_only;
        let place = path.display().to_string();
        let directory = Directory::open(path, takes_new).map_err(|error| {
            Error::Internal(format!(
                "cannot open the directory for files to be written back, {place}: {error}"
            ))
        })?;
        let staging = Staging {
            takes_new,
            files_limit,
            limit: options.writeback.and_then(|writeback| writeback.limit),
            rate: options.writeback.and_then(|writeback| writeback.rate),
            directory,
            queue: Mutex::default(),
            wake: Notify::new(),
            watched: Mutex::default(),
            open: Mutex::default(),
            files: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            room: AtomicBool::new(true),
            reserved: AtomicBool::new(false),
            stored: Mutex::default(),
            doomed: Mutex::default(),
            stored_bytes: AtomicU64::new(0),
            pacer: Mutex::default(),
            clock: Clock::new(),
            changed: Notify::new(),
        };
        if !options.read_only {
            staging.end();
        }
        staging.measure_room();
        Ok(staging)
    }

    /// Whether there may be staged files.
    pub(crate) fn is_used(&self) -> bool {
        self.directory.is_some()
    }

    /// Whether one more new file is to be staged.
    fn has_room(&self) -> bool {
        self.takes_new
            && self.room.load(Ordering::Relaxed)
            && self.files.load(Ordering::Relaxed) < self.files_limit
            && self.limit.is_none_or(|limit| self.bytes.load(Ordering::Relaxed) < limit)
    }

    /// Looks whether the disk has room for more.
    fn measure_room(&self) -> bool {
        let Some(directory) = &self.directory else { return false };
        let (size, free) = directory.space().unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot look how much room there is for files to be written back");
            (1, LITTLE)
        });
        let room = free >= (size / FREE_PART).max(1) && free > LITTLE;
        self.room.store(room, Ordering::Relaxed);
        if free < LITTLE {
            self.release_reserve();
        } else if room && self.takes_new && !self.reserved.load(Ordering::Relaxed) {
            let reserved = directory.reserve((size / RESERVE_PART).min(RESERVE_MAX));
            self.reserved.store(reserved.is_ok(), Ordering::Relaxed);
        }
        room
    }

    /// Gives metadata the room that was kept for it, once the disk is full: whether there was any. What frees room is a change of metadata.
    pub(crate) fn release_reserve(&self) -> bool {
        let released = self.reserved.swap(false, Ordering::Relaxed)
            && self.directory.as_ref().is_some_and(Directory::release_reserve);
        if released {
            tracing::warn!(
                "files to be written back have filled this machine's disk: new files go to the store directly"
            );
        }
        released
    }

    /// There are no new ones any more, or none yet.
    pub(crate) fn end(&self) {
        let Some(directory) = &self.directory else { return };
        if let Err(error) = directory.tidy() {
            tracing::warn!(%error, "cannot tidy up the directory for files to be written back");
        }
    }

    /// Makes the names of local files durable. Blocks.
    fn sync_names(&self) -> Result<()> {
        self.directory.as_ref().map_or(Ok(()), Directory::sync).map_err(|error| serve::local(&error))
    }

    /// Has a file looked at.
    pub(crate) fn enqueue(&self, ino: InodeNo) {
        self.queue.lock().push_back(ino);
        self.wake.notify_one();
    }

    fn watch(&self, ino: InodeNo) {
        self.watched.lock().insert(ino);
    }

    /// Counts what a file takes.
    fn count(&self, staged: &mut Staged, bytes: u64) {
        self.bytes.fetch_add(bytes.wrapping_sub(staged.counted), Ordering::Relaxed);
        staged.counted = bytes;
    }

    /// One more.
    fn add(&self, state: &mut FileState, mut staged: Staged) {
        self.files.fetch_add(1, Ordering::Relaxed);
        let bytes = staged.last.allocated;
        self.count(&mut staged, bytes);
        state.staged = Some(Box::new(staged));
    }

    /// A file that is deleted needs no local file any more, as soon as it is durable that it is: a crash before that brings it back.
    pub(crate) fn drop_staged(&self, ino: InodeNo, state: &mut FileState) {
        if let Some(mut staged) = self.take(ino, state) {
            staged.file = None;
            self.doomed.lock().push(staged);
        }
    }

    /// A file is not staged any more.
    fn take(&self, ino: InodeNo, state: &mut FileState) -> Option<Staged> {
        let mut staged = *state.staged.take()?;
        self.count(&mut staged, 0);
        self.files.fetch_sub(1, Ordering::Relaxed);
        self.open.lock().remove(&ino);
        self.watched.lock().remove(&ino);
        self.changed.notify_waiters();
        Some(staged)
    }

    /// Removes a local file, or keeps it for another file if nobody else has it.
    fn remove(&self, mut staged: Staged) {
        let Some(directory) = &self.directory else { return };
        // Opened if it is not.
        let _ = staged.open(directory);
        let sole = staged.file.take().filter(|file| !staged.mappable || !is_open_elsewhere(file));
        let removed = match &sole {
            Some(file) => directory.recycle(staged.name, file),
            None => directory.remove(staged.name),
        };
        if let Err(error) = removed {
            let ino = staged.name.ino;
            tracing::error!(%ino, %error, "cannot remove the local copy of a file that is written back");
        }
    }
}
