//! How requests and replies travel, kept apart from what they say: /dev/fuse today, io_uring may follow.

use std::io::{self, IoSlice};

/// What came from the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Received {
    /// A request of so many bytes.
    Request(usize),
    /// Nothing this time: ask again.
    Nothing,
    /// The connection has ended.
    Ended,
}

/// One connection to the kernel, usable from any thread.
pub(crate) trait Transport: Send + Sync {
    /// Waits for a request and puts it at the start of `space`.
    fn receive(&self, space: &mut [u8]) -> io::Result<Received>;

    /// Whether the connection still stands; asked while no requests are taken from it.
    fn connected(&self) -> bool {
        true
    }

    /// Sends one message: a reply to a request received on this same connection, or a notification.
    fn send(&self, message: &[IoSlice<'_>]) -> io::Result<()>;
}
