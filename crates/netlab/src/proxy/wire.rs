//! One side of a relayed connection: heads, how long the bodies behind them are, and what the socket can do.

use std::borrow::Cow;
use std::io::{self, Read};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{RecvFlags, recv};

use crate::Rate;

/// Longest head of a message, bytes.
const MAX_HEAD: usize = 64 << 10;
/// Bytes read at a time. Small, since what comes after a head goes by splice.
const PIECE: usize = 32 << 10;

/// The first line and the headers of a message, as they came.
#[derive(Debug, Clone)]
pub(super) struct Head {
    bytes: Vec<u8>,
}

/// How the end of a body is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    Length(u64),
    Chunked,
    /// It lasts until the connection ends.
    Close,
}

impl Head {
    fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.bytes)
    }

    /// With the empty line that ends it.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// A word of the first line; empty when there is none.
    pub(super) fn word(&self, number: usize) -> String {
        let text = self.text();
        text.lines().next().and_then(|line| line.split(' ').nth(number)).unwrap_or_default().to_owned()
    }

    pub(super) fn header(&self, name: &str) -> Option<String> {
        self.text().lines().skip(1).find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        })
    }

    /// The sender ends the connection behind this message.
    pub(super) fn closes(&self) -> bool {
        self.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }

    fn length(&self) -> Option<u64> {
        self.header("content-length")?.parse().ok()
    }

    pub(super) fn of_request(&self) -> Framing {
        match self.length() {
            Some(length) => Framing::Length(length),
            None if self.header("transfer-encoding").is_some() => Framing::Chunked,
            None => Framing::Length(0),
        }
    }

    pub(super) fn of_answer(&self, method: &str) -> Framing {
        let bare = matches!(self.word(1).as_str(), "204" | "304");
        match self.length() {
            _ if method == "HEAD" || bare => Framing::Length(0),
            _ if self.header("transfer-encoding").is_some() => Framing::Chunked,
            Some(length) => Framing::Length(length),
            None => Framing::Close,
        }
    }

    /// The same with another length.
    pub(super) fn with_length(&self, length: u64) -> Head {
        let rest = self.without("content-length");
        Head::of(&format!("{}\r\nContent-Length: {length}", rest.text().trim_end()))
    }

    /// The same without a header.
    pub(super) fn without(&self, name: &str) -> Head {
        let named =
            |line: &&str| line.split_once(':').is_some_and(|(found, _)| found.eq_ignore_ascii_case(name));
        let text = self.text();
        let lines: Vec<&str> = text.lines().filter(|line| !named(line)).collect();
        Head::of(&lines.join("\r\n"))
    }

    /// The same with another status.
    pub(super) fn with_status(&self, status: &str) -> Head {
        let text = self.text();
        let rest: Vec<&str> = text.lines().skip(1).collect();
        Head::of(&format!("HTTP/1.1 {status}\r\n{}", rest.join("\r\n")))
    }

    fn of(text: &str) -> Head {
        Head { bytes: format!("{}\r\n\r\n", text.trim_end()).into_bytes() }
    }
}

/// A connection with what was read from it and not used yet.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) stream: Arc<TcpStream>,
    buffer: Vec<u8>,
    /// Bytes at the buffer's start that are used up.
    used: usize,
    paced: Option<Rate>,
}

impl Wire {
    pub(super) fn new(stream: Arc<TcpStream>) -> Wire {
        let _ = stream.set_nodelay(true);
        Wire { stream, buffer: Vec::new(), used: 0, paced: None }
    }

    /// Bytes read and not used yet.
    pub(super) fn ready(&self) -> usize {
        self.buffer.len() - self.used
    }

    /// The next head; `None` when the connection ends before one.
    pub(super) fn read_head(&mut self) -> io::Result<Option<Head>> {
        let mut searched = 0;
        loop {
            let rest = &self.buffer[self.used..];
            if let Some(end) = rest[searched..].windows(4).position(|window| window == b"\r\n\r\n") {
                let head = rest[..searched + end + 4].to_vec();
                self.used += head.len();
                return Ok(Some(Head { bytes: head }));
            }
            if rest.len() > MAX_HEAD {
                return Err(io::ErrorKind::InvalidData.into());
            }
            searched = rest.len().saturating_sub(3);
            if self.fill()? == 0 {
                return match self.ready() {
                    0 => Ok(None),
                    _ => Err(io::ErrorKind::UnexpectedEof.into()),
                };
            }
        }
    }

    fn fill(&mut self) -> io::Result<usize> {
        self.buffer.drain(..self.used);
        self.used = 0;
        let held = self.buffer.len();
        self.buffer.resize(held + PIECE, 0);
        let read = (&*self.stream).read(&mut self.buffer[held..]);
        self.buffer.truncate(held + *read.as_ref().unwrap_or(&0));
        read
    }

    /// Up to `most` bytes of a body; empty at the end of the connection.
    pub(super) fn read(&mut self, most: u64) -> io::Result<&mut [u8]> {
        if self.ready() == 0 && self.fill()? == 0 {
            return Ok(&mut []);
        }
        let from = self.used;
        let most = usize::try_from(most).unwrap_or(usize::MAX).min(self.ready());
        self.used += most;
        Ok(&mut self.buffer[from..from + most])
    }

    /// Everything up to and including a line's end.
    pub(super) fn read_line(&mut self) -> io::Result<Vec<u8>> {
        loop {
            let rest = &self.buffer[self.used..];
            if let Some(end) = rest.windows(2).position(|window| window == b"\r\n") {
                let line = rest[..end + 2].to_vec();
                self.used += line.len();
                return Ok(line);
            }
            if rest.len() > MAX_HEAD {
                return Err(io::ErrorKind::InvalidData.into());
            }
            if self.fill()? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Whether the other side has ended the connection, or sent what nobody asked for, while nothing was under way.
    pub(super) fn is_stale(&self) -> bool {
        let mut byte = [0u8; 1];
        let peeked = recv(&*self.stream, &mut byte[..], RecvFlags::PEEK | RecvFlags::DONTWAIT);
        self.ready() > 0 || !matches!(peeked, Err(rustix::io::Errno::AGAIN))
    }

    /// Has the kernel send no faster than this.
    pub(super) fn pace(&mut self, rate: Option<Rate>) {
        if self.paced != rate && set_max_pacing_rate(&self.stream, rate).is_ok() {
            self.paced = rate;
        }
    }

    /// The connection ends with a reset, not with an end.
    pub(super) fn reset(&self) {
        let _ = rustix::net::sockopt::set_socket_linger(&*self.stream, Some(Duration::ZERO));
    }
}

/// The kernel's own pacing of what a TCP socket sends; `None` is as fast as it goes.
#[allow(unsafe_code)]
fn set_max_pacing_rate(stream: &TcpStream, rate: Option<Rate>) -> io::Result<()> {
    let value: u64 = rate.map_or(u64::MAX, Rate::bytes_per_second);
    // SAFETY: the descriptor is open, and the option's value is the eight bytes of `value`, which the kernel only reads.
    let result = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MAX_PACING_RATE,
            std::ptr::from_ref(&value).cast(),
            size_of::<u64>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
