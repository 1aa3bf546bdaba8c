//! Open files and directories by the number the front end knows them by.

use std::collections::HashMap;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use crate::caching::modes::Mode;
use crate::caching::passing::Passing;
use crate::error::{Error, Result};
use crate::inode::Pinned;
use crate::inode::failures::Heard;

/// An open file or directory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct FileId(pub u64);

/// A complete local copy of a file's bytes, which the kernel may use in place of asking for them. All opens of an inode that have one
/// have the same.
#[derive(Clone, Debug)]
pub struct Backing(pub Arc<File>);

impl PartialEq for Backing {
    fn eq(&self, other: &Backing) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Backing {}

/// How the front end should treat an open file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OpenMode {
    /// What the kernel has cached of the file is still good.
    pub keep_cache: bool,
    /// Pass every read and write on.
    pub direct_io: bool,
    /// Closing it needs no flush.
    pub noflush: bool,
    /// The kernel may read this file instead; with `direct_io` it only must know of it, since other opens of the inode are read
    /// from it, and reads and writes are passed on all the same.
    pub backing: Option<Backing>,
}

/// What an open file remembers.
pub(crate) struct OpenFile {
    pub inode: Pinned,
    pub flags: i32,
    pub opened: Instant,
    /// How it is served.
    pub mode: Mutex<Mode>,
    /// It was read through [`crate::streaming`], which is to hear of its end.
    pub streamed: AtomicBool,
    /// Failures of background writing that it was told of.
    heard: Heard,
}

impl OpenFile {
    pub(crate) fn new(inode: Pinned, flags: i32, mode: Mode) -> Self {
        let heard = inode.state.lock().failures.heard_at_open();
        OpenFile {
            inode,
            flags,
            opened: Instant::now(),
            mode: Mutex::new(mode),
            streamed: AtomicBool::new(false),
            heard,
        }
    }

    /// Tells of a failure of background writing that this open file has not heard of.
    pub(crate) fn unheard(&self) -> Result<()> {
        self.inode.state.lock().failures.tell(&self.heard).map_or(Ok(()), Err)
    }

    /// The same for a close, which tells nobody for certain: a child closes its copies of a file at its exec.
    pub(crate) fn unheard_at_close(&self) -> Result<()> {
        self.inode.state.lock().failures.untold(&self.heard).map_or(Ok(()), Err)
    }

    pub(crate) fn writable(&self) -> bool {
        self.flags & libc::O_ACCMODE != libc::O_RDONLY
    }

    /// It may have been written through a mapping of a local file.
    pub(crate) fn maps_what_is_passed(&self) -> bool {
        *self.mode.lock() == Mode::Beside { maps: true }
    }

    /// The local file that the kernel reads for others, if this one is open beside such.
    pub(crate) fn reads_what_is_passed(&self) -> Option<Backing> {
        if !matches!(*self.mode.lock(), Mode::Beside { .. }) {
            return None;
        }
        self.inode.state.lock().passing.as_ref().map(Passing::backing)
    }

    /// Whether it is a local file.
    pub(crate) fn is_staged(&self) -> bool {
        matches!(*self.mode.lock(), Mode::Staged { .. })
    }

    /// The local file that it is, if it is written back.
    pub(crate) fn staged_file(&self) -> Option<Arc<File>> {
        if !self.is_staged() {
            return None;
        }
        self.inode.state.lock().staged.as_ref().and_then(|staged| staged.file.clone())
    }

    /// Each write must be durable before it is acknowledged.
    pub(crate) fn synchronous(&self) -> bool {
        self.flags & libc::O_DSYNC != 0
    }
}

const SHARDS: usize = 16;

/// All open files.
pub(crate) struct Handles {
    next: AtomicU64,
    open: AtomicU64,
    limit: u64,
    shards: Vec<Mutex<HashMap<FileId, Arc<OpenFile>>>>,
}

impl Handles {
    /// At most `limit` open files.
    pub(crate) fn new(limit: u64) -> Self {
        Handles {
            next: AtomicU64::new(1),
            open: AtomicU64::new(0),
            limit,
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
        }
    }

    fn shard(&self, file: FileId) -> &Mutex<HashMap<FileId, Arc<OpenFile>>> {
        &self.shards[(file.0 % SHARDS as u64) as usize]
    }

    pub(crate) fn number(&self) -> FileId {
        FileId(self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// Whether one more file may be opened. To be asked before a file is created only to be opened.
    pub(crate) fn has_room(&self) -> Result<()> {
        let limit = self.limit;
        if self.open.load(Ordering::Relaxed) < limit { Ok(()) } else { Err(Error::TooManyOpen { limit }) }
    }

    pub(crate) fn insert(&self, open: OpenFile) -> Result<FileId> {
        if self.open.fetch_add(1, Ordering::Relaxed) >= self.limit {
            self.open.fetch_sub(1, Ordering::Relaxed);
            return Err(Error::TooManyOpen { limit: self.limit });
        }
        let file = self.number();
        self.shard(file).lock().insert(file, Arc::new(open));
        Ok(file)
    }

    pub(crate) fn get(&self, file: FileId) -> Result<Arc<OpenFile>> {
        self.shard(file).lock().get(&file).cloned().ok_or(Error::BadHandle)
    }

    pub(crate) fn remove(&self, file: FileId) -> Option<Arc<OpenFile>> {
        let mut shard = self.shard(file).lock();
        let removed = shard.remove(&file)?;
        if shard.len() < shard.capacity() / 8 {
            let keep = shard.len() * 2;
            shard.shrink_to(keep);
        }
        self.open.fetch_sub(1, Ordering::Relaxed);
        Some(removed)
    }

    pub(crate) fn len(&self) -> usize {
        self.open.load(Ordering::Relaxed) as usize
    }

    /// Files that may be open.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// Ends all of them: the front end is gone.
    pub(crate) fn clear(&self) {
        for shard in &self.shards {
            let open = std::mem::take(&mut *shard.lock());
            self.open.fetch_sub(open.len() as u64, Ordering::Relaxed);
            drop(open);
        }
    }
}
