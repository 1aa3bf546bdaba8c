//! What can go wrong with a request, and which request meets it.

mod plan;
mod proxy;

use std::time::Duration;

pub(crate) use plan::{Fate, Mix, Plan, Rule};
pub use proxy::FaultProxy;

/// What happens to a request. Byte counts are of bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing: it is passed on.
    None,
    /// The answer comes so much later.
    Delay(Duration),
    /// The connection is reset before the request is passed on.
    Reset,
    /// Nothing of the request is read and nothing answered; the connection stays.
    BlackHole,
    /// The request is read and not answered; the connection stays.
    Hang,
    /// 503 SlowDown with a Retry-After of so many seconds (none if 0).
    Busy(u64),
    /// 429 without a body.
    TooMany,
    /// 500 without a body.
    Broken,
    /// After so many bytes of the request's body nothing more is taken.
    StallRequest(u64),
    /// After so many bytes of the request's body the connection is reset.
    ResetRequest(u64),
    /// One bit in the middle of the request's body is another one.
    CorruptRequest,
    /// The request takes effect, and the connection is reset in place of an answer.
    LoseAnswer,
    /// After so many bytes of the answer's body nothing more comes.
    StallAnswer(u64),
    /// After so many bytes of the answer's body the connection is reset.
    ResetAnswer(u64),
    /// After so many bytes of the answer's body the connection is closed, as if that were all.
    Truncate(u64),
    /// The answer is so many bytes shorter, and its Content-Length agrees.
    Shorten(u64),
    /// One bit in the middle of the answer's body is another one.
    CorruptAnswer,
    /// The answer pretends to be the whole object: status 200 and no Content-Range.
    IgnoreRange,
}
