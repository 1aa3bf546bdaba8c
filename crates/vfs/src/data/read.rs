//! The read path: unflushed bytes over extents over zeros.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use headrace_cache::{SPAN, spans};
use headrace_layout::{CHUNK_SIZE, Compression, ExtentData, InodeNo, SegmentSlice};
use headrace_meta::Time;
use headrace_store::ErrorKind;

use crate::ReadReply;
use crate::error::{Error, Result};
use crate::handles::FileId;
use crate::inode::Inode;
use crate::options::AtimePolicy;
use crate::vfs::Vfs;

/// Requests one read may have under way.
const READ_WIDTH: usize = 8;
/// Extents can move (packer, compaction) between being looked up and being read; then they are looked up again.
const ATTEMPTS: usize = 8;
/// What fails its checksum may have been damaged on its way only.
const DAMAGED_ATTEMPTS: usize = 3;
/// More extents than this in a chunk have it rewritten in the background.
const FRAGMENTED: usize = 512;

static ZEROS: [u8; 128 << 10] = [0; 128 << 10];

/// A stretch of the file and where its bytes are.
struct Source {
    offset: u64,
    len: u32,
    data: ExtentData,
}

/// Why an attempt to read did not do.
enum Missed {
    /// The extents moved.
    Moved(Error),
    Failed(Error),
}

impl<E: Into<Error>> From<E> for Missed {
    fn from(error: E) -> Self {
        Missed::Failed(error.into())
    }
}

impl Vfs {
    /// Reads up to `len` bytes at `offset`; fewer only at the end of the file.
    pub fn read(
        self: &Arc<Self>,
        _ino: InodeNo,
        file: FileId,
        offset: u64,
        len: u32,
    ) -> impl Future<Output = Result<ReadReply>> + Send + use<> {
        let vfs = Arc::clone(self);
        async move {
            let open = vfs.handles.get(file)?;
            let reply = vfs.read_range(&open.inode, offset, len).await;
            match &reply {
                Ok(_) if open.flags & libc::O_NOATIME == 0 => vfs.touch(&open.inode),
                Ok(_) => {}
                Err(error) => {
                    if let Some(left_out) = vfs.outage.reads.lock().due(Instant::now()) {
                        let (ino, path) = (open.inode.ino, vfs.path_hint(open.inode.ino));
                        tracing::error!(%ino, path, offset, len, %error, left_out, "read failed");
                    }
                }
            }
            reply
        }
    }

    async fn read_range(&self, inode: &Inode, offset: u64, len: u32) -> Result<ReadReply> {
        let mut attempt = 1;
        loop {
            match self.try_read(inode, offset, len).await {
                Ok(reply) => return Ok(reply),
                Err(Missed::Moved(_)) if attempt < ATTEMPTS => attempt += 1,
                Err(Missed::Moved(error) | Missed::Failed(error)) => return Err(error),
            }
        }
    }

    async fn try_read(&self, inode: &Inode, offset: u64, len: u32) -> Result<ReadReply, Missed> {
        let (end, overlay) = {
            let state = inode.state.lock();
            let end = offset.saturating_add(u64::from(len)).min(state.size);
            (end, state.dirty.overlay(offset, end))
        };
        if offset >= end {
            return Ok(Vec::new());
        }
        let mut sources = Vec::new();
        let mut at = offset;
        for (start, data) in &overlay {
            self.sources(inode.ino, at, *start, &mut sources)?;
            at = start + data.len() as u64;
        }
        self.sources(inode.ino, at, end, &mut sources)?;
        let memory = match self.cost_of(&sources) {
            0 => None,
            bytes => Some(self.reads.acquire(bytes).await),
        };
        let fetches: Vec<_> = sources.into_iter().map(|source| self.fetch(inode.ino, source)).collect();
        let mut found: Vec<(u64, Vec<Bytes>)> =
            stream::iter(fetches).buffered(READ_WIDTH).try_collect().await?;
        // Given back when the kernel has taken the bytes.
        if let (Some(memory), Some(first)) = (memory, found.iter_mut().find_map(|(_, p)| p.first_mut())) {
            *first = memory.attach(std::mem::take(first));
        }
        found.extend(overlay.into_iter().map(|(start, data)| (start, vec![data])));
        found.sort_by_key(|(start, _)| *start);
        Ok(assemble(offset, end, found))
    }

    /// Adds the extents of `[start, end)`; holes have none.
    fn sources(&self, ino: InodeNo, start: u64, end: u64, out: &mut Vec<Source>) -> Result<()> {
        let mut at = start;
        while at < end {
            let index = at / CHUNK_SIZE;
            let base = index * CHUNK_SIZE;
            let to = end.min(base + CHUNK_SIZE);
            // Behind the last chunk that can be written there are only holes.
            let Ok(chunk) = u32::try_from(index) else { return Ok(()) };
            let map = self.meta().extents(ino, chunk)?;
            if map.len() > FRAGMENTED {
                self.background.note_fragmented(ino, chunk);
            }
            for extent in map.slice((at - base) as u32, (to - base) as u32) {
                out.push(Source {
                    offset: base + u64::from(extent.start),
                    len: extent.len,
                    data: extent.data,
                });
            }
            at = to;
        }
        Ok(())
    }

