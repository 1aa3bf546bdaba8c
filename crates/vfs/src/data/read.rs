//! The read path: unflushed bytes over extents over zeros.

use std::future::Future;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use headrace_cache::disk::{Entry, Key};
use headrace_layout::{ExtentData, InodeNo};

use super::sources::{ATTEMPTS, Missed, READ_WIDTH, Source, Through};
use crate::ReadReply;
use crate::error::{Error, Result};
use crate::handles::{Backing, FileId, OpenFile};
use crate::inode::Inode;
use crate::streaming::{Body, Streamed};
use crate::vfs::Vfs;

/// Files that are longer are fetched in streams; what is shorter is got with one request or two.
const STREAMED: u64 = 256 << 10;

/// Before a read is tried again whose fetch had been failing since before it came.
const AGAIN: Duration = Duration::from_millis(200);

static ZEROS: [u8; 128 << 10] = [0; 128 << 10];

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
        let came = Instant::now();
        async move {
            let open = vfs.handles.get(file)?;
            let reply = match (open.staged_file(), open.reads_what_is_passed()) {
                (Some(staged), _) => vfs.read_staged(staged, offset, len).await,
                (None, Some(backing)) => vfs.read_passed(&open, backing, offset, len).await,
                (None, None) => vfs.read_range(&open, file, offset, len).await,
            };
            match &reply {
                Ok(_) if open.flags & libc::O_NOATIME == 0 => vfs.touch(&open.inode, open.opened, came),
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

    async fn read_range(&self, open: &OpenFile, file: FileId, offset: u64, len: u32) -> Result<ReadReply> {
        let (wanted, streamed) = {
            let mut state = open.inode.state.lock();
            let end = offset.saturating_add(u64::from(len)).min(state.size);
            let clean = state.dirty.first().unwrap_or(u64::MAX).min(state.size);
            // Behind the first byte that is not committed nothing is to be fetched ahead: it would come twice.
            let known = if end <= clean { clean } else { state.size };
            let streamed = (state.size > STREAMED && offset < end)
                .then(|| Known { content: state.content.read_to(known), len: known });
            (Wanted { offset, end, overlay: state.dirty.overlay(offset, end) }, streamed)
        };
        if wanted.offset >= wanted.end {
            return Ok(Vec::new());
        }
        let ahead = |known: &Known| self.fetcher.holds(known.content, &(wanted.offset..wanted.end));
        // What was fetched ahead is on its way to the local disk as well. If it were read there, its stream would not see its reader go on.
        if let Some(entry) = self.entry_of(&open.inode)
            && !(open.streamed.load(Ordering::Relaxed) && streamed.as_ref().is_some_and(ahead))
            && let Some(cached) = self.read_cached(&entry, open.inode.ino, &wanted).await
        {
            return Ok(cached);
        }
        if let Some(known) = streamed {
            return self.read_streamed(open, file, &wanted, known).await;
        }
        let mut attempt = 1;
        loop {
            match self.read_whole(&open.inode, &wanted).await {
                Ok(reply) => return Ok(reply),
                Err(Missed::Moved(_)) if attempt < ATTEMPTS => attempt += 1,
                Err(Missed::Moved(error) | Missed::Failed(error)) => return Err(error),
                Err(Missed::Damaged(error)) => return Err(error.into()),
            }
        }
    }

    /// A read beside others for whom the kernel reads a local file: of the same file, for somebody may have written through a mapping of it.
    async fn read_passed(
        &self,
        open: &OpenFile,
        backing: Backing,
        offset: u64,
        len: u32,
    ) -> Result<ReadReply> {
        let end = offset.saturating_add(u64::from(len)).min(open.inode.state.lock().size);
        if offset >= end {
            return Ok(Vec::new());
        }
        let memory = self.reads.acquire(end - offset).await;
        let read = self.runtime.spawn_blocking(move || {
            let mut bytes = vec![0; usize::try_from(end - offset).unwrap_or(0)];
            backing.0.read_exact_at(&mut bytes, offset).map(|()| Bytes::from(bytes))
        });
        let read =
            read.await.map_err(|error| Error::Internal(format!("reading a cached file failed: {error}")))?;
        let bytes = read.map_err(|error| Error::Internal(format!("cannot read a cached file: {error}")))?;
        Ok(vec![memory.attach(bytes)])
    }

    /// A read of what is on a local disk, if all of it is.
    async fn read_cached(&self, entry: &Arc<Entry>, ino: InodeNo, wanted: &Wanted) -> Option<ReadReply> {
        let prints = |chunk| self.print_of(ino, chunk);
        let (gaps, mut hits) = (wanted.gaps(), Vec::new());
        for gap in &gaps {
            hits.push((gap.start, entry.find(gap.clone(), &prints)?));
        }
        // At once: whoever held some and waited for more would keep others from theirs.
        let memory = self.reads.acquire(gaps.iter().map(|gap| gap.end - gap.start).sum()).await;
        let mut found = Vec::new();
        for (start, hit) in hits {
            found.push((start, vec![self.read_hit(hit).await?]));
        }
        if let Some(first) = found.first_mut().and_then(|(_, pieces)| pieces.first_mut()) {
            *first = memory.attach(std::mem::take(first));
        }
        Some(wanted.assemble(found))
    }

    /// A read of a short file.
    async fn read_whole(&self, inode: &Inode, wanted: &Wanted) -> Result<ReadReply, Missed> {
        let (mut sources, mut prints) = (Vec::new(), Vec::new());
        for gap in wanted.gaps() {
            prints = self.printed_sources(inode.ino, gap.start, gap.end, &mut sources)?;
        }
        let through = Through::Fetcher;
        // What comes with others is kept as the segment it is in.
        let with_others = |source: &Source| matches!(&source.data, ExtentData::Segment(slice) if self.comes_with_others(slice, through));
        let keep = self.cache.is_some() && !sources.iter().any(with_others);
        let memory = match self.cost_of(&sources, through) {
            0 => None,
            bytes => Some(self.reads.acquire(bytes).await),
        };
        let fetches: Vec<_> =
            sources.into_iter().map(|source| self.fetch_whole(inode.ino, source, through)).collect();
        let mut found: Vec<(u64, Vec<Bytes>)> =
            stream::iter(fetches).buffered(READ_WIDTH).try_collect().await?;
        if keep && let [(offset, pieces)] = &found[..] {
            let mut filling = self.fill_file(inode.ino, *offset, prints);
            filling.iter_mut().for_each(|filling| pieces.iter().for_each(|piece| filling.push(piece)));
        }
        // Given back when the kernel has taken the bytes.
        if let (Some(memory), Some(first)) = (memory, found.iter_mut().find_map(|(_, p)| p.first_mut())) {
            *first = memory.attach(std::mem::take(first));
        }
        Ok(wanted.assemble(found))
    }

    /// A read of a file that is fetched in streams.
    async fn read_streamed(
        &self,
        open: &OpenFile,
        file: FileId,
        wanted: &Wanted,
        Known { content, len }: Known,
    ) -> Result<ReadReply> {
        open.streamed.store(true, Ordering::Relaxed);
        let ino = open.inode.ino;
        let kept = self.keeps_fetched(Key::File(ino), len);
        let reads: Vec<_> = wanted
            .gaps()
            .into_iter()
            .map(|range| async move {
                let (body, start) = (Body::File(ino), range.start);
                let streamed = || Streamed { body, content, handle: file.0, len, range: range.clone(), kept };
                Ok::<_, Error>((start, self.read_patiently(streamed).await?))
            })
            .collect();
        let found = futures::future::try_join_all(reads).await?;
        Ok(wanted.assemble(found))
    }

    /// Reads through the fetcher.
    pub(crate) async fn read_patiently(&self, wanted: impl Fn() -> Streamed) -> Result<Vec<Bytes>> {
        self.lender.read();
        let began = Instant::now();
        loop {
            match self.fetcher.read(wanted()).await {
                // It may have joined a fetch that had been failing for long before it came.
                Err(error) if error.may_pass() && began.elapsed() < self.volume.store.deadline() / 2 => {
                    tokio::time::sleep(AGAIN).await;
                }
                done => return done,
            }
        }
    }
}

/// A read, and what of it is not committed.
struct Wanted {
    offset: u64,
    end: u64,
    /// Bytes that are not committed yet, in order.
    overlay: Vec<(u64, Bytes)>,
}

/// What is fetched in streams: the number of a file's content, and how much of it there is to fetch.
struct Known {
    content: u64,
    len: u64,
}

impl Wanted {
    /// What of it is committed.
    fn gaps(&self) -> Vec<Range<u64>> {
        let mut gaps = Vec::with_capacity(self.overlay.len() + 1);
        let mut at = self.offset;
        for (start, data) in &self.overlay {
            gaps.push(at..*start);
            at = start + data.len() as u64;
        }
        gaps.push(at..self.end);
        gaps.retain(|gap| gap.start < gap.end);
        gaps
    }

    /// The pieces found and those not committed in order, with zeros between them.
    fn assemble(&self, mut found: Vec<(u64, Vec<Bytes>)>) -> ReadReply {
        found.extend(self.overlay.iter().map(|(start, data)| (*start, vec![data.clone()])));
        found.sort_by_key(|(start, _)| *start);
        let mut reply = Vec::with_capacity(found.len() * 2 + 1);
        let mut at = self.offset;
        for (start, pieces) in found {
            zeros(start.saturating_sub(at), &mut reply);
            at = start;
            for piece in pieces {
                at += piece.len() as u64;
                reply.push(piece);
            }
        }
        zeros(self.end.saturating_sub(at), &mut reply);
        reply
    }
}

/// Adds so many zeros.
pub(crate) fn zeros(mut len: u64, out: &mut ReadReply) {
    while len > 0 {
        let take = len.min(ZEROS.len() as u64);
        out.push(Bytes::from_static(&ZEROS[..take as usize]));
        len -= take;
    }
}
