//! Filling and emptying the cache on request.

use std::future::Future;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::future::BoxFuture;
use headrace_cache::SPAN;
use headrace_cache::disk::{Entry, Key};
use headrace_flow::reading::Kept;
use headrace_layout::{ExtentData, InodeNo};
use headrace_meta::{Kind, MetaError};
use headrace_store::ErrorKind;
use serde::Serialize;

use super::Cache;
use crate::data::sources::{Missed, Source, Through};
use crate::error::{Error, Result};
use crate::inode::Pinned;
use crate::streaming::{Body, Delivery, Origin, Streamed};
use crate::vfs::Vfs;

/// Bytes asked for at a time.
const STEP: u64 = 1 << 20;
/// How often what is missing is fetched: disks that are behind leave some out.
const ROUNDS: usize = 4;
/// How long a disk may take to write what it was given.
const WRITTEN_WITHIN: Duration = Duration::from_secs(60);
/// Between looks whether a disk has caught up.
const LOOK: Duration = Duration::from_millis(5);

/// How much of a file is in the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Warmth {
    /// Its length, bytes.
    pub bytes: u64,
    /// Bytes of it that are cached (or need no cache: they are in the metadata, or are a hole).
    pub cached: u64,
}

/// Slows down whoever fetches for later.
pub trait Pace: Send + Sync {
    /// Ready when `bytes` more may be fetched.
    fn take(&self, bytes: u64) -> BoxFuture<'_, ()>;
    /// So many bytes of a file are cached now that were looked at or fetched.
    fn done(&self, bytes: u64);
}

/// How what is missing is fetched.
#[derive(Clone, Copy)]
enum Way {
    /// Ahead, as for a reader with this handle. What a disk was behind with is left out, and what is in memory is not fetched again.
    Streamed(u64),
    /// A piece after the other from the store, each when the disks have written all there was.
    ByItself,
}

/// Who wants bytes only for what is kept of them on the way.
struct Nowhere;

impl Delivery for Nowhere {
    fn local(&mut self) {}
    fn began(&mut self) {}
    fn bytes(&mut self, pieces: &mut Vec<Bytes>) {
        pieces.clear();
    }
    fn interrupted(&mut self, _: ErrorKind) {}
    fn resumed(&mut self) {}
}

const NO_CACHE: Error =
    Error::Unsupported("the mount has no cache on disk; see --cache-dir and --cache-size");

impl Vfs {
    fn cache(&self) -> Result<&Cache> {
        self.cache.as_deref().ok_or(NO_CACHE)
    }

    /// A regular file, and its length.
    fn regular(&self, ino: InodeNo) -> Result<(Pinned, u64)> {
        let attr = self.meta().getattr(ino)?;
        if attr.kind != Kind::File {
            return Err(MetaError::Invalid("only regular files are cached").into());
        }
        let inode = self.pin(ino)?;
        let size = inode.state.lock().size;
        Ok((inode, size))
    }

    /// Whether files of this length are brought here as a copy of their own; shorter ones are in segments that are cached as they are, and so
    /// may be those up to a span in length that were read.
    fn is_by_itself(&self, size: u64) -> bool {
        size > u64::from(self.volume.superblock.inline_max)
    }

    /// How much of a regular file is cached.
    ///
    /// # Errors
    /// When there is no cache, or no such file.
    pub fn warmth(&self, ino: InodeNo) -> Result<Warmth> {
        let cache = self.cache()?;
        let (inode, bytes) = self.regular(ino)?;
        // Shorter ones have none: they are not looked for.
        let entry = self.is_by_itself(bytes).then(|| self.entry_of(&inode)).flatten();
        let own = entry.map_or(0, |entry| entry.present(bytes, &|chunk| self.print_of(ino, chunk)));
        if own >= bytes || bytes > SPAN {
            return Ok(Warmth { bytes, cached: own });
        }
        let mut sources = Vec::new();
        self.sources(ino, 0, bytes, &mut sources)?;
        let missing = sources.iter().filter(|source| match self.stored(source) {
            Some((key, range)) => {
                let found = cache.disk.find(key);
                found.is_none_or(|entry| entry.find(range, &|_| Some(0)).is_none())
            }
            None => false,
        });
        let missing = missing.map(|source| u64::from(source.len)).sum::<u64>();
        Ok(Warmth { bytes, cached: own.max(bytes.saturating_sub(missing)) })
    }

    /// Where the bytes of a packed file are kept.
    fn stored(&self, source: &Source) -> Option<(Key, Range<u64>)> {
        let ExtentData::Segment(slice) = &source.data else { return None };
        Some((Key::Segment(slice.segment), self.volume.codec.stored_range(slice, 0, source.len)))
    }

