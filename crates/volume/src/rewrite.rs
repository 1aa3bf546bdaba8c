//! Moving bytes that files already have into new segments: the core of packing and compaction.
//!
//! The order is always: put the object, then let metadata name it in place of the old source, range by range and only
//! where the old source is still in use. Writers are never blocked, and a crash loses nothing: before the swap the old
//! source is still named, after it the new object is in the store.

use std::collections::BTreeMap;
use std::time::SystemTime;

use bytes::Bytes;
use headrace_layout::{
    Codec, Compression, ExtentData, InodeNo, RunPart, SegmentBuilder, SegmentFull, SegmentId, SegmentSlice,
};
use headrace_meta::{MetaError, Swap};

use crate::error::{Result, VolumeError};
use crate::open::Volume;
use crate::pending::PendingSegment;

/// Swaps in one transaction, at most.
const SWAPS_PER_COMMIT: usize = 512;

/// What a range takes in memory until it is swapped over, bytes: the swap, its place in the index, its file's names. Of very small
/// files that is more than what is in them.
const RANGE: usize = 1 << 10;

/// Plain bytes from which on compressing takes long enough to be done beside the async runtime.
const LONG_PUSH: usize = 128 << 10;

/// One run for a new segment.
pub(crate) struct Piece {
    /// Where the index says the bytes belong.
    pub ino: InodeNo,
    /// First byte in that file.
    pub offset: u64,
    /// The bytes.
    pub plain: Vec<Bytes>,
    /// Everyone who uses them.
    pub users: Vec<User>,
}

impl Piece {
    /// Plain length, bytes.
    pub fn len(&self) -> usize {
        self.plain.iter().map(Bytes::len).sum()
    }

    /// One past the last byte in the file of the index.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.len() as u64)
    }

    /// Adds bytes that follow, and who uses them.
    pub fn append(&mut self, user: User, plain: Vec<Bytes>) {
        // No piece is longer than a segment, whose offsets fit 32 bits; the builder refuses more.
        let at = u32::try_from(self.len()).unwrap_or(u32::MAX);
        self.users.push(User { at, ..user });
        self.plain.extend(plain);
    }
}

/// A file range whose bytes are in a [`Piece`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct User {
    /// The file.
    pub ino: InodeNo,
    /// First byte in the file.
    pub offset: u64,
    /// Length, bytes.
    pub len: u32,
    /// Where the bytes were when they were read.
    pub expect: ExtentData,
    /// Where they begin in the piece.
    pub at: u32,
}

/// What a rewrite did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rewritten {
    /// Segments put.
    pub segments: u64,
    /// Their stored bytes.
    pub stored_bytes: u64,
    /// Plain bytes written.
    pub plain_bytes: u64,
    /// Ranges that point to the new place now.
    pub moved: u64,
    /// Ranges that had changed meanwhile and were left alone.
    pub stale: u64,
}

/// Is told of a segment that was put, with its object.
pub type Told<'a> = dyn Fn(SegmentId, &Bytes) + Sync + 'a;

/// Builds segments from pieces and swaps their users over.
pub(crate) struct Rewriter<'a> {
    volume: &'a Volume,
    now: SystemTime,
    open: Option<Open>,
    done: Rewritten,
    put: Option<&'a Told<'a>>,
}

/// The segment being built.
struct Open {
    pending: PendingSegment,
    builder: SegmentBuilder,
    swaps: BTreeMap<InodeNo, Vec<Swap>>,
    /// How many those are.
    ranges: usize,
}

impl Open {
    /// Bytes of memory that it takes.
    fn size(&self) -> usize {
        self.builder.stored_len().saturating_add(self.ranges.saturating_mul(RANGE))
    }
}

impl<'a> Rewriter<'a> {
    /// `now` goes into the new segments' ids.
    pub fn new(volume: &'a Volume, now: SystemTime) -> Rewriter<'a> {
        Rewriter { volume, now, open: None, done: Rewritten::default(), put: None }
    }

    /// Has `put` told of each segment that is put and used, with its object.
    pub fn telling(self, put: &'a Told<'a>) -> Rewriter<'a> {
        Rewriter { put: Some(put), ..self }
    }

    /// Adds a piece; puts the segment when it is full. At most a segment and a piece are held in memory.
    pub async fn push(&mut self, piece: Piece) -> Result<()> {
        let len = piece.len();
        if len == 0 {
            return Ok(());
        }
        let target = usize::try_from(self.volume.memory.rewrite_segment).unwrap_or(usize::MAX);
        if self.open.as_ref().is_some_and(|open| open.size().saturating_add(len) > target) {
            self.flush().await?;
        }
        let mut open = match self.open.take() {
            Some(open) => open,
            None => {
                let pending = self.volume.pending.begin(self.now);
                let builder =
                    SegmentBuilder::new(&self.volume.codec, self.volume.superblock.uuid, pending.id());
                Open { pending, builder, swaps: BTreeMap::new(), ranges: 0 }
            }
        };
        let parts = parts(&piece, open.pending.id());
        let run = push_run(&self.volume.codec, open.builder, &piece, parts).await?;
        open.builder = run.0;
        let slice = run.1?;
        self.done.plain_bytes += len as u64;
        open.ranges += piece.users.len();
        for user in piece.users {
            let new = SegmentSlice { skip: slice.skip.saturating_add(user.at), ..slice.clone() };
            let swap = Swap { offset: user.offset, len: user.len, expect: user.expect, new };
            open.swaps.entry(user.ino).or_default().push(swap);
        }
        self.open = Some(open);
        Ok(())
    }

