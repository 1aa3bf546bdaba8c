//! A controller whose window and concurrency never change: what a user could have set by hand.

use super::pieces::Pieces;
use super::readahead::Readahead;
use headrace_flow::reading::{FileId, HandleId};
use std::collections::{HashMap, VecDeque};
use std::ops::Range;

/// Positions that are remembered per handle, to see where a read goes on.
const HEADS: usize = 64;

/// What is set by hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Bytes ahead of each sequential reader.
    pub window: u64,
    /// Fetches in flight.
    pub concurrency: usize,
    /// Bytes of one fetch ahead.
    pub part: u64,
    /// Bytes held for all; nothing is fetched ahead beyond it.
    pub memory: u64,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Fixed {
    settings: Settings,
    pieces: Pieces,
    handles: HashMap<HandleId, Handle>,
}

#[derive(Debug)]
struct Handle {
    file: FileId,
    len: u64,
    /// Where reads ended, the latest last.
    heads: VecDeque<Head>,
}

#[derive(Debug, Clone, Copy)]
struct Head {
    next: u64,
    /// Up to here it was fetched ahead.
    ahead: u64,
    sequential: bool,
}

impl Fixed {
    /// Fixed at these settings.
    pub fn new(settings: Settings) -> Fixed {
        Fixed { settings, pieces: Pieces::new(false), handles: HashMap::new() }
    }
}

impl Readahead for Fixed {
    fn pieces(&self) -> &Pieces {
        &self.pieces
    }

    fn pieces_mut(&mut self) -> &mut Pieces {
        &mut self.pieces
    }

    fn enter(&mut self, file: FileId, handle: HandleId, len: u64) {
        self.handles.insert(handle, Handle { file, len, heads: VecDeque::new() });
    }

    fn wants(&mut self, file: FileId, handle: HandleId, range: Range<u64>) -> bool {
        let Some(state) = self.handles.get_mut(&handle) else { return false };
        let Settings { window, part, memory, .. } = self.settings;
        let known = state.heads.iter().position(|head| head.next == range.start);
        let mut head = match known.and_then(|index| state.heads.remove(index)) {
            Some(head) => Head { sequential: true, ..head },
            None => Head { next: range.start, ahead: range.end, sequential: false },
        };
        head.next = range.end;
        let len = state.len;
        self.pieces.want(file, range.clone(), part, true);
        if head.sequential {
            let end = (range.start.saturating_add(window) / part * part).min(len);
            let mut at = head.ahead.max(range.end);
            while at < end && self.pieces.held() + part <= memory {
                let next = ((at / part + 1) * part).min(len);
                self.pieces.want(file, at..next, part, false);
                at = next;
            }
            head.ahead = at;
        }
        state.heads.push_back(head);
        if state.heads.len() > HEADS {
            state.heads.pop_front();
        }
        true
    }

    fn leave(&mut self, handle: HandleId) {
        let Some(state) = self.handles.remove(&handle) else { return };
        if self.handles.values().all(|other| other.file != state.file) {
            self.pieces.release(state.file, 0..u64::MAX);
        }
    }

    fn set_ceiling(&mut self, bytes: u64) {
        self.settings.memory = bytes;
    }

    fn go_on(&mut self) {
        for (file, handle, range) in self.pieces.take_answered() {
            let sequential =
                self.handles.get(&handle).is_some_and(|h| h.heads.iter().any(|head| head.sequential));
            let from = if sequential { range.start.saturating_sub(self.settings.part) } else { range.start };
            self.pieces.release(file, from..range.end);
        }
        self.pieces.send(self.settings.concurrency);
    }
}