    /// Fetches what is missing of a regular file. `pin`: it is not to be evicted until [`Self::cool`]; of a file that is packed with others, its
    /// segment.
    ///
    /// # Errors
    /// When there is no cache, no such file, or its bytes cannot be had. That there was no room for all of it is not an error: the
    /// answer says how much is there.
    pub fn warm<'a>(
        self: &Arc<Self>,
        ino: InodeNo,
        pin: bool,
        pace: &'a dyn Pace,
    ) -> impl Future<Output = Result<Warmth>> + Send + use<'a> {
        let vfs = Arc::clone(self);
        async move {
            let cache = vfs.cache.clone().ok_or(NO_CACHE)?;
            let (inode, size) = vfs.regular(ino)?;
            vfs.commit_pending(&inode).await?;
            if !vfs.is_by_itself(size) {
                vfs.warm_packed(&cache, ino, size, pin, pace).await?;
            } else if let Some(entry) = cache.disk.find_or_make(Key::File(ino)) {
                if pin {
                    entry.pin(true);
                }
                *inode.cached.lock() = Some(Arc::clone(&entry));
                for round in 0..ROUNDS {
                    let way = if round == 0 { Way::Streamed(vfs.handles.number().0) } else { Way::ByItself };
                    let fetched = vfs.warm_missing(&cache, &inode, &entry, way, pace).await;
                    if let Way::Streamed(handle) = way {
                        vfs.fetcher.close(handle);
                    }
                    if fetched? {
                        break;
                    }
                    let vfs = Arc::clone(&vfs);
                    let _ = vfs.runtime.clone().spawn_blocking(move || vfs.settle_cache()).await;
                }
            }
            if let Some(entry) = vfs.entry_of(&inode) {
                // So that the kernel may read it by itself at the next open.
                let _ = vfs.runtime.spawn_blocking(move || entry.verify()).await;
            }
            vfs.warmth(ino)
        }
    }

    /// Blocks until what was put into the cache or dropped from it is written and counted, or a disk takes too long.
    pub fn settle_cache(&self) {
        if let Some(cache) = &self.cache {
            cache.disk.settle(WRITTEN_WITHIN);
        }
    }

    /// Reads what is not there from first to last; whether there was nothing of the kind.
    async fn warm_missing(
        &self,
        cache: &Cache,
        inode: &Pinned,
        entry: &Arc<Entry>,
        way: Way,
        pace: &dyn Pace,
    ) -> Result<bool> {
        let (ino, mut at, mut all) = (inode.ino, 0, true);
        let counts = matches!(way, Way::Streamed(_));
        let prints = |chunk| self.print_of(ino, chunk);
        let from_here = |at: u64, size: u64| entry.next_present(&(at..size), &prints);
        let known = inode.state.lock().size;
        let mut missing = Vec::new();
        while at < known {
            let found = from_here(at, known);
            missing.push(at..found.start);
            at = found.end;
        }
        at = 0;
        loop {
            let (size, content) = {
                let mut state = inode.state.lock();
                let size = state.size;
                (size, state.content.read_to(size))
            };
            if at >= size {
                return Ok(all);
            }
            let found = from_here(at, size);
            let is_there = found.start == at && !found.is_empty();
            let to = if is_there { found.end } else { found.start }.min(at + STEP);
            // What was fetched ahead meanwhile counts too.
            if counts && missing.iter().any(|missing| missing.start < to && at < missing.end) {
                pace.take(to - at).await;
            }
            if !is_there {
                all = false;
                match way {
                    Way::Streamed(handle) => {
                        while !cache.disk.has_room() {
                            tokio::time::sleep(LOOK).await;
                        }
                        let body = Body::File(ino);
                        let wanted =
                            || Streamed { body, content, handle, len: size, range: at..to, kept: Kept::No };
                        self.read_patiently(wanted).await?;
                    }
                    Way::ByItself => {
                        let waits = Instant::now();
                        while !cache.disk.is_idle() && waits.elapsed() < WRITTEN_WITHIN {
                            tokio::time::sleep(LOOK).await;
                        }
                        self.fetch(Body::File(ino), at..to, &mut Nowhere).await?;
                    }
                }
            }
            if counts {
                pace.done(to - at);
            }
            at = to;
        }
    }

    async fn warm_packed(
        &self,
        cache: &Cache,
        ino: InodeNo,
        size: u64,
        pin: bool,
        pace: &dyn Pace,
    ) -> Result<()> {
        let mut sources = Vec::new();
        self.sources(ino, 0, size, &mut sources)?;
        for source in sources {
            let len = u64::from(source.len);
            let Some((key, range)) = self.stored(&source) else { continue };
            let is_there = |entry: Arc<Entry>| entry.find(range.clone(), &|_| Some(0)).is_some();
            if !cache.disk.find(key).is_some_and(is_there) {
                pace.take(len).await;
                while !cache.disk.has_room() {
                    tokio::time::sleep(LOOK).await;
                }
                if let ExtentData::Segment(slice) = &source.data
                    && !self.comes_with_others(slice, Through::Fetcher)
                {
                    // Of a length that is packed today, and of a time when it was not.
                    continue;
                }
                match self.fetch_whole(ino, source, Through::Fetcher).await {
                    Ok(_) | Err(Missed::Moved(_)) => {}
                    Err(Missed::Failed(error)) => return Err(error),
                    Err(Missed::Damaged(error)) => return Err(error.into()),
                }
            }
            if let Some(entry) = cache.disk.find(key).filter(|_| pin) {
                entry.pin(true);
            }
        }
        pace.done(size);
        Ok(())
    }

    /// Drops what is cached of a regular file, pinned or not, unless it is open; answers how many bytes that was. Segments in which it lies
    /// with others stay, and are not pinned any more.
    ///
    /// # Errors
    /// When there is no cache, or no such file.
    pub fn cool(&self, ino: InodeNo) -> Result<u64> {
        let cache = self.cache()?;
        let (inode, size) = self.regular(ino)?;
        if self.is_by_itself(size) {
            return Ok(self.entry_of(&inode).map_or(0, |entry| entry.cool()));
        }
        let mut sources = Vec::new();
        self.sources(ino, 0, size, &mut sources)?;
        let mut dropped = 0;
        for (key, _) in sources.iter().filter_map(|source| self.stored(source)) {
            dropped += cache.disk.find(key).map_or(0, |entry| entry.cool());
        }
        Ok(dropped)
    }
}
