//! Files that are open or have bytes to flush.

mod block;
pub(crate) mod content;
pub(crate) mod dirty;
pub(crate) mod failures;
mod table;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use headrace_cache::disk::Entry;
use headrace_flow::writing::PartId;
use headrace_layout::{InodeNo, SegmentId};
use headrace_meta::{Attr, NewExtent, Time};
use headrace_volume::PendingSegment;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::caching::modes::Opens;
use crate::caching::passing::Passing;
use crate::data::access::Accessed;
use crate::data::outage::Attempts;
use crate::error::Result;
use crate::staging::Staged;
use content::Content;
use dirty::{BatchId, DirtyBuffer};
use failures::Failures;

pub(crate) use table::{InodeTable, Pinned};

/// A regular file that is open, or whose bytes are not all committed.
///
/// Locks, in the order they are taken: `exclusive`, `commit`, `state`; the metadata engine's own come last.
pub(crate) struct Inode {
    pub ino: InodeNo,
    pub state: Mutex<FileState>,
    /// Held while extents or times are committed, so that commits of one file keep their order.
    pub commit: Mutex<()>,
    /// Held by whatever needs the file's extents to stand still: flush, truncate, fallocate, copies.
    pub exclusive: tokio::sync::Mutex<()>,
    /// Told when a batch is committed or has failed.
    pub changed: Notify,
    pub accessed: Accessed,
    /// It has no name any more: nobody will miss its bytes once it is closed.
    pub unlinked: AtomicBool,
    /// What is cached of it, if that is known.
    pub cached: Mutex<Option<Arc<Entry>>>,
    /// File capabilities are known to be gone, so that a write need not look.
    pub without_capability: AtomicBool,
}

/// What changes with every write.
pub(crate) struct FileState {
    pub dirty: DirtyBuffer,
    /// What [`crate::streaming`] may have of it.
    pub content: Content,
    /// The file's length, unflushed bytes included.
    pub size: u64,
    /// How it is open.
    pub opens: Opens,
    /// What the kernel reads by itself, while it does.
    pub passing: Option<Passing>,
    /// It is in a local file, of which what else there is here and in metadata is an unfinished copy.
    pub staged: Option<Box<Staged>>,
    /// Time of the newest write that is not committed.
    pub mtime: Option<Time>,
    /// Failures of background writing.
    pub failures: Failures,
    /// Since when there has been something to flush.
    pub dirty_since: Option<Instant>,
    /// What the batches that are not committed are to [`crate::backpressure`].
    pub parts: HashMap<BatchId, PartId>,
    /// Batches whose bytes are stored, waiting for their turn to be committed.
    pub stored: HashMap<BatchId, StoredBatch>,
    /// Somebody will try again to commit.
    pub commit_again: bool,
}

/// A batch whose bytes are in the store (or sealed for the metadata engine).
pub(crate) struct StoredBatch {
    pub pieces: Vec<NewExtent>,
    pub segments: Vec<(SegmentId, u64)>,
    pub end: u64,
    /// How storing and committing it has been going.
    pub attempts: Attempts,
    /// Keeps garbage collection away until the commit.
    pub _guard: Option<Arc<PendingSegment>>,
}

impl Inode {
    pub(crate) fn new(ino: InodeNo, attr: &Attr) -> Self {
        Inode {
            ino,
            state: Mutex::new(FileState {
                dirty: DirtyBuffer::default(),
                content: Content::default(),
                size: attr.size,
                opens: Opens::default(),
                passing: None,
                staged: None,
                mtime: None,
                failures: Failures::default(),
                dirty_since: None,
                parts: HashMap::new(),
                stored: HashMap::new(),
                commit_again: false,
            }),
            commit: Mutex::new(()),
            exclusive: tokio::sync::Mutex::new(()),
            changed: Notify::new(),
            accessed: Accessed::default(),
            unlinked: AtomicBool::new(attr.nlink == 0),
            cached: Mutex::new(None),
            without_capability: AtomicBool::new(false),
        }
    }
}

impl FileState {
    /// Whether metadata does not have all of it.
    pub(crate) fn has_uncommitted(&self) -> bool {
        self.staged.is_some() || !self.dirty.is_clean()
    }

    /// Changes what the kernel reads by itself, if it does.
    pub(crate) fn passing_change(&mut self, change: impl FnOnce(&mut Passing) -> Result<()>) -> Result<()> {
        self.passing.as_mut().map_or(Ok(()), change)
    }

    /// Corrects attributes that metadata answered by what is not committed yet.
    pub(crate) fn apply(&self, attr: &mut Attr) {
        attr.size = self.size;
        // What is overwritten is not counted twice: the kernel keeps the answer when the bytes are committed.
        let most = attr.allocated.max(self.size);
        attr.allocated = attr.allocated.saturating_add(self.dirty.len()).min(most);
        if let Some(mtime) = self.mtime {
            attr.mtime = mtime;
            attr.ctime = attr.ctime.max(mtime);
        }
    }
}
