//! Bytes of a file of this volume: extents are looked up when their fetch begins, long ones are passed on frame by frame as they come,
//! short ones are got side by side.

use std::ops::Range;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt, TryStreamExt};
use headrace_cache::disk::Filling;
use headrace_layout::{Decoder, ExtentData, FrameError, InodeNo, SegmentId, SegmentSlice};
use headrace_store::{ErrorKind, Sink};

use super::{Body, Delivery, Origin};
use crate::data::sources::{
    ATTEMPTS, DAMAGED_ATTEMPTS, Missed, READ_WIDTH, Source, Through, not_found_is_moved,
};
use crate::data::zeros;
use crate::error::Result;
use crate::vfs::Vfs;

/// Extents that are shorter are got whole, some at a time: one after the other they would cost a latency each.
const SHORT: u32 = 256 << 10;
/// Plain bytes of short extents that are got side by side and given out in order, at most (and one extent).
const TOGETHER: u64 = 1 << 20;
/// Bytes on a local disk that the store is not asked for although that makes two requests of one.
const WORTH_A_REQUEST: u64 = 256 << 10;

impl Origin for Vfs {
    fn fetch<'a>(
        &'a self,
        body: Body,
        range: Range<u64>,
        to: &'a mut dyn Delivery,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let ino = match body {
                Body::File(ino) => ino,
                Body::Segment(segment) => return self.deliver_segment(segment, range, to).await,
            };
            let mut to = Progress { at: range.start, to, filling: None };
            let (mut moved, mut damaged) = (1, 1);
            while to.at < range.end {
                let before = to.at;
                let until = self.deliver_cached(ino, range.end, &mut to).await;
                let fetched = match to.at < until {
                    true => self.fetch_sources(ino, to.at..until, &mut to).await,
                    false => Ok(()),
                };
                to.filling = None;
                match fetched {
                    Ok(()) => {}
                    Err(Missed::Moved(_)) if moved < ATTEMPTS => moved += 1,
                    Err(Missed::Damaged(error)) if damaged < DAMAGED_ATTEMPTS => {
                        tracing::warn!(%error, damaged, "bytes came from the store damaged; they are read again");
                        damaged += 1;
                    }
                    Err(Missed::Moved(error) | Missed::Failed(error)) => return Err(error),
                    Err(Missed::Damaged(error)) => return Err(error.into()),
                }
                if to.at > before {
                    (moved, damaged) = (1, 1);
                }
            }
            Ok(())
        })
    }
}

/// How far a fetch has come.
struct Progress<'a> {
    /// Where the next byte belongs.
    at: u64,
    to: &'a mut dyn Delivery,
    /// Keeps what comes.
    filling: Option<Filling>,
}

impl Progress<'_> {
    fn deliver(&mut self, pieces: &mut Vec<Bytes>) {
        if let Some(filling) = &mut self.filling {
            pieces.iter().for_each(|piece| filling.push(piece));
        }
        self.at += pieces.iter().map(|piece| piece.len() as u64).sum::<u64>();
        if !pieces.is_empty() {
            self.to.bytes(pieces);
        }
    }

    fn skip_to(&mut self, offset: u64) {
        let mut pieces = Vec::new();
        zeros(offset.saturating_sub(self.at), &mut pieces);
        self.deliver(&mut pieces);
    }
}

impl Vfs {
    /// Delivers stored bytes of a segment, from a local disk if all of them are there.
    async fn deliver_segment(
        &self,
        segment: SegmentId,
        range: Range<u64>,
        to: &mut dyn Delivery,
    ) -> Result<()> {
        if let Some(bytes) = self.read_cached_segment(segment, range.clone()).await {
            to.local();
            to.bytes(&mut vec![bytes]);
            return Ok(());
        }
        let known = self.meta().segment(segment)?;
        let filling = known.and_then(|known| self.fill_segment(segment, known.stored, &range));
        let key = segment.object_key();
        Ok(self.volume.store.get_range_to(&key, range, &mut Stored { to, filling }).await?)
    }

    /// Delivers what is on a local disk and comes next; answers up to where the store is to be asked then.
    async fn deliver_cached(&self, ino: InodeNo, end: u64, to: &mut Progress<'_>) -> u64 {
        let known = self.inodes.find(ino).and_then(|inode| self.entry_of(&inode));
        let Some(entry) = known else { return end };
        let mut first = true;
        while to.at < end {
            let found = entry.next_present(&(to.at..end), &|chunk| self.print_of(ino, chunk));
            // One request more costs more than some bytes that are there already.
            if found.start > to.at {
                return if found.end - found.start >= WORTH_A_REQUEST { found.start } else { end };
            }
            if found.is_empty() || (found.end < end && found.end - found.start < WORTH_A_REQUEST) {
                return end;
            }
            if first && found.end == end {
                to.to.local();
            }
            first = false;
            let some = found.start..found.end.min(found.start + TOGETHER);
            match self.read_entry(&entry, ino, some).await {
                Some(bytes) => to.deliver(&mut vec![bytes]),
                None => return end,
            }
        }
        end
    }

