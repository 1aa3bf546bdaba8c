//! Chunks as they are stored, and work on many of them in bounded steps.

use std::ops::ControlFlow;

use headrace_kv::Read;
use headrace_layout::{CHUNK_SIZE, ExtentMap, InodeNo};

use super::editor::Editor;
use crate::key::Key;
use crate::record::Flags;
use crate::transaction::Tx;
use crate::{MAX_FILE_SIZE, Result, key};

/// Most bytes of stored extents that one transaction takes in hand (but at least one chunk).
const STEP_BYTES: usize = 1 << 20;
/// Most chunks that one transaction takes in hand.
const STEP_CHUNKS: usize = 4096;

/// The chunk that holds the byte at `offset`, which is below [`MAX_FILE_SIZE`].
pub(crate) fn index_of(offset: u64) -> u32 {
    debug_assert!(offset < MAX_FILE_SIZE);
    (offset / CHUNK_SIZE) as u32
}

/// The offset of a chunk's first byte.
pub(crate) fn base_of(index: u32) -> u64 {
    u64::from(index) * CHUNK_SIZE
}

pub(crate) fn load(read: &dyn Read, ino: InodeNo, index: u32) -> Result<ExtentMap> {
    match read.get(&key::chunk(ino, index))? {
        Some(bytes) => Ok(ExtentMap::decode(&bytes)?),
        None => Ok(ExtentMap::default()),
    }
}

pub(super) fn store(tx: &mut Tx<'_>, ino: InodeNo, index: u32, map: &ExtentMap) {
    if map.is_empty() {
        tx.delete(&key::chunk(ino, index));
    } else {
        tx.put(&key::chunk(ino, index), &map.encode());
    }
}

/// Visits the stored chunks that touch `[start, end)`, in order.
pub(crate) fn scan(
    read: &dyn Read,
    ino: InodeNo,
    (start, end): (u64, u64),
    visit: &mut dyn FnMut(u32, &[u8]) -> ControlFlow<()>,
) -> Result<()> {
    if start >= end.min(MAX_FILE_SIZE) {
        return Ok(());
    }
    let first = key::chunk(ino, index_of(start));
    let last = key::behind(&key::chunk(ino, index_of(end.min(MAX_FILE_SIZE) - 1)));
    read.scan(&first, &last, &mut |key, value| match Key::parse(key) {
        Some(Key::Chunk(_, index)) => visit(index, value),
        _ => ControlFlow::Continue(()),
    })?;
    Ok(())
}

/// What a transaction has taken in hand.
#[derive(Default)]
pub(crate) struct Taken {
    chunks: usize,
    bytes: usize,
}

/// How far from `start` one transaction should go towards `end`.
pub(super) fn step_end(read: &dyn Read, ino: InodeNo, start: u64, end: u64) -> Result<u64> {
    step_end_after(read, ino, (start, end), &mut Taken::default())
}

/// [`step_end`] of a transaction that has some in hand already.
fn step_end_after(read: &dyn Read, ino: InodeNo, range: (u64, u64), taken: &mut Taken) -> Result<u64> {
    let mut step = range.1;
    scan(read, ino, range, &mut |index, value| {
        if taken.chunks > 0 && (taken.chunks >= STEP_CHUNKS || taken.bytes + value.len() > STEP_BYTES) {
            step = base_of(index);
            return ControlFlow::Break(());
        }
        taken.chunks += 1;
        taken.bytes += value.len();
        ControlFlow::Continue(())
    })?;
    Ok(step)
}

/// Drops chunks from the one that begins at or behind `offset`, as many as one transaction should; answers whether none
/// is left.
pub(crate) fn drop_from(tx: &mut Tx<'_>, ino: InodeNo, offset: u64) -> Result<bool> {
    drop_after(tx, ino, offset, &mut Taken::default())
}

/// [`drop_from`] in a transaction that has dropped others.
pub(crate) fn drop_after(tx: &mut Tx<'_>, ino: InodeNo, offset: u64, taken: &mut Taken) -> Result<bool> {
    let start = offset.div_ceil(CHUNK_SIZE).saturating_mul(CHUNK_SIZE);
    let end = step_end_after(tx.read(), ino, (start, MAX_FILE_SIZE), taken)?;
    let mut editor = Editor::new(tx, ino);
    editor.clear(start, end)?;
    editor.finish()?;
    Ok(end == MAX_FILE_SIZE || start >= MAX_FILE_SIZE)
}

/// Goes on dropping what an unsettled file has past its end; answers whether that is finished.
pub(crate) fn settle_step(tx: &mut Tx<'_>, ino: InodeNo) -> Result<bool> {
    let size = tx.inode(ino)?.size;
    let finished = drop_from(tx, ino, size)?;
    if finished {
        tx.inode(ino)?.flags.set(Flags::UNSETTLED, false);
        tx.delete(&key::unsettled(ino));
    }
    Ok(finished)
}
