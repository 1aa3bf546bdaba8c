//! Reading one segment again.

use std::collections::BTreeSet;
use std::ops::Range;

use bytes::Bytes;
use headrace_layout::{IndexRun, InodeNo, SegmentSlice};
use headrace_meta::SegmentUse;

use crate::compact::index::references;
use crate::error::{Result, VolumeError};
use crate::open::Volume;
use crate::segment_index::read_index;

/// Stored bytes read at once: little, since it is in the way of others.
const PIECE: u64 = 1 << 20;
/// Files named for one segment.
const FILES: usize = 20;

/// Asked after every read, with its bytes: waits as long as is due, and answers whether to go on.
pub type Pause<'a> = dyn Fn(u64) -> bool + Send + Sync + 'a;

/// What became of reading a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Every byte is good.
    Sound,
    /// It was to stop.
    Stopped,
    /// It died, or was deleted, meanwhile.
    Gone,
    /// What is wrong, and which files suffer.
    Damaged(String),
}

/// Reads everything in a segment and compares checksums. Answers the stored bytes read.
pub(super) async fn verify(
    volume: &Volume,
    segment: &SegmentUse,
    pause: &Pause<'_>,
) -> Result<(u64, Verdict)> {
    let index = match read_index(volume, segment.id, segment.stored).await {
        Ok(index) => index,
        Err(error) if error.is_damage() => return Ok((0, damaged(volume, segment, None, &error)?)),
        Err(error) => return Err(error),
    };
    let mut first: Option<VolumeError> = None;
    let mut bad = Vec::new();
    let mut bytes = 0;
    for piece in pieces(volume, &index.runs) {
        let (Some(begin), Some(end)) = (piece.first(), piece.last()) else { continue };
        let (begin, end) = (begin.stored.start, end.stored.end);
        let read = volume.store.get_range(&segment.id.object_key(), begin..end).await;
        bytes += end.saturating_sub(begin);
        for part in &piece {
            let checked = match &read {
                Ok(stored) => part.check(volume, begin, stored),
                Err(error) => Err(VolumeError::Store(error.clone())),
            };
            match checked {
                Ok(()) => {}
                Err(error) if error.is_damage() => {
                    bad.push(part.slice.run_offset);
                    first.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
        }
        if !pause(end.saturating_sub(begin)) {
            return Ok((bytes, Verdict::Stopped));
        }
    }
    match first {
        None => Ok((bytes, Verdict::Sound)),
        Some(error) => Ok((bytes, damaged(volume, segment, Some((&index, &bad)), &error)?)),
    }
}

/// A part of a run, whole frames of it.
struct Part<'r> {
    slice: &'r SegmentSlice,
    from: u32,
    len: u32,
    /// Where it is in the object.
    stored: Range<u64>,
}

impl Part<'_> {
    /// Verifies it in bytes that begin at `begin` in the object.
    fn check(&self, volume: &Volume, begin: u64, bytes: &Bytes) -> Result<()> {
        let within =
            |at: u64| usize::try_from(at.saturating_sub(begin)).unwrap_or(usize::MAX).min(bytes.len());
        let stored = bytes.slice(within(self.stored.start)..within(self.stored.end));
        volume.codec.decode(self.slice, self.from, self.len, stored)?;
        Ok(())
    }
}

/// What is read at once: parts that follow each other in the object, about [`PIECE`] bytes.
fn pieces<'r>(volume: &Volume, runs: &'r [IndexRun]) -> Vec<Vec<Part<'r>>> {
    let step = (PIECE as u32).max(volume.superblock.frame_size);
    let (mut pieces, mut open, mut bytes) = (Vec::new(), Vec::new(), 0);
    for run in runs {
        let slice = &run.slice;
        let mut from = 0;
        while from < slice.run_len {
            let len = step.min(slice.run_len - from);
            let stored = volume.codec.stored_range(slice, from, len);
            bytes += stored.end.saturating_sub(stored.start);
            open.push(Part { slice, from, len, stored });
            if bytes >= PIECE {
                pieces.push(std::mem::take(&mut open));
                bytes = 0;
            }
            from += len;
        }
    }
    if !open.is_empty() {
        pieces.push(open);
    }
    pieces
}

/// Says what is wrong, naming files, unless the segment is not in use any more.
fn damaged(
    volume: &Volume,
    segment: &SegmentUse,
    bad: Option<(&headrace_layout::SegmentIndex, &[u32])>,
    error: &VolumeError,
) -> Result<Verdict> {
    if volume.meta.segment(segment.id)?.is_none_or(|now| now.live == 0) {
        return Ok(Verdict::Gone);
    }
    let mut searches = 1;
    let users = references(volume, segment, bad.map(|(index, _)| index), &mut searches)?;
    let inodes: BTreeSet<InodeNo> = users
        .iter()
        .filter(|user| bad.is_none_or(|(_, runs)| runs.contains(&user.slice.run_offset)))
        .map(|user| user.ino)
        .collect();
    if inodes.is_empty() && bad.is_some() {
        // Only bytes that nobody uses any more.
        return Ok(Verdict::Sound);
    }
    let mut names = Vec::new();
    for ino in inodes.iter().take(FILES) {
        names.push(name_of(volume, *ino));
    }
    let more = inodes.len().saturating_sub(FILES);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Ok(Verdict::Damaged(format!(
        "{}: {error}; files that lost bytes: {}{more}",
        segment.id.object_key(),
        names.join(", ")
    )))
}

/// A file for a message: its path if that is found.
fn name_of(volume: &Volume, ino: InodeNo) -> String {
    match volume.meta.path_of(ino) {
        Ok(Some(path)) => path.escape_ascii().to_string(),
        _ => format!("inode {ino}"),
    }
}
