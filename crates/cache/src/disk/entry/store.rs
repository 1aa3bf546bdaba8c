//! Taking in what comes.

use std::io::{self, IoSlice};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use rustix::fs::{FallocateFlags, fallocate};

use super::sync::ANEW;
use super::{Chunk, Entry, State, blocks_in, chunks_of};
use crate::disk::fill::Fill;
use crate::disk::presence::{BLOCK, BLOCKS, checksum, checksum_of_whole};

/// Pieces the kernel takes with one call.
const SLICES: usize = 1024;
/// Room for less than so many bytes is not allocated beforehand: the call costs as much as it saves.
const PREALLOCATED: u64 = 128 << 10;

impl Entry {
    /// Writes blocks that came, and takes note of them; answers which chunks have more than before. Blocks.
    pub(in crate::disk) fn store(self: &Arc<Self>, fill: &Fill) -> io::Result<Vec<u32>> {
        let wanted = {
            let mut state = self.state.lock();
            let wanted = !state.dead && state.passes == 0 && self.takes(&mut state, fill);
            state.writing += u32::from(wanted);
            wanted
        };
        if !wanted {
            return Ok(Vec::new());
        }
        let written = self.write(fill);
        let sums = written.is_ok().then(|| sums_of(fill));
        let mut state = self.state.lock();
        state.writing -= 1;
        state.written = (state.written + 1).max(ANEW);
        written?;
        if state.dead || !self.takes(&mut state, fill) {
            return Ok(Vec::new());
        }
        let pinned = state.pinned;
        let (mut changed, mut added) = (Vec::new(), 0);
        for (block, sum) in sums.into_iter().flatten() {
            let number = (block / u64::from(BLOCKS)) as u32;
            let Some((_, print)) = fill.prints.iter().find(|(chunk, _)| *chunk == number) else { continue };
            let chunk = state.chunks.entry(number).or_insert_with(|| Chunk::new(*print));
            chunk.pinned |= pinned;
            if chunk.presence.insert((block % u64::from(BLOCKS)) as u32, sum) {
                added += BLOCK;
                chunk.known.bytes = chunk.presence.bytes();
                if changed.last() != Some(&number) {
                    changed.push(number);
                }
            }
        }
        drop(state);
        self.lane.held.fetch_add(added, Ordering::Relaxed);
        self.lane.figures.filled_bytes.add(added);
        Ok(changed)
    }

    /// Whether what comes belongs to what is there.
    fn takes(&self, state: &mut State, fill: &Fill) -> bool {
        let range = fill.offset..fill.offset + fill.len();
        let mut new = false;
        for number in chunks_of(&range) {
            let Some((_, print)) = fill.prints.iter().find(|(chunk, _)| *chunk == number) else {
                return false;
            };
            if state.doomed.contains_key(&number) {
                return false;
            }
            match state.chunks.get_mut(&number) {
                // What comes is from before a change or from after a move. Whoever reads next will find out, or [`Self::moved`] tells.
                Some(chunk) if chunk.print != *print => return false,
                Some(chunk) => {
                    let blocks = blocks_in(number, &range);
                    new |= chunk.presence.run_end(blocks.start, blocks.end) < blocks.end;
                }
                None => new = true,
            }
        }
        new
    }

    fn write(&self, fill: &Fill) -> io::Result<()> {
        let mut at = fill.offset;
        self.preallocate(at, fill.len());
        let mut slices: Vec<IoSlice<'_>> = fill.pieces.iter().map(|piece| IoSlice::new(piece)).collect();
        let mut rest = &mut slices[..];
        while !rest.is_empty() {
            let some = rest.len().min(SLICES);
            match rustix::io::pwritev(&*self.file, &rest[..some], at) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    at += written as u64;
                    IoSlice::advance_slices(&mut rest, written);
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        self.length.fetch_max(at, Ordering::Relaxed);
        Ok(())
    }

    /// Has the file system find room for what is about to be written at once and not page by page, which saves a sixth of a write's
    /// processor time or more (`docs/benchmarks/reads.md`). What fails here the write tells.
    fn preallocate(&self, offset: u64, len: u64) {
        if len >= PREALLOCATED && self.lane.preallocates {
            let _ = fallocate(&*self.file, FallocateFlags::KEEP_SIZE, offset, len);
        }
    }
}

/// The checksum of each block of what came, by its number in the entry.
fn sums_of(fill: &Fill) -> Vec<(u64, u32)> {
    let (mut sums, mut known) = (Vec::new(), fill.sums.iter().peekable());
    let mut number = fill.offset / BLOCK;
    let (mut parts, mut len): (Vec<&[u8]>, usize) = (Vec::new(), 0);
    for mut piece in fill.pieces.iter().map(|piece: &Bytes| &piece[..]) {
        while !piece.is_empty() {
            let (part, rest) = piece.split_at(piece.len().min(BLOCK as usize - len));
            parts.push(part);
            len += part.len();
            piece = rest;
            if len == BLOCK as usize {
                let place = (number % u64::from(BLOCKS)) as u32;
                while known.next_if(|(of, _)| *of < number).is_some() {}
                let sum = match known.next_if(|(of, _)| *of == number) {
                    Some((_, crc32c)) => checksum_of_whole(place, *crc32c),
                    None => checksum(place, &parts),
                };
                sums.push((number, sum));
                number += 1;
                parts.clear();
                len = 0;
            }
        }
    }
    if len > 0 {
        sums.push((number, checksum((number % u64::from(BLOCKS)) as u32, &parts)));
    }
    sums
}
