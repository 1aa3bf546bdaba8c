//! Readahead in blocks of one size under a fixed buffer, as JuiceFS has it.
//!
//! A block is 4 MiB and usable only when all of it is there. A sequential reader's window begins with one block and doubles as
//! long as four windows more fit into what is free of four fifths of the buffer, so the buffer decides the window, the window
//! decides how many blocks are in flight, and that decides throughput.

use crate::drive::pieces::Pieces;
use crate::drive::readahead::Readahead;
use headrace_flow::reading::{FileId, HandleId};
use std::collections::BTreeMap;
use std::ops::Range;

/// Bytes of a block: an object of the store.
pub const BLOCK: u64 = 4 << 20;
/// Downloads at once, as the program has it by default.
const DOWNLOADS: usize = 200;

/// See the [module](self).
#[derive(Debug)]
pub struct Buffers {
    buffer: u64,
    pieces: Pieces,
    sessions: BTreeMap<HandleId, Session>,
}

#[derive(Debug)]
struct Session {
    file: FileId,
    len: u64,
    /// Where the last read ended.
    next: u64,
    /// Bytes read one after the other.
    total: u64,
    window: u64,
}

impl Buffers {
    /// With a buffer of so many bytes for all readers.
    pub fn new(buffer: u64) -> Buffers {
        Buffers { buffer, pieces: Pieces::new(true), sessions: BTreeMap::new() }
    }
}

impl Session {
    /// A read came; how far ahead of it blocks are wanted. `used`: of `most` bytes that may be.
    fn read(&mut self, range: &Range<u64>, used: u64, most: u64) {
        if range.start != self.next {
            *self = Session { total: 0, window: 0, ..*self };
        }
        self.next = range.end;
        self.total += range.end - range.start;
        let free = most.saturating_sub(used);
        if self.window == 0 {
            self.window = BLOCK;
        } else if self.total >= self.window && free > 4 * self.window {
            self.window *= 2;
        } else if self.window > BLOCK && free < self.window / 2 {
            self.window /= 2;
        }
    }
}

impl Readahead for Buffers {
    fn pieces(&self) -> &Pieces {
        &self.pieces
    }

    fn pieces_mut(&mut self) -> &mut Pieces {
        &mut self.pieces
    }

    fn enter(&mut self, file: FileId, handle: HandleId, len: u64) {
        self.sessions.insert(handle, Session { file, len, next: 0, total: 0, window: 0 });
    }

    fn wants(&mut self, file: FileId, handle: HandleId, range: Range<u64>) -> bool {
        let Some(session) = self.sessions.get_mut(&handle) else { return false };
        session.read(&range, self.pieces.held(), self.buffer / 5 * 4);
        let (window, len) = (session.window, session.len);
        let first = range.start / BLOCK * BLOCK;
        let demanded = (range.end.div_ceil(BLOCK) * BLOCK).min(len);
        self.pieces.want(file, first..demanded, BLOCK, true);
        let ahead = ((range.end + window).div_ceil(BLOCK) * BLOCK).min(len);
        let mut at = demanded;
        while at < ahead && self.pieces.held() + BLOCK <= self.buffer {
            self.pieces.want(file, at..at + BLOCK, BLOCK, false);
            at += BLOCK;
        }
        true
    }

    fn leave(&mut self, handle: HandleId) {
        let Some(session) = self.sessions.remove(&handle) else { return };
        if self.sessions.values().all(|other| other.file != session.file) {
            self.pieces.release(session.file, 0..u64::MAX);
        }
    }

    fn set_ceiling(&mut self, bytes: u64) {
        self.buffer = bytes;
    }

    fn go_on(&mut self) {
        for (file, _, range) in self.pieces.take_answered() {
            let block = range.end / BLOCK * BLOCK;
            self.pieces.release(file, block.saturating_sub(2 * BLOCK)..block);
        }
        self.pieces.send(DOWNLOADS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::Controller;
    use headrace_flow::reading::{Action, RequestId};
    use std::time::Duration;

    const MIB: u64 = 1 << 20;

    /// The window after a long sequential read while everything within it is held.
    fn window(buffer: u64) -> u64 {
        let mut session = Session { file: FileId(1), len: u64::MAX, next: 0, total: 0, window: 0 };
        for read in 0..100_000 {
            let used = session.window + BLOCK;
            session.read(&(read * MIB..(read + 1) * MIB), used, buffer / 5 * 4);
        }
        session.window
    }

    #[test]
    fn the_buffer_decides_the_window() {
        assert_eq!(window(300 * MIB), 64 * MIB);
        assert_eq!(window(2048 * MIB), 512 * MIB);
    }

    #[test]
    fn a_read_waits_for_its_whole_block() {
        let mut buffers = Buffers::new(300 * MIB);
        let now = Duration::ZERO;
        buffers.opened(FileId(1), HandleId(1), 64 * MIB);
        buffers.read(now, FileId(1), HandleId(1), 0..4096, RequestId(1));
        let Some(Action::Fetch { fetch, range, .. }) = buffers.next() else { panic!("nothing is fetched") };
        assert_eq!(range, 0..BLOCK);
        while buffers.next().is_some() {}
        buffers.arrived(now, fetch, BLOCK - 1);
        assert_eq!(buffers.next(), None);
        buffers.arrived(now, fetch, 1);
        buffers.finished(now, fetch);
        assert_eq!(buffers.next(), Some(Action::Answer { request: RequestId(1) }));
    }

    #[test]
    fn a_jump_begins_a_new_window() {
        let mut session = Session { file: FileId(1), len: u64::MAX, next: 0, total: 0, window: 0 };
        for read in 0..100 {
            session.read(&(read * MIB..(read + 1) * MIB), 0, 4096 * MIB);
        }
        assert!(session.window > 16 * BLOCK);
        session.read(&(5 * MIB..6 * MIB), 0, 4096 * MIB);
        assert_eq!(session.window, BLOCK);
    }
}
