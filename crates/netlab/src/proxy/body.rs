//! How a body passes: by splice where nothing touches it, else through memory; at the rates that are set, and up to
//! where a fault ends it.

use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};

use super::ledger::Tally;
use super::wire::{Framing, Wire};
use super::{Limits, State};
use crate::pace;

/// Bytes of a pipe, and so the most that passes at once.
const PIPE: usize = 1 << 20;
/// Bodies with less than this left go through memory: two more system calls are not worth it.
const SPLICE_LEAST: u64 = 32 << 10;
/// A head and a body that together are not above this leave in one write.
const TOGETHER: usize = 64 << 10;
/// Bytes between two reports of a long body.
const SETTLE: u64 = 4 << 20;

/// What becomes of the bytes of one body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spoil {
    Nothing,
    FlipAt(u64),
    StallAfter(u64),
    ResetAfter(u64),
    CloseAfter(u64),
    /// The bytes behind this are left out.
    DropAfter(u64),
}

/// How a body, or a whole exchange, ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The connection serves the next one.
    Done,
    Reset,
    Close,
    Hold,
}

/// Which way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    ToServer,
    ToClient,
}

/// What passes bodies on for one connection.
#[derive(Debug)]
pub(super) struct Relay<'a> {
    pub(super) state: &'a State,
    pub(super) limits: Limits,
    pub(super) tally: Tally,
    pipe: Option<(OwnedFd, OwnedFd)>,
}

/// One body on its way; without `to`, to nowhere.
pub(super) struct Passage<'a> {
    pub(super) from: &'a mut Wire,
    pub(super) to: Option<&'a mut Wire>,
    pub(super) direction: Direction,
    /// The head, that leaves before the first byte.
    pub(super) head: Vec<u8>,
}

impl<'a> Relay<'a> {
    pub(super) fn new(state: &'a State) -> Relay<'a> {
        Relay { state, limits: Limits::new(state), tally: Tally::new(), pipe: None }
    }

    /// Passes a whole body on, unless it is spoiled before its end.
    pub(super) fn pass(
        &mut self,
        mut passage: Passage<'_>,
        framing: Framing,
        spoil: Spoil,
    ) -> io::Result<End> {
        let mut at = 0;
        let end = match framing {
            Framing::Chunked => self.chunks(&mut passage, &mut at, spoil)?,
            Framing::Length(length) => self.pieces(&mut passage, &mut at, length, spoil)?,
            Framing::Close => self.pieces(&mut passage, &mut at, u64::MAX, spoil)?,
        };
        self.emit(&mut passage, &[])?;
        Ok(match (end, spoil) {
            // Bodies that end before their fault's place are spoiled at their end: the answer to them does not come.
            (End::Done, Spoil::StallAfter(_)) => End::Hold,
            (End::Done, Spoil::ResetAfter(_)) => End::Reset,
            (end, _) => end,
        })
    }

    /// Passes bytes on until `until`, counted from the body's start like `at`.
    fn pieces(
        &mut self,
        passage: &mut Passage<'_>,
        at: &mut u64,
        until: u64,
        spoil: Spoil,
    ) -> io::Result<End> {
        let (limit, end) = match spoil {
            Spoil::StallAfter(limit) => (limit, End::Hold),
            Spoil::ResetAfter(limit) => (limit, End::Reset),
            Spoil::CloseAfter(limit) => (limit, End::Close),
            _ => (u64::MAX, End::Done),
        };
        while *at < until {
            if *at >= limit {
                return Ok(end);
            }
            let left = (until - *at).min(limit - *at);
            let untouched = !matches!(spoil, Spoil::FlipAt(_) | Spoil::DropAfter(_));
            let passed = if untouched && left >= SPLICE_LEAST && passage.from.ready() == 0 {
                self.splice(passage, left)?
            } else {
                self.copy(passage, *at, left, spoil)?
            };
            if passed == 0 {
                return match until {
                    u64::MAX => Ok(End::Done),
                    _ => Err(io::ErrorKind::UnexpectedEof.into()),
                };
            }
            *at += passed;
        }
        Ok(End::Done)
    }

    fn chunks(&mut self, passage: &mut Passage<'_>, at: &mut u64, spoil: Spoil) -> io::Result<End> {
        loop {
            let line = passage.from.read_line()?;
            self.emit(passage, &line)?;
            let text = String::from_utf8_lossy(&line);
            let size = u64::from_str_radix(text.split(';').next().unwrap_or_default().trim(), 16)
                .map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
            if size == 0 {
                // Trailers, up to an empty line.
                loop {
                    let line = passage.from.read_line()?;
                    self.emit(passage, &line)?;
                    if line == b"\r\n" {
                        return Ok(End::Done);
                    }
                }
            }
            let until = at.checked_add(size).ok_or(io::ErrorKind::InvalidData)?;
            match self.pieces(passage, at, until, spoil)? {
                End::Done => {}
                other => return Ok(other),
            }
            let line = passage.from.read_line()?;
            self.emit(passage, &line)?;
        }
    }

    /// A piece through memory; how many bytes of the body it was.
    fn copy(&mut self, passage: &mut Passage<'_>, at: u64, left: u64, spoil: Spoil) -> io::Result<u64> {
        let most = self.most(left);
        let piece = passage.from.read(most)?;
        let read = piece.len() as u64;
        match spoil {
            Spoil::FlipAt(place) if (at..at + read).contains(&place) => {
                if let Some(byte) = piece.get_mut((place - at) as usize) {
                    *byte ^= 0x10;
                }
            }
            _ => {}
        }
        let keep = match spoil {
            Spoil::DropAfter(keep) => read.min(keep.saturating_sub(at)),
            _ => read,
        };
        let piece = piece.get(..keep as usize).unwrap_or_default();
        if let Some(to) = passage.to.as_deref_mut() {
            send(self.state, &mut self.limits, to, passage.direction, &mut passage.head, piece)?;
        }
        self.count(passage.direction, read);
        Ok(read)
    }

    /// A piece past memory.
    fn splice(&mut self, passage: &mut Passage<'_>, left: u64) -> io::Result<u64> {
        self.emit(passage, &[])?;
        let most = self.most(left);
        let Some(to) = passage.to.as_deref_mut() else { return self.copy(passage, 0, left, Spoil::Nothing) };
        let (taken, given) = match &mut self.pipe {
            Some(pipe) => pipe,
            none => none.insert(pipe()?),
        };
        let most = usize::try_from(most).unwrap_or(PIPE).min(PIPE);
        let read = again(|| splice(&passage.from.stream, None, &given, None, most, SpliceFlags::MOVE))?;
        turn(self.state, &mut self.limits, to, passage.direction, read as u64)?;
        let mut moved = 0;
        while moved < read {
            match again(|| splice(&taken, None, &to.stream, None, read - moved, SpliceFlags::MOVE))? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                some => moved += some,
            }
        }
        self.count(passage.direction, read as u64);
        Ok(read as u64)
    }

