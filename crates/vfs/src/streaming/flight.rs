//! One fetch under way.

use std::sync::Arc;

use bytes::Bytes;
use headrace_flow::backoff::Failure;
use headrace_flow::reading::{FetchId, FileId};
use headrace_store::ErrorKind;

use super::{Fetcher, Origin};

/// Takes what an [`Origin`] brings.
pub(crate) trait Delivery: Send {
    /// Nothing of the store is needed for this.
    fn local(&mut self);
    /// The first sign of the store's answer.
    fn began(&mut self);
    /// The next bytes.
    fn bytes(&mut self, pieces: &mut Vec<Bytes>);
    /// An attempt failed; there may be another.
    fn interrupted(&mut self, kind: ErrorKind);
    /// There is another.
    fn resumed(&mut self);
}

/// Brings what comes of a fetch to its [`Fetcher`].
pub(super) struct Flight<O: Origin> {
    pub fetcher: Arc<Fetcher<O>>,
    pub fetch: FetchId,
    pub file: FileId,
    /// Where the next byte belongs.
    pub at: u64,
}

impl<O: Origin> Delivery for Flight<O> {
    fn local(&mut self) {
        self.fetcher.event(|inner, now| inner.reads.local(now, self.fetch), None);
    }

    fn began(&mut self) {
        self.fetcher.event(|inner, now| inner.reads.arrived(now, self.fetch, 0), None);
    }

    fn bytes(&mut self, pieces: &mut Vec<Bytes>) {
        let (fetch, file, at) = (self.fetch, self.file, &mut self.at);
        self.fetcher.event(
            |inner, now| {
                // What was cancelled meanwhile belongs nowhere.
                if !inner.tasks.contains_key(&fetch) {
                    return pieces.clear();
                }
                let Some(kept) = inner.files.get_mut(&file) else { return pieces.clear() };
                let before = *at;
                for piece in pieces.drain(..) {
                    let len = piece.len() as u64;
                    kept.buffers.insert(*at, piece);
                    *at += len;
                }
                inner.reads.arrived(now, fetch, *at - before);
            },
            None,
        );
    }

    fn interrupted(&mut self, kind: ErrorKind) {
        let how = match kind {
            ErrorKind::Throttled => Failure::Throttled,
            ErrorKind::Transient => Failure::Transient,
            _ => Failure::Permanent,
        };
        self.fetcher.event(|inner, now| inner.reads.interrupted(now, self.fetch, how), None);
    }

    fn resumed(&mut self) {
        self.fetcher.event(|inner, now| inner.reads.resumed(now, self.fetch), None);
    }
}
