//! Compaction of one chunk of one file: many small extents become few.

use std::time::SystemTime;

use headrace_layout::{CHUNK_SIZE, Extent, InodeNo};
use serde::Serialize;

use super::gather::read_all;
use super::read_ahead::ReadAhead;
use super::select::{LONG_EXTENT, MAX_EXTENTS, stretches};
use crate::error::Result;
use crate::open::Volume;
use crate::rewrite::{Piece, Rewriter, User};

/// What the compaction of a chunk did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ChunkReport {
    /// Extents before.
    pub extents_before: usize,
    /// Extents after.
    pub extents_after: usize,
    /// Plain bytes written.
    pub bytes: u64,
    /// Extents that had changed meanwhile and were left alone.
    pub stale: u64,
}

/// Merges the extents of a file's chunk if there are more than [`MAX_EXTENTS`]: every stretch of neighbours shorter than
/// [`LONG_EXTENT`] is written as one run (as several where it exceeds a segment). Contents and times stay the same;
/// writers may go on meanwhile. Fails, leaving everything as it was, if an extent cannot be read.
pub async fn compact_chunk(volume: &Volume, ino: InodeNo, chunk: u32) -> Result<ChunkReport> {
    volume.writable("compact")?;
    let map = volume.meta.extents(ino, chunk)?;
    let before = map.len();
    if before <= MAX_EXTENTS {
        return Ok(ChunkReport { extents_before: before, extents_after: before, ..ChunkReport::default() });
    }
    let base = u64::from(chunk).saturating_mul(CHUNK_SIZE);
    let limit = volume.memory.rewrite_piece.min(u64::from(volume.superblock.segment_size));
    let long = LONG_EXTENT.min(u32::try_from(volume.memory.rewrite_piece / 2).unwrap_or(u32::MAX));
    let memory = ReadAhead::half(volume);
    let mut rewriter = Rewriter::new(volume, SystemTime::now());
    for stretch in stretches(map.extents(), long) {
        for group in groups(&map.extents()[stretch], limit) {
            if let Some(piece) = read_group(volume, &memory, ino, base, group).await? {
                rewriter.push(piece).await?;
            }
        }
    }
    let done = rewriter.finish().await?;
    let extents_after = volume.meta.extents(ino, chunk)?.len();
    Ok(ChunkReport { extents_before: before, extents_after, bytes: done.plain_bytes, stale: done.stale })
}

/// Cuts a stretch into groups of at most `limit` bytes (or one extent).
fn groups(extents: &[Extent], limit: u64) -> Vec<&[Extent]> {
    let mut groups = Vec::new();
    let (mut start, mut bytes) = (0, 0u64);
    for (index, extent) in extents.iter().enumerate() {
        if index > start && bytes + u64::from(extent.len) > limit {
            groups.push(&extents[start..index]);
            (start, bytes) = (index, 0);
        }
        bytes += u64::from(extent.len);
    }
    if start < extents.len() {
        groups.push(&extents[start..]);
    }
    groups
}

/// Reads neighbours as one piece; `None` if one of them changed meanwhile.
async fn read_group(
    volume: &Volume,
    memory: &ReadAhead,
    ino: InodeNo,
    base: u64,
    group: &[Extent],
) -> Result<Option<Piece>> {
    let Some(first) = group.first() else { return Ok(None) };
    let offset = base.saturating_add(u64::from(first.start));
    let Some(read) = read_all(volume, memory, ino, group).await? else { return Ok(None) };
    let users = group.iter().map(|extent| User {
        ino,
        offset: base.saturating_add(u64::from(extent.start)),
        len: extent.len,
        expect: extent.data.clone(),
        at: extent.start - first.start,
    });
    Ok(Some(Piece { ino, offset, plain: read.into_iter().flatten().collect(), users: users.collect() }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use headrace_layout::ExtentData;

    #[test]
    fn groups_hold_everything_in_order_and_respect_the_limit() {
        let extents: Vec<_> = (0..10)
            .map(|i| Extent {
                start: i * 10,
                len: 10,
                data: ExtentData::Inline { id: u64::from(i), skip: 0 },
            })
            .collect();
        let found = groups(&extents, 35);
        assert_eq!(found.iter().map(|g| g.len()).collect::<Vec<_>>(), [3, 3, 3, 1]);
        assert_eq!(found.concat(), extents);
        assert_eq!(groups(&extents, 1).len(), 10);
        assert!(groups(&[], 10).is_empty());
    }
}
