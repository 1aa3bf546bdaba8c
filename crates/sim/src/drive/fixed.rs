//! A controller whose window and concurrency never change: what a user could have set by hand.

use super::controller::Controller;
use super::pieces::Pieces;
use headrace_flow::backoff::Failure;
use headrace_flow::reading::{Action, FetchId, FileId, HandleId, RequestId, Stats};
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::time::Duration;

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

impl Controller for Fixed {
    fn opened(&mut self, file: FileId, handle: HandleId, len: u64) {
        self.handles.insert(handle, Handle { file, len, heads: VecDeque::new() });
    }

    fn read(
        &mut self,
        _now: Duration,
        file: FileId,
        handle: HandleId,
        range: Range<u64>,
        request: RequestId,
    ) {
        let Some(state) = self.handles.get_mut(&handle) else { return };
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
        self.pieces.ask(request, file, handle, range);
        self.go_on();
    }

    fn arrived(&mut self, _now: Duration, fetch: FetchId, bytes: u64) {
        self.pieces.arrived(fetch, bytes);
        self.go_on();
    }

    fn finished(&mut self, _now: Duration, fetch: FetchId) {
        self.pieces.finished(fetch);
        self.go_on();
    }

    fn failed(&mut self, now: Duration, fetch: FetchId, how: Failure) {
        self.pieces.failed(now, fetch, how);
        self.go_on();
    }

    fn closed(&mut self, _now: Duration, handle: HandleId) {
        self.pieces.forget(handle);
        let Some(state) = self.handles.remove(&handle) else { return };
        if self.handles.values().all(|other| other.file != state.file) {
            self.pieces.release(state.file, 0..u64::MAX);
        }
        self.go_on();
    }

    fn set_memory(&mut self, _now: Duration, bytes: u64) {
        self.settings.memory = bytes;
    }

    fn wake_at(&self) -> Option<Duration> {
        self.pieces.wake_at()
    }

    fn wake(&mut self, now: Duration) {
        self.pieces.wake(now);
        self.go_on();
    }

    fn next(&mut self) -> Option<Action> {
        self.pieces.next()
    }

    fn held(&self) -> u64 {
        self.pieces.held()
    }

    fn stats(&self) -> Stats {
        self.pieces.stats()
    }
}
