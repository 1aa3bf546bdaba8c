//! Sending answers.

use std::io::{self, IoSlice};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use zerocopy::IntoBytes as _;

use super::answer::{Answer, Failure, Outcome};
use crate::Errno;
use crate::abi::{Opcode, OutHeader};
use crate::session::{Connection, Observation};

/// `IOV_MAX`: pieces that one system call takes, the header among them.
const PIECES_MAX: usize = 1024;

/// The one answer a request will get. Dropped unused, it answers EIO, so that nobody waits for ever.
pub(super) struct Reply {
    connection: Arc<Connection>,
    unique: u64,
    sent: bool,
    /// `None` for operations that are not known.
    observation: Option<Observation>,
    error: Option<Errno>,
    /// File data that was moved.
    bytes: u64,
}

impl Reply {
    pub fn new(connection: Arc<Connection>, unique: u64, observation: Option<Observation>) -> Self {
        Reply { connection, unique, sent: false, observation, error: None, bytes: 0 }
    }

    fn opcode(&self) -> Option<Opcode> {
        self.observation.as_ref().map(|observation| observation.opcode)
    }

    /// Answers with what a handler gave.
    pub fn finish(mut self, outcome: Outcome) {
        if let Ok(answer) = &outcome {
            self.bytes = answer.moved(self.opcode());
        }
        let opcode = self.opcode();
        match outcome {
            Ok(Answer::Empty) => drop(self.body(&[])),
            Ok(Answer::Inline(inline)) => drop(self.body(inline.as_slice())),
            Ok(Answer::Owned(bytes)) => drop(self.body(&bytes)),
            Ok(Answer::Opened(inline, open)) => {
                if !self.body(inline.as_slice()) {
                    open.take_back(&self.connection.shared);
                }
            }
            Ok(Answer::Pieces(pieces)) => self.pieces(pieces),
            Ok(Answer::Later(_)) => {
                tracing::error!(?opcode, "a call that waits gave another that waits");
                self.send_error(Errno::EIO);
            }
            Err(Failure::Errno(errno)) => self.send_error(errno),
            Err(Failure::NotImplemented) => self.send_error(Errno::ENOSYS),
            Err(Failure::Malformed(why)) => {
                tracing::error!(?opcode, "malformed request from the kernel: {why}");
                self.send_error(Errno::EIO);
            }
        }
    }

    /// Answers with an error.
    pub fn error(mut self, errno: Errno) {
        self.send_error(errno);
    }

    /// Whether the kernel took it.
    fn body(&mut self, body: &[u8]) -> bool {
        let header = self.header(body.len());
        self.send(&[IoSlice::new(header.as_bytes()), IoSlice::new(body)])
    }

    fn pieces(&mut self, pieces: Vec<Bytes>) {
        let pieces = bounded(pieces);
        let header = self.header(pieces.iter().map(Bytes::len).sum());
        let mut message = Vec::with_capacity(pieces.len() + 1);
        message.push(IoSlice::new(header.as_bytes()));
        message.extend(pieces.iter().map(|piece| IoSlice::new(piece)));
        self.send(&message);
    }

    fn header(&self, body: usize) -> OutHeader {
        // A length that does not fit is no length the kernel would take: it refuses it, which `send` deals with.
        let len = u32::try_from(size_of::<OutHeader>() + body).unwrap_or(u32::MAX);
        OutHeader { len, error: 0, unique: self.unique }
    }

    /// Whether the kernel took it.
    fn send(&mut self, message: &[IoSlice<'_>]) -> bool {
        self.sent = true;
        let Err(error) = self.connection.transport.send(message) else { return true };
        if !gone(&error) {
            tracing::error!(unique = self.unique, "the kernel refused a reply: {error}");
            // If it refused the body it has answered EIO itself; if the header, it still waits.
            self.send_error(Errno::EIO);
        }
        false
    }

    fn send_error(&mut self, errno: Errno) {
        self.sent = true;
        self.error = Some(errno);
        self.bytes = 0;
        let header =
            OutHeader { len: size_of::<OutHeader>() as u32, error: -errno.raw(), unique: self.unique };
        if let Err(error) = self.connection.transport.send(&[IoSlice::new(header.as_bytes())])
            && !gone(&error)
        {
            tracing::error!(unique = self.unique, "the kernel refused an error reply: {error}");
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if !self.sent {
            tracing::error!(unique = self.unique, "a request was dropped without an answer: answering EIO");
            self.send_error(Errno::EIO);
        }
        if let Some(observation) = &self.observation {
            self.connection.shared.observer.end(observation, self.error, self.bytes);
        }
    }
}

/// Nobody waits any more: the request, or the whole connection, was given up.
fn gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENODEV | libc::ECONNABORTED | libc::ENOTCONN))
}

/// The same bytes in no more pieces than one system call takes.
fn bounded(pieces: Vec<Bytes>) -> Vec<Bytes> {
    let room = PIECES_MAX - 1;
    if pieces.len() <= room {
        return pieces;
    }
    pieces
        .chunks(pieces.len().div_ceil(room))
        .map(|chunk| {
            let mut joined = BytesMut::with_capacity(chunk.iter().map(Bytes::len).sum());
            chunk.iter().for_each(|piece| joined.extend_from_slice(piece));
            joined.freeze()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bounding_keeps_the_bytes(lens in proptest::collection::vec(0..5_usize, 0..5000)) {
            let mut next = 0_u8;
            let pieces: Vec<Bytes> = lens
                .iter()
                .map(|len| (0..*len).map(|_| { next = next.wrapping_add(1); next }).collect())
                .collect();
            let bytes = pieces.concat();
            let bounded = bounded(pieces);
            prop_assert!(bounded.len() < PIECES_MAX);
            prop_assert_eq!(bounded.concat(), bytes);
        }
    }
}