    /// Memory that fetching takes at most, bytes: as stored, as decompressed, and the spans under way.
    fn cost_of(&self, sources: &[Source]) -> u64 {
        let codec = &self.volume.codec;
        let frames = 2 * u64::from(codec.frame_size());
        let plain =
            |len: u32| if codec.compression() == Compression::None { 0 } else { u64::from(len) + frames };
        let (mut bytes, mut small) = (0, 0);
        for source in sources {
            bytes += match &source.data {
                ExtentData::Segment(slice) if slice.run_len <= self.volume.superblock.inline_max => {
                    small += 1;
                    2 * u64::from(source.len) + frames
                }
                ExtentData::Segment(slice) => {
                    let stored = codec.stored_range(slice, 0, source.len);
                    stored.end.saturating_sub(stored.start) + plain(source.len)
                }
                ExtentData::Inline { .. } => 2 * u64::from(source.len),
            };
        }
        bytes + small.min(READ_WIDTH as u64) * 2 * SPAN
    }

    /// The bytes of a source, with their offset in the file.
    async fn fetch(&self, ino: InodeNo, source: Source) -> Result<(u64, Vec<Bytes>), Missed> {
        let bytes = match &source.data {
            ExtentData::Segment(slice) => self.fetch_segment(slice, source.len).await?,
            ExtentData::Inline { id, skip } => {
                let Some(sealed) = self.meta().inline_value(ino, *id)? else {
                    return Err(Missed::Moved(Error::Missing(format!(
                        "inline value {id} of inode {ino} is missing"
                    ))));
                };
                let plain = self.volume.codec.open_inline(&sealed)?;
                let (from, to) = (*skip as usize, *skip as usize + source.len as usize);
                if to > plain.len() {
                    return Err(
                        Error::Missing(format!("inline value {id} of inode {ino} is too short")).into()
                    );
                }
                vec![plain.slice(from..to)]
            }
        };
        Ok((source.offset, bytes))
    }

    async fn fetch_segment(&self, slice: &SegmentSlice, len: u32) -> Result<Vec<Bytes>, Missed> {
        let codec = &self.volume.codec;
        let wanted = codec.stored_range(slice, 0, len);
        let mut attempt = 1;
        loop {
            let stored = if slice.run_len <= self.volume.superblock.inline_max {
                self.fetch_through_spans(slice, &wanted).await?
            } else {
                let got = self.volume.store.get_range(&slice.segment.object_key(), wanted.clone()).await;
                got.map_err(not_found_is_moved)?
            };
            match codec.decode(slice, 0, len, stored) {
                Ok(pieces) => return Ok(pieces),
                Err(error) if attempt < DAMAGED_ATTEMPTS => {
                    tracing::warn!(%error, attempt, "bytes came from the store damaged; they are read again");
                    for span in spans(slice.segment, &wanted) {
                        self.spans.forget(&span);
                    }
                    attempt += 1;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Small packed files: their neighbours come along, since they are likely to be read next.
    async fn fetch_through_spans(
        &self,
        slice: &SegmentSlice,
        wanted: &std::ops::Range<u64>,
    ) -> Result<Bytes, Missed> {
        let Some(segment) = self.meta().segment(slice.segment)? else {
            return Err(Missed::Moved(Error::Missing(format!("segment {} is not known", slice.segment))));
        };
        let key = slice.segment.object_key();
        let fetch = |range| self.volume.store.get_range(&key, range);
        let read = self.spans.read(slice.segment, segment.stored, wanted, fetch).await;
        read.map_err(not_found_is_moved)?.ok_or_else(|| {
            Error::Missing(format!("segment {} is shorter than its extents", slice.segment)).into()
        })
    }

    fn touch(&self, inode: &Inode) {
        if self.options.read_only || self.options.atime == AtimePolicy::NoAtime {
            return;
        }
        let now = Time::now();
        if self.options.atime == AtimePolicy::RelAtime {
            if now.secs < inode.atime_until.load(Ordering::Relaxed) {
                return;
            }
            inode.atime_until.store(now.secs.saturating_add(60), Ordering::Relaxed);
            let Ok(attr) = self.attributes(inode.ino) else { return };
            let fresh =
                attr.atime > attr.mtime && attr.atime > attr.ctime && attr.atime.secs + 86_400 > now.secs;
            if fresh {
                return;
            }
        }
        if let Err(error) = self.meta().touch_atime(inode.ino, now) {
            tracing::debug!(ino = %inode.ino, %error, "cannot set the access time");
        }
    }
}

fn not_found_is_moved(error: headrace_store::StoreError) -> Missed {
    if error.kind == ErrorKind::NotFound { Missed::Moved(error.into()) } else { Missed::Failed(error.into()) }
}

/// Pieces in order with zeros between them.
fn assemble(offset: u64, end: u64, found: Vec<(u64, Vec<Bytes>)>) -> ReadReply {
    let mut reply = Vec::with_capacity(found.len() * 2 + 1);
    let mut at = offset;
    for (start, pieces) in found {
        zeros(start.saturating_sub(at), &mut reply);
        at = start;
        for piece in pieces {
            at += piece.len() as u64;
            reply.push(piece);
        }
    }
    zeros(end.saturating_sub(at), &mut reply);
    reply
}

fn zeros(mut len: u64, out: &mut ReadReply) {
    while len > 0 {
        let take = len.min(ZEROS.len() as u64);
        out.push(Bytes::from_static(&ZEROS[..take as usize]));
        len -= take;
    }
}
