//! Open files and directories by the number the front end knows them by.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::inode::Pinned;

/// An open file or directory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct FileId(pub u64);

/// How the front end should treat an open file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpenMode {
    /// What the kernel has cached of the file is still good.
    pub keep_cache: bool,
    /// Pass every read and write on.
    pub direct_io: bool,
    /// Closing it needs no flush.
    pub noflush: bool,
}

/// What an open file remembers.
pub(crate) struct OpenFile {
    pub inode: Pinned,
    pub flags: i32,
}

impl OpenFile {
    pub(crate) fn writable(&self) -> bool {
        self.flags & libc::O_ACCMODE != libc::O_RDONLY
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
    shards: Vec<Mutex<HashMap<FileId, Arc<OpenFile>>>>,
}

impl Handles {
    pub(crate) fn new() -> Self {
        Handles { next: AtomicU64::new(1), shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }

    fn shard(&self, file: FileId) -> &Mutex<HashMap<FileId, Arc<OpenFile>>> {
        &self.shards[(file.0 % SHARDS as u64) as usize]
    }

    pub(crate) fn number(&self) -> FileId {
        FileId(self.next.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn insert(&self, open: OpenFile) -> FileId {
        let file = self.number();
        self.shard(file).lock().insert(file, Arc::new(open));
        file
    }

    pub(crate) fn get(&self, file: FileId) -> Result<Arc<OpenFile>> {
        self.shard(file).lock().get(&file).cloned().ok_or(Error::BadHandle)
    }

    pub(crate) fn remove(&self, file: FileId) -> Option<Arc<OpenFile>> {
        self.shard(file).lock().remove(&file)
    }

    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|s| s.lock().len()).sum()
    }

    /// Ends all of them: the front end is gone.
    pub(crate) fn clear(&self) {
        for shard in &self.shards {
            let open = std::mem::take(&mut *shard.lock());
            drop(open);
        }
    }
}
