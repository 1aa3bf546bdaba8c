//! What controllers over [`Pieces`] have in common: they differ in what a read makes them want and in what they keep.

use super::controller::Controller;
use super::pieces::Pieces;
use headrace_flow::backoff::Failure;
use headrace_flow::reading::{Action, FetchId, FileId, HandleId, RequestId, Stats};
use std::ops::Range;
use std::time::Duration;

/// A way of reading ahead.
pub(crate) trait Readahead {
    /// Its pieces.
    fn pieces(&self) -> &Pieces;
    /// The same, to be changed.
    fn pieces_mut(&mut self) -> &mut Pieces;
    /// A file of `len` bytes was opened.
    fn enter(&mut self, file: FileId, handle: HandleId, len: u64);
    /// A reader wants this range: wants what goes with it too. False if the handle is not known.
    fn wants(&mut self, file: FileId, handle: HandleId, range: Range<u64>) -> bool;
    /// A handle is gone: gives up what only it wanted.
    fn leave(&mut self, handle: HandleId);
    /// The memory ceiling moves.
    fn set_ceiling(&mut self, bytes: u64);
    /// Gives up what was read and sends what may be sent.
    fn go_on(&mut self);
}

impl<R: Readahead> Controller for R {
    fn opened(&mut self, file: FileId, handle: HandleId, len: u64) {
        self.enter(file, handle, len);
    }

    fn read(
        &mut self,
        _now: Duration,
        file: FileId,
        handle: HandleId,
        range: Range<u64>,
        request: RequestId,
    ) {
        if self.wants(file, handle, range.clone()) {
            self.pieces_mut().ask(request, file, handle, range);
            self.go_on();
        }
    }

    fn arrived(&mut self, _now: Duration, fetch: FetchId, bytes: u64) {
        self.pieces_mut().arrived(fetch, bytes);
        self.go_on();
    }

    fn finished(&mut self, _now: Duration, fetch: FetchId) {
        self.pieces_mut().finished(fetch);
        self.go_on();
    }

    fn failed(&mut self, now: Duration, fetch: FetchId, how: Failure) {
        self.pieces_mut().failed(now, fetch, how);
        self.go_on();
    }

    fn closed(&mut self, _now: Duration, handle: HandleId) {
        self.pieces_mut().forget(handle);
        self.leave(handle);
        self.go_on();
    }

    fn set_memory(&mut self, _now: Duration, bytes: u64) {
        self.set_ceiling(bytes);
    }

    fn wake_at(&self) -> Option<Duration> {
        self.pieces().wake_at()
    }

    fn wake(&mut self, now: Duration) {
        self.pieces_mut().wake(now);
        self.go_on();
    }

    fn next(&mut self) -> Option<Action> {
        self.pieces_mut().next()
    }

    fn held(&self) -> u64 {
        self.pieces().held()
    }

    fn stats(&self) -> Stats {
        self.pieces().stats()
    }
}
