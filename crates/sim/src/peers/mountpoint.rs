//! One prefetcher per handle, as Mountpoint has it: the window multiplies by eight each time the reader has come through it, up to a
//! limit, and is fetched in parts of 8 MiB; any jump begins anew.

use crate::drive::pieces::Pieces;
use crate::drive::readahead::Readahead;
use headrace_flow::reading::{FileId, HandleId};
use std::collections::BTreeMap;
use std::ops::Range;

/// Bytes of one GET.
pub const PART: u64 = 8 << 20;
/// The first window: what a first read of any size is taken for.
pub const FIRST_WINDOW: u64 = (1 << 20) + (128 << 10);
const GROWTH: u64 = 8;

/// See the [module](self).
#[derive(Debug)]
pub struct Prefetcher {
    most: u64,
    connections: usize,
    pieces: Pieces,
    handles: BTreeMap<HandleId, Stream>,
}

#[derive(Debug)]
struct Stream {
    file: FileId,
    len: u64,
    next: u64,
    window: u64,
    /// When the reader comes here the window grows.
    grows_at: u64,
    /// Up to here it was asked for.
    ahead: u64,
}

impl Prefetcher {
    /// Windows up to `most` bytes, so many GETs at once.
    pub fn new(most: u64, connections: usize) -> Prefetcher {
        Prefetcher { most, connections, pieces: Pieces::new(false), handles: BTreeMap::new() }
    }
}

impl Readahead for Prefetcher {
    fn pieces(&self) -> &Pieces {
        &self.pieces
    }

    fn pieces_mut(&mut self) -> &mut Pieces {
        &mut self.pieces
    }

    fn enter(&mut self, file: FileId, handle: HandleId, len: u64) {
        let stream = Stream { file, len, next: 0, window: FIRST_WINDOW, grows_at: FIRST_WINDOW, ahead: 0 };
        self.handles.insert(handle, stream);
    }

    fn wants(&mut self, file: FileId, handle: HandleId, range: Range<u64>) -> bool {
        let Some(stream) = self.handles.get_mut(&handle) else { return false };
        // The kernel's requests of one stream may come a little out of order; only what is not ahead is a jump.
        if range.start > stream.ahead || range.end + PART < stream.next {
            let len = stream.len;
            self.pieces.release(file, 0..len);
            let grows_at = range.start + FIRST_WINDOW;
            *stream =
                Stream { file, len, next: range.start, window: FIRST_WINDOW, grows_at, ahead: range.start };
        }
        stream.next = stream.next.max(range.end);
        if stream.next >= stream.grows_at && stream.window < self.most {
            stream.window = (stream.window * GROWTH).min(self.most);
            stream.grows_at = stream.next + stream.window;
        }
        let until = (stream.next + stream.window).min(stream.len);
        let from = stream.ahead;
        // In whole parts, except at the beginning.
        if from == range.start || until >= from + PART || from < range.end {
            stream.ahead = until.max(from);
        }
        let ahead = stream.ahead;
        self.pieces.want(file, range.clone(), PART, true);
        self.pieces.want(file, from..ahead, PART, false);
        true
    }

    fn leave(&mut self, handle: HandleId) {
        if let Some(stream) = self.handles.remove(&handle) {
            self.pieces.release(stream.file, 0..u64::MAX);
        }
    }

    fn set_ceiling(&mut self, _bytes: u64) {}

    fn go_on(&mut self) {
        for (file, _, range) in self.pieces.take_answered() {
            self.pieces.release(file, range.start.saturating_sub(PART)..range.end);
        }
        self.pieces.send(self.connections);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::Controller;
    use headrace_flow::reading::{Action, RequestId};
    use std::time::Duration;

    const KIB: u64 = 1 << 10;

    fn fetched(prefetcher: &mut Prefetcher) -> Vec<Range<u64>> {
        let mut ranges = Vec::new();
        while let Some(action) = prefetcher.next() {
            if let Action::Fetch { range, .. } = action {
                ranges.push(range);
            }
        }
        ranges
    }

    #[test]
    fn the_window_grows_by_eight_as_the_reader_comes_through_it_and_a_jump_begins_anew() {
        let mut prefetcher = Prefetcher::new(64 << 20, 1000);
        let (file, handle) = (FileId(1), HandleId(1));
        prefetcher.opened(file, handle, 1 << 40);
        let read = |prefetcher: &mut Prefetcher, start: u64| {
            prefetcher.read(Duration::ZERO, file, handle, start..start + 128 * KIB, RequestId(start));
            fetched(prefetcher)
        };
        let first = read(&mut prefetcher, 0);
        assert_eq!(first.iter().map(|r| r.end - r.start).sum::<u64>(), FIRST_WINDOW + 128 * KIB);
        let mut furthest = 0;
        for request in 1..20 {
            for range in read(&mut prefetcher, request * 128 * KIB) {
                furthest = furthest.max(range.end);
            }
        }
        assert!(furthest > 8 * FIRST_WINDOW, "{furthest}");
        let jump = read(&mut prefetcher, 1 << 30);
        assert_eq!(jump.iter().map(|r| r.end - r.start).sum::<u64>(), FIRST_WINDOW + 128 * KIB);
    }
}
