//! What is cached of open files, and reading it.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use headrace_cache::disk::{CHUNK, Entry, Filling, Hit, Key};
use headrace_flow::reading::Kept;
use headrace_layout::{ExtentMap, InodeNo, SegmentId};

use super::print::print;
use crate::inode::dirty::BatchId;
use crate::inode::{FileState, Inode};
use crate::vfs::Vfs;

/// Files up to this length are kept when they are written, bytes: beginning to fetch one takes longer than the rest of it.
const KEEP_WRITTEN: u64 = 4 << 20;
/// Bytes handed to the cache at a time, each of which may be left out.
const PIECE: usize = 1 << 20;
/// A disk that takes longer is done without for this read.
const PATIENCE: Duration = Duration::from_secs(5);

impl Vfs {
    /// The print of a chunk of a file as it is now.
    pub(crate) fn print_of(&self, ino: InodeNo, chunk: u32) -> Option<u64> {
        self.print_map(ino, &self.meta().extents(ino, chunk).ok()?)
    }

    /// The same of extents that were looked up.
    pub(crate) fn print_map(&self, ino: InodeNo, map: &ExtentMap) -> Option<u64> {
        print(map, |id| {
            let sealed = self.meta().inline_value(ino, id).ok().flatten()?;
            Some(twox_hash::XxHash3_64::oneshot(&sealed))
        })
    }

    /// Bytes have moved and are what they were: what is cached of them is to be known by their new places.
    pub(crate) fn cached_bytes_moved(&self) {
        if let Some(cache) = &self.cache {
            cache.disk.moved(&|key, chunk| match key {
                Key::File(ino) => self.print_of(ino, chunk),
                Key::Segment(_) => Some(0),
            });
        }
    }

    /// What is cached of an open file, if anything.
    pub(crate) fn entry_of(&self, inode: &Inode) -> Option<Arc<Entry>> {
        let cache = self.cache.as_ref()?;
        let mut known = inode.cached.lock();
        if let Some(entry) = known.as_ref().filter(|entry| !entry.is_dead()) {
            return Some(Arc::clone(entry));
        }
        *known = cache.disk.find(Key::File(inode.ino));
        known.clone()
    }

    /// Whether the cache keeps what is fetched now of a file, or of segments, of so many bytes, and has room for all of it.
    pub(crate) fn keeps_fetched(&self, key: Key, len: u64) -> Kept {
        let room = self.cache.as_ref().and_then(|cache| cache.disk.takes(key, len));
        room.map_or(Kept::No, |room| Kept::Yes { room })
    }

    /// The bytes of `range`, if all of them are on a local disk.
    pub(crate) async fn read_entry(
        &self,
        entry: &Arc<Entry>,
        ino: InodeNo,
        range: Range<u64>,
    ) -> Option<Bytes> {
        let hit = entry.find(range, &|chunk| self.print_of(ino, chunk))?;
        self.read_hit(hit).await
    }

    /// The bytes, if the disk still has them as they were.
    pub(crate) async fn read_hit(&self, hit: Hit) -> Option<Bytes> {
        if let Some(bytes) = hit.read_now() {
            return Some(bytes);
        }
        let read = self.runtime.spawn_blocking(move || hit.read());
        match tokio::time::timeout(PATIENCE, read).await {
            Ok(done) => done.ok().flatten(),
            Err(_) => {
                tracing::warn!(
                    "the cache's disk has not answered a read for {PATIENCE:?}: it comes from the store"
                );
                None
            }
        }
    }

