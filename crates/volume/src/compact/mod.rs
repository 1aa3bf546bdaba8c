//! Compaction: rewrites what is worth rewriting, so that space and reads stay cheap.
//!
//! Three things are done, all by the same rewriting core: segments of which less than half is in use are rewritten
//! without the rest; tiny segments are merged; a file's chunk with very many extents is written anew in one run. The
//! segments left behind die and are garbage like any other.

mod chunk;
mod gather;
pub(crate) mod index;
pub(crate) mod intervals;
mod planner;
mod read_ahead;
mod select;

use std::collections::HashMap;
use std::time::SystemTime;

use futures::{StreamExt, stream};
use headrace_layout::{Compression, ExtentData, SegmentId};
use headrace_meta::SegmentUse;
use serde::Serialize;

pub use chunk::{ChunkReport, compact_chunk};
pub use planner::ChunkPlanner;
pub use select::{LONG_EXTENT, MAX_EXTENTS, MIN_AGE, TINY_MIN};

use crate::error::Result;
use crate::open::Volume;
use crate::progress::{Progress, ProgressFn, Unit};
use crate::read::read_extent;
use crate::rewrite::{Piece, Rewriter};
use crate::segment_index::read_index;
use index::references;
use intervals::{Interval, intervals};
use read_ahead::{Held, ReadAhead};
use select::{Class, classify, is_sparse};

/// Segments looked at in one round.
const SCAN: usize = 4096;
/// Segments rewritten in one round, at most.
const SEGMENTS_PER_ROUND: usize = 64;
/// Indexes read in one round only to find out whether a segment is sparse.
const LOOKS_PER_ROUND: usize = 32;
/// Searches through all metadata in one round, for users of segments that their index does not lead to.
const SEARCHES_PER_ROUND: usize = 2;
/// Live bytes rewritten in one round, in units of the segment size.
const ROUND_SEGMENTS: u64 = 4;
/// Ranges read ahead of the rewriter.
const READ_AHEAD: usize = 4;
/// Segments remembered as dense although their stored length suggests otherwise.
const REMEMBERED: usize = 1 << 16;

/// What a round of compaction did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CompactReport {
    /// Segments looked at.
    pub scanned: u64,
    /// Segments whose live bytes were rewritten.
    pub rewritten: u64,
    /// New segments put in their place.
    pub new_segments: u64,
    /// Plain bytes written.
    pub bytes: u64,
    /// File ranges that moved.
    pub moved: u64,
    /// File ranges that changed meanwhile and were left alone.
    pub stale: u64,
    /// Segments that could not be read whole and were left as they are; `fsck` tells more.
    pub damaged: u64,
    /// The scan came to the end of the volume: the next round begins anew.
    pub wrapped: bool,
}

/// Compaction's memory between rounds.
#[derive(Debug, Default)]
pub struct Compactor {
    /// Where the scan goes on.
    cursor: Option<SegmentId>,
    /// Live bytes with which a segment was found to be dense, on a compressed volume.
    dense: HashMap<SegmentId, u64>,
}

/// What a scan chose.
struct Chosen {
    segments: Vec<SegmentUse>,
    scanned: u64,
    wrapped: bool,
}

impl Compactor {
    /// Starts at the oldest segment.
    pub fn new() -> Compactor {
        Compactor::default()
    }

    /// One round: looks at some segments and rewrites at most about four segments' worth of bytes. Safe to stop at any
    /// point. `now` says which segments are old enough.
    pub async fn round(
        &mut self,
        volume: &Volume,
        now: SystemTime,
        progress: &ProgressFn<'_>,
    ) -> Result<CompactReport> {
        volume.writable("compact")?;
        let chosen = self.choose(volume, now).await?;
        let mut report =
            CompactReport { scanned: chosen.scanned, wrapped: chosen.wrapped, ..CompactReport::default() };
        let total = chosen.segments.len() as u64;
        let mut rewriter = Rewriter::new(volume, now);
        let mut searches_left = SEARCHES_PER_ROUND;
        for (done, segment) in chosen.segments.iter().enumerate() {
            progress(Progress { phase: "compacting segments", done: done as u64, total, unit: Unit::Items });
            tokio::task::yield_now().await;
            if rewrite_segment(volume, segment, &mut rewriter, &mut searches_left).await? {
                report.rewritten += 1;
            } else {
                report.damaged += 1;
            }
        }
        let done = rewriter.finish().await?;
        progress(Progress { phase: "compacting segments", done: total, total, unit: Unit::Items });
        Ok(CompactReport {
            new_segments: done.segments,
            bytes: done.plain_bytes,
            moved: done.moved,
            stale: done.stale,
            ..report
        })
    }

