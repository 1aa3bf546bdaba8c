//! What a handler gives.

use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;
use futures::FutureExt as _;
use zerocopy::{FromBytes as _, Immutable, IntoBytes};

use super::opened::Opened;
use crate::abi::{EntryOut, Malformed, Opcode, OpenReply};
use crate::{Errno, Pending};

/// Large enough for an entry with an open file, the largest answer of fixed size that is common.
const INLINE: usize = 144;
const _: () = assert!(size_of::<EntryOut>() + size_of::<OpenReply>() <= INLINE);

/// What a handler gives.
pub(super) type Outcome = Result<Answer, Failure>;

/// The body of an answer.
pub(super) enum Answer {
    /// Success and nothing to say.
    Empty,
    /// A few fixed structures.
    Inline(Inline),
    /// The same, which tells of an open file.
    Opened(Inline, Opened),
    /// Built for the occasion.
    Owned(Vec<u8>),
    /// File data, as pieces that are not joined.
    Pieces(Vec<Bytes>),
    /// It may have to wait.
    Later(Later),
}

/// Bytes without an allocation.
pub(super) struct Inline {
    bytes: [u8; INLINE],
    len: usize,
}

impl Inline {
    pub fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

/// A call that may have to wait.
pub(super) struct Later {
    pub future: Pin<Box<dyn Future<Output = Outcome> + Send>>,
    /// Whether it may be given up when the process that waits for it is dying.
    pub interruptible: bool,
}

impl Answer {
    /// One structure.
    pub fn of(value: &(impl IntoBytes + Immutable)) -> Answer {
        Answer::pair(value, &[0_u8; 0])
    }

    /// Two structures.
    pub fn pair(first: &(impl IntoBytes + Immutable), second: &(impl IntoBytes + Immutable)) -> Answer {
        let (first, second) = (first.as_bytes(), second.as_bytes());
        let len = first.len() + second.len();
        let mut bytes = [0; INLINE];
        match bytes.split_at_mut_checked(first.len()) {
            Some((head, tail)) if second.len() <= tail.len() => {
                head.copy_from_slice(first);
                if let Some(tail) = tail.get_mut(..second.len()) {
                    tail.copy_from_slice(second);
                }
                Answer::Inline(Inline { bytes, len })
            }
            _ => Answer::Owned([first, second].concat()),
        }
    }

    /// This answer, which tells of `open`.
    pub fn telling_of(self, open: Opened) -> Answer {
        match self {
            Answer::Inline(inline) => Answer::Opened(inline, open),
            other => other,
        }
    }

    /// Bytes of file data that an operation with this answer moved.
    pub fn moved(&self, opcode: Option<Opcode>) -> u64 {
        match (opcode, self) {
            (Some(Opcode::Read), Answer::Pieces(pieces)) => {
                pieces.iter().map(|piece| u64::try_from(piece.len()).unwrap_or(u64::MAX)).sum()
            }
            // Their answers are that number and no more.
            (Some(Opcode::Write | Opcode::CopyFileRange), Answer::Inline(inline)) => {
                u32::read_from_prefix(inline.as_slice()).map_or(0, |(bytes, _)| bytes.into())
            }
            (Some(Opcode::CopyFileRange64), Answer::Inline(inline)) => {
                u64::read_from_prefix(inline.as_slice()).map_or(0, |(bytes, _)| bytes)
            }
            _ => 0,
        }
    }

    /// A call whose result `encode` turns into an answer.
    pub fn later<T: Send + 'static>(
        pending: Pending<T>,
        interruptible: bool,
        encode: impl FnOnce(T) -> Answer + Send + 'static,
    ) -> Outcome {
        let future = pending.map(move |result| result.map(encode).map_err(Failure::from)).boxed();
        Ok(Answer::Later(Later { future, interruptible }))
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// What the caller will see.
    Errno(Errno),
    /// The operation does not exist here; the kernel is to remember that.
    NotImplemented,
    /// The request makes no sense.
    Malformed(Malformed),
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Self {
        // The kernel would take ENOSYS to mean that the operation never works, on any file.
        Failure::Errno(if errno == Errno::ENOSYS { Errno::EOPNOTSUPP } else { errno })
    }
}

impl From<Malformed> for Failure {
    fn from(malformed: Malformed) -> Self {
        Failure::Malformed(malformed)
    }
}
