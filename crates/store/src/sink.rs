//! Where bytes go that are handed over as they come.

use bytes::Bytes;

use crate::ErrorKind;

/// Takes what [`ObjectStore::get_range_to`](crate::ObjectStore::get_range_to) reads, and hears how it goes. A closure that takes bytes is one.
pub trait Sink: Send {
    /// The next bytes.
    fn bytes(&mut self, bytes: Bytes);

    /// An attempt failed like this; unless it was the last, [`Sink::resumed`] follows when the next one begins.
    fn interrupted(&mut self, _kind: ErrorKind) {}

    /// The next attempt begins, at the first byte that is missing.
    fn resumed(&mut self) {}
}

impl<F: FnMut(Bytes) + Send> Sink for F {
    fn bytes(&mut self, bytes: Bytes) {
        self(bytes);
    }
}