    /// Scans from the cursor and picks what to rewrite: sparse segments as they come, tiny ones if there are many.
    async fn choose(&mut self, volume: &Volume, now: SystemTime) -> Result<Chosen> {
        // What the rewriter builds must not be tiny to it.
        let segment_size = target(volume);
        let compressed = volume.superblock.compression != Compression::None;
        let batch = volume.meta.segments(self.cursor, SCAN)?;
        let mut chosen = Chosen { segments: Vec::new(), scanned: 0, wrapped: batch.len() < SCAN };
        let mut tiny = Vec::new();
        let mut bytes_left = u64::from(segment_size) * ROUND_SEGMENTS;
        let mut looks_left = LOOKS_PER_ROUND;
        for segment in batch {
            if chosen.segments.len() + tiny.len() >= SEGMENTS_PER_ROUND || bytes_left == 0 {
                chosen.wrapped = false;
                break;
            }
            chosen.scanned += 1;
            self.cursor = Some(segment.id);
            if volume.pending.contains(segment.id) {
                continue;
            }
            match classify(&segment, segment_size, compressed, now) {
                Class::Dense => continue,
                Class::Unclear if looks_left == 0 || !self.is_really_sparse(volume, &segment).await => {
                    looks_left = looks_left.saturating_sub(1);
                    continue;
                }
                Class::Unclear => {
                    looks_left -= 1;
                    chosen.segments.push(segment);
                }
                Class::Sparse => chosen.segments.push(segment),
                Class::Tiny => tiny.push(segment),
            }
            bytes_left = bytes_left.saturating_sub(segment.live);
        }
        if tiny.len() >= TINY_MIN {
            chosen.segments.append(&mut tiny);
        }
        if chosen.wrapped {
            self.cursor = None;
        }
        Ok(chosen)
    }

    /// Whether a compressed segment has less than half of its plain bytes in use. Remembers those that do not, until
    /// they have lost a quarter of what they had.
    async fn is_really_sparse(&mut self, volume: &Volume, segment: &SegmentUse) -> bool {
        if self.dense.get(&segment.id).is_some_and(|live| segment.live > live - live / 4) {
            return false;
        }
        let sparse = match read_index(volume, segment.id, segment.stored).await {
            Ok(index) => {
                let plain = index.runs.iter().map(|r| u64::from(r.slice.run_len)).sum();
                is_sparse(segment.live, plain)
            }
            Err(error) => {
                tracing::warn!(segment = %segment.id, %error, "cannot read the index of a segment");
                false
            }
        };
        if !sparse {
            if self.dense.len() >= REMEMBERED {
                self.dense.clear();
            }
            self.dense.insert(segment.id, segment.live);
        }
        sparse
    }
}

/// Feeds all that is in use of `segment` to the rewriter. `false` if something in it could not be read: that stays.
async fn rewrite_segment(
    volume: &Volume,
    segment: &SegmentUse,
    rewriter: &mut Rewriter<'_>,
    searches_left: &mut usize,
) -> Result<bool> {
    let index = match read_index(volume, segment.id, segment.stored).await {
        Ok(index) => Some(index),
        Err(error) if error.is_damage() => {
            // Metadata knows the users too; the index only makes it quick.
            tracing::warn!(segment = %segment.id, %error, "cannot read the index of a segment");
            None
        }
        Err(error) => return Err(error),
    };
    let found = intervals(references(volume, segment, index.as_ref(), searches_left)?);
    let memory = ReadAhead::new(volume);
    let most = u32::try_from(volume.memory.rewrite_piece).unwrap_or(u32::MAX);
    let found = found.into_iter().flat_map(|interval| interval.cut(most));
    let mut pieces =
        stream::iter(found).map(|interval| read_interval(volume, &memory, interval)).buffered(READ_AHEAD);
    let mut whole = true;
    while let Some((_held, read)) = pieces.next().await {
        match read {
            Ok(Some(piece)) => rewriter.push(piece).await?,
            Ok(None) => {}
            Err(error) if error.is_damage() => {
                tracing::error!(segment = %segment.id, %error, "cannot compact damaged data");
                whole = false;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(whole)
}

async fn read_interval<'a>(
    volume: &Volume,
    memory: &'a ReadAhead,
    interval: Interval,
) -> (Held<'a>, Result<Option<Piece>>) {
    let Interval { slice, len, ino, offset, users } = interval;
    let held = memory.hold(len).await;
    let read = read_extent(volume, ino, &ExtentData::Segment(slice), 0, len).await;
    (held, read.map(|plain| plain.map(|plain| Piece { ino, offset, plain, users })))
}

/// Bytes at which a segment that is built here is complete.
pub(crate) fn target(volume: &Volume) -> u32 {
    u32::try_from(volume.memory.rewrite_segment).unwrap_or(u32::MAX).min(volume.superblock.segment_size)
}