    /// Puts what is left; says what was done in all.
    pub async fn finish(mut self) -> Result<Rewritten> {
        self.flush().await?;
        Ok(self.done)
    }

    async fn flush(&mut self) -> Result<()> {
        let Some(Open { pending, mut builder, swaps, .. }) = self.open.take() else { return Ok(()) };
        let id = pending.id();
        self.volume.describe(&mut builder);
        let body = builder.finish();
        let stored = body.len() as u64;
        self.volume.store.put(&id.object_key(), body.clone()).await?;
        self.done.segments += 1;
        self.done.stored_bytes += stored;
        let mut moved = 0;
        for (ino, swaps) in swaps {
            for batch in swaps.chunks(SWAPS_PER_COMMIT) {
                let applied = match self.volume.meta.swap_extents(ino, batch, &[(id, stored)]) {
                    Ok(applied) => applied as u64,
                    // Deleted meanwhile.
                    Err(MetaError::NotFound | MetaError::Stale) => 0,
                    Err(e) => return Err(e.into()),
                };
                moved += applied;
                self.done.stale += (batch.len() as u64).saturating_sub(applied);
            }
        }
        self.done.moved += moved;
        if moved > 0
            && let Some(put) = self.put
        {
            put(id, &body);
        }
        if moved == 0 && self.volume.meta.segment(id)?.is_none() {
            // Nobody wanted it and nobody knows it: not worth a wait for garbage collection.
            if let Err(error) = self.volume.store.delete(&id.object_key()).await {
                tracing::debug!(segment = %id, %error, "an unused segment stays until garbage collection");
            }
        }
        drop(pending);
        // A local store never waits, so without this the runtime would get nothing else done meanwhile.
        tokio::task::yield_now().await;
        Ok(())
    }
}

/// Since when the bytes of a piece are what they are: as long as the segment that they were in, or, for those that come
/// from metadata, as long as the new one. None if all of them are that young.
fn parts(piece: &Piece, segment: SegmentId) -> Vec<RunPart> {
    let own = millis(segment);
    let mut users: Vec<&User> = piece.users.iter().collect();
    users.sort_by_key(|user| user.at);
    let mut parts: Vec<RunPart> = Vec::new();
    let mut add = |len: u32, written_ms: u64| match parts.last_mut() {
        _ if len == 0 => {}
        Some(last) if last.written_ms == written_ms => last.len += len,
        _ => parts.push(RunPart { len, written_ms }),
    };
    let mut at = 0;
    for user in users {
        add(user.at.saturating_sub(at), own);
        at = at.max(user.at);
        let end = user.at.saturating_add(user.len);
        let written = match &user.expect {
            ExtentData::Segment(slice) => millis(slice.segment).min(own),
            ExtentData::Inline { .. } => own,
        };
        add(end.saturating_sub(at), written);
        at = at.max(end);
    }
    add(u32::try_from(piece.len()).unwrap_or(u32::MAX).saturating_sub(at), own);
    if parts.iter().all(|part| part.written_ms == own) { Vec::new() } else { parts }
}

/// When a segment was made, milliseconds since the Unix epoch.
fn millis(segment: SegmentId) -> u64 {
    let age = segment.created().duration_since(SystemTime::UNIX_EPOCH);
    age.map_or(0, |age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX))
}

/// Adds a run to a builder; beside the async runtime if that takes long.
async fn push_run(
    codec: &Codec,
    mut builder: SegmentBuilder,
    piece: &Piece,
    parts: Vec<RunPart>,
) -> Result<(SegmentBuilder, Result<SegmentSlice, SegmentFull>)> {
    let (len, ino, offset, plain) = (piece.len(), piece.ino, piece.offset, piece.plain.clone());
    let push = move || {
        let pieces: Vec<&[u8]> = plain.iter().map(|b| &b[..]).collect();
        let slice = builder.push_moved_run(ino, offset, &pieces, &parts);
        (builder, slice)
    };
    if len < LONG_PUSH || codec.compression() == Compression::None {
        return Ok(push());
    }
    let pushed = tokio::task::spawn_blocking(push).await;
    pushed.map_err(|e| VolumeError::System { operation: "compressing", detail: e.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moved_bytes_keep_the_age_of_where_they_were() {
        let at = |ms: u128| SegmentId(ms << 80);
        let slice = |id| {
            ExtentData::Segment(SegmentSlice {
                segment: id,
                run_offset: 64,
                run_len: 100,
                skip: 0,
                frames: None,
            })
        };
        let user = |at, len, expect| User { ino: InodeNo(2), offset: 0, len, expect, at };
        let piece =
            |users| Piece { ino: InodeNo(2), offset: 0, plain: vec![Bytes::from(vec![0; 100])], users };
        let part = |len, written_ms| RunPart { len, written_ms };
        let mixed = piece(vec![
            user(0, 40, slice(at(10))),
            user(20, 40, slice(at(10))),
            user(60, 30, slice(at(30))),
            user(90, 10, ExtentData::Inline { id: 1, skip: 0 }),
        ]);
        assert_eq!(parts(&mixed, at(50)), [part(60, 10), part(30, 30), part(10, 50)]);
        let young = piece(vec![user(0, 100, ExtentData::Inline { id: 1, skip: 0 })]);
        assert_eq!(parts(&young, at(50)), []);
    }
}
