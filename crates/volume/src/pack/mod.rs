//! The packer: moves small files' data out of metadata into shared segments.

mod planner;

use std::time::SystemTime;

use headrace_layout::ExtentData;
use headrace_meta::InlineRef;
use serde::Serialize;

pub use planner::{PackPlanner, PackStep};

use crate::error::{Result, VolumeError};
use crate::open::Volume;
use crate::read::read_extent;
use crate::rewrite::{Piece, Rewriter, Told, User};

/// Backlog asked for at once, at most, bytes.
const BATCH_BYTES: u64 = 4 << 20;

/// What packing did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PackReport {
    /// Ranges that moved to a segment.
    pub moved: u64,
    /// Plain bytes written.
    pub bytes: u64,
    /// Segments put.
    pub segments: u64,
    /// Ranges that had changed meanwhile.
    pub stale: u64,
    /// Values that could not be read: their files say so too when they are read.
    pub damaged: u64,
}

/// Moves up to `max_bytes` of inline data into segments (a little more, to end with a whole value). Safe to stop at any
/// point; [`PackPlanner`] says when and how much.
pub async fn pack(volume: &Volume, max_bytes: u64) -> Result<PackReport> {
    pack_telling(volume, max_bytes, &|_, _| ()).await
}

/// The same; `put` is told of each new segment with its object.
pub async fn pack_telling(volume: &Volume, max_bytes: u64, put: &Told<'_>) -> Result<PackReport> {
    volume.writable("pack")?;
    let mut rewriter = Rewriter::new(volume, SystemTime::now()).telling(put);
    let mut damaged = 0;
    let mut left = max_bytes;
    let at_once = volume.memory.rewrite_piece.min(BATCH_BYTES);
    let mut after = None;
    while left > 0 {
        let mut batch = volume.meta.inline_backlog(after, left.min(at_once))?;
        let Some(last) = batch.last() else { break };
        after = Some((last.ino, last.id));
        left = left.saturating_sub(batch.iter().map(|entry| u64::from(entry.len)).sum());
        // Nothing else here need ever wait: others want the thread, too.
        tokio::task::yield_now().await;
        batch.sort_by_key(|entry| (entry.ino, entry.offset));
        for neighbours in batch.chunk_by(|a, b| a.ino == b.ino && b.offset == a.offset + u64::from(a.len)) {
            for piece in pieces(volume, neighbours, &mut damaged).await? {
                rewriter.push(piece).await?;
            }
        }
    }
    let done = rewriter.finish().await?;
    Ok(PackReport {
        moved: done.moved,
        bytes: done.plain_bytes,
        segments: done.segments,
        stale: done.stale,
        damaged,
    })
}

/// Ranges that follow each other in a file, as few runs: one, unless some are gone or damaged.
async fn pieces(volume: &Volume, neighbours: &[InlineRef], damaged: &mut u64) -> Result<Vec<Piece>> {
    let mut pieces: Vec<Piece> = Vec::new();
    for &InlineRef { ino, offset, len, id, skip } in neighbours {
        let expect = ExtentData::Inline { id, skip };
        let plain = match read_extent(volume, ino, &expect, 0, len).await {
            Ok(Some(plain)) => plain,
            Ok(None) => continue,
            Err(VolumeError::Data(error)) => {
                tracing::error!(%ino, offset, %error, "cannot pack a damaged value");
                *damaged += 1;
                continue;
            }
            Err(error) => return Err(error),
        };
        match pieces.last_mut() {
            Some(piece) if piece.end() == offset => {
                piece.append(User { ino, offset, len, expect, at: 0 }, plain)
            }
            _ => pieces.push(Piece {
                ino,
                offset,
                plain,
                users: vec![User { ino, offset, len, expect, at: 0 }],
            }),
        }
    }
    Ok(pieces)
}
