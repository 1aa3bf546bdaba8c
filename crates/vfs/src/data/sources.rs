//! Where the committed bytes of a range are, and getting them whole.

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use headrace_cache::disk::Key;
use headrace_cache::{Others, SPAN, spans};
use headrace_layout::{
    CHUNK_SIZE, Compression, ExtentData, ExtentMap, FrameError, InodeNo, SegmentId, SegmentSlice,
};
use headrace_store::ErrorKind;

use crate::error::{Error, Result};
use crate::vfs::Vfs;

/// Requests one read may have under way.
pub(crate) const READ_WIDTH: usize = 8;
/// Extents can move (packer, compaction) between being looked up and being read; then they are looked up again.
pub(crate) const ATTEMPTS: usize = 8;
/// What fails its checksum may have been damaged on its way only.
pub(crate) const DAMAGED_ATTEMPTS: usize = 3;

/// A stretch of the file and where its bytes are.
#[derive(Clone)]
pub(crate) struct Source {
    pub offset: u64,
    pub len: u32,
    pub data: ExtentData,
}

/// How spans of segments are got.
#[derive(Clone, Copy)]
pub(crate) enum Through {
    /// As a part of what is read: with what comes after it.
    Fetcher,
    /// From the store at once, by a fetch that is under way itself: it must not wait for another one to be allowed.
    Store,
}

/// Why an attempt to read did not do.
pub(crate) enum Missed {
    /// The extents moved.
    Moved(Error),
    /// What came from the store is not what was written.
    Damaged(FrameError),
    Failed(Error),
}

impl<E: Into<Error>> From<E> for Missed {
    fn from(error: E) -> Self {
        Missed::Failed(error.into())
    }
}

impl Vfs {
    /// Adds the extents of `[start, end)`; holes have none.
    pub(crate) fn sources(&self, ino: InodeNo, start: u64, end: u64, out: &mut Vec<Source>) -> Result<()> {
        self.look_up(ino, start, end, out, |_, _| ())
    }

    /// The same, with the print of each chunk they are in, from the same look at the metadata. Of chunks that cannot be cached there is
    /// none.
    pub(crate) fn printed_sources(
        &self,
        ino: InodeNo,
        start: u64,
        end: u64,
        out: &mut Vec<Source>,
    ) -> Result<Vec<(u32, u64)>> {
        let mut prints = Vec::new();
        self.look_up(ino, start, end, out, |chunk, map| {
            prints.extend(self.print_map(ino, map).map(|print| (chunk, print)));
        })?;
        Ok(prints)
    }

    fn look_up(
        &self,
        ino: InodeNo,
        start: u64,
        end: u64,
        out: &mut Vec<Source>,
        mut seen: impl FnMut(u32, &ExtentMap),
    ) -> Result<()> {
        let mut at = start;
        while at < end {
            let index = at / CHUNK_SIZE;
            let base = index * CHUNK_SIZE;
            let to = end.min(base + CHUNK_SIZE);
            // Behind the last chunk that can be written there are only holes.
            let Ok(chunk) = u32::try_from(index) else { return Ok(()) };
            let map = self.meta().extents(ino, chunk)?;
            seen(chunk, &map);
            self.background.chunk_read(ino, chunk, map.len());
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
    pub(super) fn cost_of(&self, sources: &[Source], through: Through) -> u64 {
        let codec = &self.volume.codec;
        let frames = 2 * u64::from(codec.frame_size());
        let plain =
            |len: u32| if codec.compression() == Compression::None { 0 } else { u64::from(len) + frames };
        let (mut bytes, mut small) = (0, 0);
        for source in sources {
            bytes += match &source.data {
                ExtentData::Segment(slice) if self.comes_with_others(slice, through) => {
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
        // Each begins in one and may end in the next; one more for the longest.
        bytes + if small == 0 { 0 } else { (2 * small.min(READ_WIDTH as u64) + 1) * SPAN }
    }

    /// The bytes of a source, with their offset in the file.
    pub(crate) async fn fetch_whole(
        &self,
        ino: InodeNo,
        source: Source,
        through: Through,
    ) -> Result<(u64, Vec<Bytes>), Missed> {
        let bytes = match &source.data {
            ExtentData::Segment(slice) => self.fetch_segment(slice, source.len, through).await?,
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

    async fn fetch_segment(
        &self,
        slice: &SegmentSlice,
        len: u32,
        through: Through,
    ) -> Result<Vec<Bytes>, Missed> {
        let codec = &self.volume.codec;
        let wanted = codec.stored_range(slice, 0, len);
        let mut attempt = 1;
        loop {
            let stored = if self.comes_with_others(slice, through) {
                self.fetch_through_spans(slice, &wanted, through).await?
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
                    self.segments.forget(&self.fetcher, slice.segment);
                    self.distrust_segment(slice.segment);
                    attempt += 1;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// What [comes with others](Self::comes_with_others).
    async fn fetch_through_spans(
        &self,
        slice: &SegmentSlice,
        wanted: &Range<u64>,
        through: Through,
    ) -> Result<Bytes, Missed> {
        let Some(segment) = self.meta().segment(slice.segment)? else {
            return Err(Missed::Moved(Error::Missing(format!("segment {} is not known", slice.segment))));
        };
        let key = slice.segment.object_key();
        let read = match through {
            Through::Fetcher if !self.fetcher.is_stopped() => {
                let fetch = |range| self.fetch_span(slice.segment, segment.stored, range);
                self.spans.read(slice.segment, segment.stored, wanted, Others::Join, fetch).await
            }
            _ => {
                let fetch = async |range| Ok(self.volume.store.get_range(&key, range).await?);
                self.spans.read(slice.segment, segment.stored, wanted, Others::Ignore, fetch).await
            }
        };
        let read = read.map_err(|error| match error {
            Error::Store(error) => not_found_is_moved(error),
            error => Missed::Failed(error),
        });
        read?.ok_or_else(|| {
            Error::Missing(format!("segment {} is shorter than its extents", slice.segment)).into()
        })
    }

    /// Spans are read like a file, so that those after them are fetched ahead.
    async fn fetch_span(&self, segment: SegmentId, len: u64, range: Range<u64>) -> Result<Bytes> {
        // What is in memory is on its way to the disk as well.
        if !self.segments.hold(&self.fetcher, segment, &range)
            && let Some(cached) = self.read_cached_segment(segment, range.clone()).await
        {
            return Ok(cached);
        }
        let keeps = |all| self.keeps_fetched(Key::Segment(segment), all);
        let wanted = || self.segments.read(&self.fetcher, segment, len, range.clone(), keeps);
        let pieces = self.read_patiently(wanted).await?;
        // Copied: a piece counts as read only when nothing refers to it any more, and spans are kept.
        let mut bytes = BytesMut::with_capacity(pieces.iter().map(Bytes::len).sum());
        pieces.iter().for_each(|piece| bytes.extend_from_slice(piece));
        Ok(bytes.freeze())
    }

    /// Whether its neighbours in the segment come along, since they are likely to be read next: files that were written about the same time.
    pub(crate) fn comes_with_others(&self, slice: &SegmentSlice, through: Through) -> bool {
        let most = match through {
            Through::Fetcher => SPAN,
            // Pieces of large files lie among others that nobody may need.
            Through::Store => u64::from(self.volume.superblock.inline_max),
        };
        u64::from(slice.run_len) <= most
    }
}

pub(crate) fn not_found_is_moved(error: headrace_store::StoreError) -> Missed {
    if error.kind == ErrorKind::NotFound { Missed::Moved(error.into()) } else { Missed::Failed(error.into()) }
}
