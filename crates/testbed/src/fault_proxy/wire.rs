//! One side of a relayed connection: heads, and how long the bodies behind them are.

use std::io::{self, Read, Write};
use std::net::TcpStream;

/// Longest head of a message, bytes.
const MAX_HEAD: usize = 64 << 10;
/// Bytes read at a time.
pub(super) const PIECE: usize = 64 << 10;

/// The first line and the headers of a message.
#[derive(Debug, Clone)]
pub(super) struct Head {
    pub(super) text: String,
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
    pub(super) fn word(&self, number: usize) -> &str {
        self.text.lines().next().and_then(|line| line.split(' ').nth(number)).unwrap_or_default()
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.text.lines().skip(1).find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
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
        let bare = matches!(self.word(1), "204" | "304") || self.word(1).starts_with('1');
        match self.length() {
            _ if method == "HEAD" || bare => Framing::Length(0),
            _ if self.header("transfer-encoding").is_some() => Framing::Chunked,
            Some(length) => Framing::Length(length),
            None => Framing::Close,
        }
    }

    /// The same with another length.
    pub(super) fn with_length(&self, length: u64) -> Head {
        self.without("content-length").with(&format!("Content-Length: {length}"))
    }

    /// The same without a header.
    pub(super) fn without(&self, name: &str) -> Head {
        let named =
            |line: &&str| line.split_once(':').is_some_and(|(found, _)| found.eq_ignore_ascii_case(name));
        let lines: Vec<&str> = self.text.lines().filter(|line| !named(line)).collect();
        Head { text: lines.join("\r\n") }
    }

    fn with(&self, header: &str) -> Head {
        Head { text: format!("{}\r\n{header}", self.text.trim_end()) }
    }

    /// The same with another status.
    pub(super) fn with_status(&self, status: &str) -> Head {
        let rest: Vec<&str> = self.text.lines().skip(1).collect();
        Head { text: format!("HTTP/1.1 {status}\r\n{}", rest.join("\r\n")) }
    }
}

/// A connection with what was read from it and not used yet.
pub(super) struct Wire {
    pub(super) stream: TcpStream,
    buffer: Vec<u8>,
}

impl Wire {
    pub(super) fn new(stream: TcpStream) -> Wire {
        let _ = stream.set_nodelay(true);
        Wire { stream, buffer: Vec::new() }
    }

    /// The next head; `None` when the connection ends before one.
    pub(super) fn read_head(&mut self) -> io::Result<Option<Head>> {
        loop {
            if let Some(end) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                let rest = self.buffer.split_off(end + 4);
                let head = std::mem::replace(&mut self.buffer, rest);
                return Ok(Some(Head { text: String::from_utf8_lossy(&head[..end]).into_owned() }));
            }
            if self.buffer.len() > MAX_HEAD {
                return Err(io::ErrorKind::InvalidData.into());
            }
            if self.fill()? == 0 {
                return if self.buffer.is_empty() {
                    Ok(None)
                } else {
                    Err(io::ErrorKind::UnexpectedEof.into())
                };
            }
        }
    }

    pub(super) fn write_head(&mut self, head: &Head) -> io::Result<()> {
        self.stream.write_all(format!("{}\r\n\r\n", head.text.trim_end()).as_bytes())
    }

    fn fill(&mut self) -> io::Result<usize> {
        let mut piece = vec![0; PIECE];
        let read = self.stream.read(&mut piece)?;
        self.buffer.extend_from_slice(&piece[..read]);
        Ok(read)
    }

    /// Up to `most` bytes of a body; empty at the end of the connection.
    pub(super) fn read(&mut self, most: u64) -> io::Result<Vec<u8>> {
        if self.buffer.is_empty() && self.fill()? == 0 {
            return Ok(Vec::new());
        }
        let most = usize::try_from(most).unwrap_or(usize::MAX).min(self.buffer.len());
        let rest = self.buffer.split_off(most);
        Ok(std::mem::replace(&mut self.buffer, rest))
    }

    /// Everything up to and including a line's end.
    pub(super) fn read_line(&mut self) -> io::Result<Vec<u8>> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|window| window == b"\r\n") {
                let rest = self.buffer.split_off(end + 2);
                return Ok(std::mem::replace(&mut self.buffer, rest));
            }
            if self.fill()? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// The connection ends with a reset, not with an end.
    pub(super) fn reset(&self) {
        let _ = rustix::net::sockopt::set_socket_linger(&self.stream, Some(std::time::Duration::ZERO));
    }
}
