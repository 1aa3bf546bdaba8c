//! How requests and replies travel, kept apart from what they say: by /dev/fuse or by io_uring.

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;

use super::backing::BackingId;

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

    /// Whether requests come to whoever has waited longest, of all whose transport is of this kind.
    fn by_turns(&self) -> bool {
        false
    }

    /// Whether others bring what would have come by this one.
    fn replaceable(&self) -> bool {
        true
    }

    /// Sends what was taken by [`Transport::send`] and waits for the next [`Transport::receive`] to go.
    fn flush(&self) {}

    /// The connection is known to have ended: whoever waits for requests is to know it too.
    fn close(&self) {}

    /// Whether this thread may give the kernel files to read in place of asking here.
    fn backing_allowed(&self) -> io::Result<()> {
        Err(unsupported())
    }

    /// Gives it one. From then on it has a reference of its own.
    fn open_backing(&self, _file: BorrowedFd<'_>) -> io::Result<BackingId> {
        Err(unsupported())
    }

    /// Takes it back. Opens that are read from it already stay so.
    fn close_backing(&self, _id: BackingId) -> io::Result<()> {
        Err(unsupported())
    }
}

fn unsupported() -> io::Error {
    io::Error::from_raw_os_error(libc::EOPNOTSUPP)
}
