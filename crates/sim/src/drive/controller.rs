//! What decides which bytes are fetched when.

use headrace_flow::backoff::Failure;
use headrace_flow::reading::{Action, FetchId, FileId, HandleId, Limits, Reads, RequestId, Stats, Tuning};
use std::ops::Range;
use std::time::Duration;

/// What a controller rests on at a moment, where it has such a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Gauges {
    /// Fetches that it would have in flight.
    pub limit: Option<usize>,
    /// The windows of all streams together, bytes.
    pub windows: Option<u64>,
}

/// The protocol of [`Reads`], so that other controllers can stand in its place. Times never go back.
pub trait Controller {
    /// A file of `len` bytes was opened.
    fn opened(&mut self, file: FileId, handle: HandleId, len: u64);
    /// A reader wants this range.
    fn read(&mut self, now: Duration, file: FileId, handle: HandleId, range: Range<u64>, request: RequestId);
    /// The bytes of a read that was answered are with the reader. Whoever lets go of them by itself needs not know.
    fn taken(&mut self, _now: Duration, _request: RequestId) {}
    /// So many more bytes of a fetch are there.
    fn arrived(&mut self, now: Duration, fetch: FetchId, bytes: u64);
    /// All of a fetch is there.
    fn finished(&mut self, now: Duration, fetch: FetchId);
    /// A fetch ended early.
    fn failed(&mut self, now: Duration, fetch: FetchId, how: Failure);
    /// A handle is closed; its requests are not wanted any more.
    fn closed(&mut self, now: Duration, handle: HandleId);
    /// The memory ceiling moves.
    fn set_memory(&mut self, now: Duration, bytes: u64);
    /// When to call [`wake`](Controller::wake).
    fn wake_at(&self) -> Option<Duration>;
    /// That time has come.
    fn wake(&mut self, now: Duration);
    /// The next thing to do.
    fn next(&mut self) -> Option<Action>;
    /// Bytes that count towards the ceiling.
    fn held(&self) -> u64;
    /// What was done so far.
    fn stats(&self) -> Stats;
    /// What it rests on now; for plots.
    fn gauges(&self) -> Gauges {
        Gauges::default()
    }
}

impl Controller for Reads {
    fn opened(&mut self, file: FileId, handle: HandleId, len: u64) {
        Reads::opened(self, file, handle, len);
    }

    fn read(&mut self, now: Duration, file: FileId, handle: HandleId, range: Range<u64>, request: RequestId) {
        Reads::read(self, now, file, handle, range, request);
    }

    fn taken(&mut self, now: Duration, request: RequestId) {
        Reads::taken(self, now, request);
    }

    fn arrived(&mut self, now: Duration, fetch: FetchId, bytes: u64) {
        Reads::arrived(self, now, fetch, bytes);
    }

    fn finished(&mut self, now: Duration, fetch: FetchId) {
        Reads::finished(self, now, fetch);
    }

    fn failed(&mut self, now: Duration, fetch: FetchId, how: Failure) {
        Reads::failed(self, now, fetch, how);
    }

    fn closed(&mut self, now: Duration, handle: HandleId) {
        Reads::closed(self, now, handle);
    }

    fn set_memory(&mut self, now: Duration, bytes: u64) {
        Reads::set_memory(self, now, bytes);
    }

    fn wake_at(&self) -> Option<Duration> {
        Reads::wake_at(self)
    }

    fn wake(&mut self, now: Duration) {
        Reads::wake(self, now);
    }

    fn next(&mut self) -> Option<Action> {
        Reads::next(self)
    }

    fn held(&self) -> u64 {
        Reads::held(self)
    }

    fn stats(&self) -> Stats {
        Reads::stats(self)
    }

    fn gauges(&self) -> Gauges {
        let windows = self.windows().map(|(_, _, bytes)| bytes).sum();
        Gauges { limit: Some(self.allowed()), windows: Some(windows) }
    }
}

/// What the program uses, told nothing but its limits.
pub fn default_controller(limits: Limits) -> Box<dyn Controller> {
    Box::new(Reads::new(Tuning::default(), limits))
}
