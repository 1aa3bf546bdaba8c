//! Segments in which small files lie together, read like files of their own: whoever reads the files of a directory in order reads its
//! segments in order, and what comes next is fetched ahead.

use std::ops::Range;
use std::time::{Duration, Instant};

use headrace_flow::reading::Kept;
use headrace_layout::SegmentId;
use parking_lot::Mutex;

use super::{Body, Fetcher, Origin, Streamed};
use crate::inode::content;

/// Segments that are open at most; what was fetched ahead of readers of others goes.
const OPEN: usize = 256;
/// Nobody reads it any more: who reads files of all of them at random comes back to each within that time.
const IDLE: Duration = Duration::from_secs(30);
/// Handles of segments, apart from those of open files.
const HANDLES: u64 = 1 << 63;

struct Open {
    segment: SegmentId,
    /// Bytes stored.
    len: u64,
    content: u64,
    used: Instant,
}

impl Open {
    fn handle(&self) -> u64 {
        HANDLES | self.content
    }
}

/// The segments that are being read.
#[derive(Default)]
pub(crate) struct Segments {
    /// The least lately used one first.
    open: Mutex<Vec<Open>>,
}

impl Segments {
    /// The read of `range` in the stored object of `segment`, which has `len` bytes. `keeps`: whether a local disk keeps so many bytes, of it
    /// and all others that are open.
    pub(crate) fn read<O: Origin>(
        &self,
        fetcher: &Fetcher<O>,
        segment: SegmentId,
        len: u64,
        range: Range<u64>,
        keeps: impl FnOnce(u64) -> Kept,
    ) -> Streamed {
        let mut open = self.open.lock();
        let mut found = match open.iter().position(|open| open.segment == segment) {
            Some(at) => open.remove(at),
            None => Open { segment, len, content: content::fresh(), used: Instant::now() },
        };
        found.used = Instant::now();
        let (content, handle) = (found.content, found.handle());
        open.push(found);
        let over = open.len().saturating_sub(OPEN);
        let gone: Vec<u64> = open.drain(..over).map(|open| open.handle()).collect();
        let all = open.iter().map(|open| open.len).sum();
        drop(open);
        gone.into_iter().for_each(|handle| fetcher.close(handle));
        Streamed { body: Body::Segment(segment), content, handle, len, range, kept: keeps(all) }
    }

    /// Whether these bytes of a segment are in memory, so that who reads them there is seen to go on.
    pub(crate) fn hold<O: Origin>(
        &self,
        fetcher: &Fetcher<O>,
        segment: SegmentId,
        range: &Range<u64>,
    ) -> bool {
        let content = self.open.lock().iter().find(|open| open.segment == segment).map(|open| open.content);
        content.is_some_and(|content| fetcher.holds(content, range))
    }

    /// What was fetched of it is not to be used again.
    pub(crate) fn forget<O: Origin>(&self, fetcher: &Fetcher<O>, segment: SegmentId) {
        self.close(fetcher, |open| open.segment == segment);
    }

    /// Closes what nobody has read for a while.
    pub(crate) fn tidy<O: Origin>(&self, fetcher: &Fetcher<O>) {
        self.close(fetcher, |open| open.used.elapsed() > IDLE);
    }

    fn close<O: Origin>(&self, fetcher: &Fetcher<O>, which: impl Fn(&Open) -> bool) {
        let gone: Vec<Open> = self.open.lock().extract_if(.., |open| which(open)).collect();
        gone.iter().for_each(|open| fetcher.close(open.handle()));
    }
}