    /// Fetches what is missing of `range`, as the extents are now.
    async fn fetch_sources(
        &self,
        ino: InodeNo,
        range: Range<u64>,
        to: &mut Progress<'_>,
    ) -> Result<(), Missed> {
        let mut sources = Vec::new();
        let prints = self.printed_sources(ino, to.at, range.end, &mut sources)?;
        to.filling = self.fill_file(ino, to.at, prints);
        if !sources.iter().any(|source| matches!(source.data, ExtentData::Segment(_))) {
            to.to.local();
        }
        let mut rest = &sources[..];
        while let Some((first, after)) = rest.split_first() {
            to.skip_to(first.offset);
            match &first.data {
                ExtentData::Segment(slice) if self.is_long(slice, first.len) => {
                    self.stream(slice, first.len, to).await?;
                    rest = after;
                }
                _ => {
                    let (short, after) = rest.split_at(self.side_by_side(rest));
                    self.fetch_short(ino, short, to).await?;
                    rest = after;
                }
            }
        }
        to.skip_to(range.end);
        Ok(())
    }

    /// Whether so many bytes of a run are worth a request whose body is passed on as it comes.
    fn is_long(&self, slice: &SegmentSlice, len: u32) -> bool {
        len >= SHORT && !self.comes_with_others(slice, Through::Store)
    }

    /// How many of `sources` are got side by side; at least one, if there is one.
    fn side_by_side(&self, sources: &[Source]) -> usize {
        let mut bytes = 0;
        let fits = sources.iter().take_while(|source| {
            bytes += u64::from(source.len);
            let long = matches!(&source.data, ExtentData::Segment(slice) if self.is_long(slice, source.len));
            !long && bytes <= TOGETHER
        });
        fits.count().clamp(1, sources.len().max(1)).min(sources.len())
    }

    async fn fetch_short(
        &self,
        ino: InodeNo,
        sources: &[Source],
        to: &mut Progress<'_>,
    ) -> Result<(), Missed> {
        let fetches: Vec<_> =
            sources.iter().map(|source| self.fetch_whole(ino, source.clone(), Through::Store)).collect();
        let mut found = stream::iter(fetches).buffered(READ_WIDTH);
        while let Some((offset, mut pieces)) = found.try_next().await? {
            to.skip_to(offset);
            to.deliver(&mut pieces);
        }
        Ok(())
    }

    async fn stream(&self, slice: &SegmentSlice, len: u32, to: &mut Progress<'_>) -> Result<(), Missed> {
        let codec = &self.volume.codec;
        let stored = codec.stored_range(slice, 0, len);
        let decoder = codec.decoder(slice, 0, len);
        let mut frames = Frames { decoder, start: to.at, to, pieces: Vec::new(), error: None, began: false };
        let key = slice.segment.object_key();
        let read = self.volume.store.get_range_to(&key, stored, &mut frames).await;
        let Frames { decoder, error, .. } = frames;
        match error {
            Some(error) => Err(Missed::Damaged(error)),
            None => {
                read.map_err(not_found_is_moved)?;
                decoder.finish().map_err(Missed::Damaged)
            }
        }
    }
}

/// Passes on bytes as they are stored.
struct Stored<'a> {
    to: &'a mut dyn Delivery,
    /// Keeps what comes.
    filling: Option<Filling>,
}

impl Sink for Stored<'_> {
    fn bytes(&mut self, bytes: Bytes) {
        if let Some(filling) = &mut self.filling {
            filling.push(&bytes);
        }
        self.to.bytes(&mut vec![bytes]);
    }

    fn interrupted(&mut self, kind: ErrorKind) {
        self.to.interrupted(kind);
    }

    fn resumed(&mut self) {
        self.to.resumed();
    }
}

/// Passes on frames as they become whole.
struct Frames<'a, 'b> {
    decoder: Decoder,
    /// Where the first byte belongs.
    start: u64,
    to: &'a mut Progress<'b>,
    pieces: Vec<Bytes>,
    error: Option<FrameError>,
    began: bool,
}

impl Sink for Frames<'_, '_> {
    fn bytes(&mut self, bytes: Bytes) {
        if self.error.is_some() {
            return;
        }
        self.error = self.decoder.feed(bytes, &mut self.pieces).err();
        if self.pieces.is_empty() && !self.began {
            self.to.to.began();
        }
        self.began = true;
        for (at, sum) in self.decoder.sums() {
            if let Some(filling) = &mut self.to.filling {
                filling.knows(self.start + at, sum);
            }
        }
        self.to.deliver(&mut self.pieces);
    }

    fn interrupted(&mut self, kind: ErrorKind) {
        self.to.to.interrupted(kind);
    }

    fn resumed(&mut self) {
        self.to.to.resumed();
    }
}