    /// Takes bytes of a file that are fetched from `offset` on into the cache. `prints`: of the chunks they are in, from the same look at
    /// the metadata as where the bytes are.
    pub(crate) fn fill_file(&self, ino: InodeNo, offset: u64, prints: Vec<(u32, u64)>) -> Option<Filling> {
        let cache = self.cache.as_ref().filter(|_| !prints.is_empty())?;
        let inode = self.inodes.find(ino);
        // After that look: what was committed before it counts, what is committed after it makes other prints.
        let end = match &inode {
            Some(inode) => {
                let state = inode.state.lock();
                state.dirty.is_clean().then_some(state.size)
            }
            None => self.meta().getattr(ino).ok().map(|attr| attr.size),
        };
        let known = inode.as_ref().and_then(|inode| self.entry_of(inode));
        let entry = match known {
            Some(entry) => entry,
            None => {
                let made = cache.disk.find_or_make(Key::File(ino))?;
                if let Some(inode) = &inode {
                    *inode.cached.lock() = Some(Arc::clone(&made));
                }
                made
            }
        };
        Some(Filling::new(entry, offset, prints, end))
    }

    /// Stored bytes of a segment of small files that are on a local disk.
    pub(crate) async fn read_cached_segment(&self, segment: SegmentId, range: Range<u64>) -> Option<Bytes> {
        let entry = self.cache.as_ref()?.disk.find(Key::Segment(segment))?;
        self.read_hit(entry.find(range, &|_| Some(0))?).await
    }

    /// The bytes of a batch that is being committed, if it is all of a file and little enough to be kept: a short file costs a request more
    /// than it costs a local disk.
    pub(crate) fn whole_and_short(&self, state: &FileState, id: BatchId) -> Option<Vec<Bytes>> {
        let short = u64::from(self.volume.superblock.inline_max) + 1..=KEEP_WRITTEN;
        if self.cache.is_none() || !short.contains(&state.size) || state.staged.is_some() {
            return None;
        }
        match &state.dirty.batch(id)?.runs()[..] {
            [(0, pieces)] => {
                let bytes: Vec<Bytes> = pieces.iter().map(|(_, bytes)| bytes.clone()).collect();
                (bytes.iter().map(|bytes| bytes.len() as u64).sum::<u64>() == state.size).then_some(bytes)
            }
            _ => None,
        }
    }

    /// Keeps the content of a file that was just committed, as far as the disk keeps up. To be called while no more of it is committed.
    pub(crate) fn keep_written(&self, ino: InodeNo, content: &[Bytes]) {
        let Some(print) = self.print_of(ino, 0) else { return };
        let Some(mut filling) = self.fill_file(ino, 0, vec![(0, print)]) else { return };
        content.iter().for_each(|bytes| filling.push(bytes));
    }

    /// Takes stored bytes of a segment of `len` bytes that are fetched into the cache: those of `range`.
    pub(crate) fn fill_segment(&self, segment: SegmentId, len: u64, range: &Range<u64>) -> Option<Filling> {
        let entry = self.cache.as_ref()?.disk.find_or_make(Key::Segment(segment))?;
        let chunks = range.start / CHUNK..range.end.div_ceil(CHUNK);
        let prints = chunks.map(|chunk| (chunk as u32, 0)).collect();
        Some(Filling::new(entry, range.start, prints, Some(len)))
    }

    /// Keeps a segment that small files were just packed into, as far as the disk keeps up: they are likely to be read soon.
    pub(crate) fn keep_packed(&self, segment: SegmentId, object: &Bytes) {
        let len = object.len() as u64;
        let Some(mut filling) = self.fill_segment(segment, len, &(0..len)) else { return };
        (0..object.len()).step_by(PIECE).for_each(|at| {
            filling.push(&object.slice(at..(at + PIECE).min(object.len())));
        });
    }

    /// What is kept of a segment turned out to be wrong.
    pub(crate) fn distrust_segment(&self, segment: SegmentId) {
        if let Some(entry) = self.cache.as_ref().and_then(|cache| cache.disk.find(Key::Segment(segment))) {
            entry.cool();
        }
    }

    /// Committed bytes of a file have changed.
    pub(crate) fn cached_bytes_changed(&self, ino: InodeNo, range: Range<u64>) {
        if let Some(cache) = &self.cache {
            cache.disk.changed(Key::File(ino), range);
        }
    }
}