    /// Sends what is no body, and the head if it has not left.
    fn emit(&mut self, passage: &mut Passage<'_>, bytes: &[u8]) -> io::Result<()> {
        let Some(to) = passage.to.as_deref_mut() else { return Ok(()) };
        if passage.head.is_empty() && bytes.is_empty() {
            return Ok(());
        }
        send(self.state, &mut self.limits, to, passage.direction, &mut passage.head, bytes)
    }

    fn most(&mut self, left: u64) -> u64 {
        self.limits.refresh(self.state);
        let most = self.limits.conditions.total.map_or(PIPE as u64, pace::piece);
        most.min(left)
    }

    fn count(&mut self, direction: Direction, bytes: u64) {
        match direction {
            Direction::ToClient => self.tally.body_sent += bytes,
            Direction::ToServer => self.tally.body_received += bytes,
        }
        if self.tally.body_sent + self.tally.body_received >= SETTLE {
            self.tally.settle(&self.state.ledger);
        }
    }
}

/// Writes a head that waits and `bytes`, together if they are small, when it is their turn.
fn send(
    state: &State,
    limits: &mut Limits,
    to: &mut Wire,
    direction: Direction,
    head: &mut Vec<u8>,
    bytes: &[u8],
) -> io::Result<()> {
    turn(state, limits, to, direction, (head.len() + bytes.len()) as u64)?;
    let mut stream = &*to.stream;
    if head.is_empty() {
        return stream.write_all(bytes);
    }
    let mut head = std::mem::take(head);
    if head.len() + bytes.len() <= TOGETHER {
        head.extend_from_slice(bytes);
        return stream.write_all(&head);
    }
    stream.write_all(&head)?;
    stream.write_all(bytes)
}

/// Waits until so many bytes may pass, and has the socket keep to its own rate.
fn turn(
    state: &State,
    limits: &mut Limits,
    to: &mut Wire,
    direction: Direction,
    bytes: u64,
) -> io::Result<()> {
    limits.refresh(state);
    to.pace(limits.conditions.per_connection);
    let Some(total) = limits.conditions.total else { return Ok(()) };
    let now = Instant::now();
    let when = super::lock(state.pace(direction)).take(bytes, total, now);
    state.sleep_until(when)
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    // A smaller one works too, in more steps: an unprivileged user's pipes together are limited.
    let _ = fcntl_setpipe_size(&write, PIPE);
    Ok((read, write))
}

fn again<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(rustix::io::Errno::INTR) => {}
            other => return other.map_err(io::Error::from),
        }
    }
}
