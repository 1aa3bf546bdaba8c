//! A client that takes the time of everything.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// A connection.
pub struct Client {
    stream: TcpStream,
    from: BufReader<TcpStream>,
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
    /// From before the request was sent to the answer's first byte.
    pub first_byte: Duration,
    /// To its last.
    pub whole: Duration,
}

/// How long anything may take before the test has failed.
const LIMIT: Duration = Duration::from_secs(60);

impl Client {
    pub fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let from = BufReader::with_capacity(256 << 10, stream.try_clone().unwrap());
        Client { stream, from }
    }

    /// Sends a request whose head has these lines besides.
    pub fn ask(&mut self, method: &str, target: &str, lines: &str, body: &[u8]) -> io::Result<Answer> {
        let began = Instant::now();
        let length =
            if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
        let head = format!("{method} {target} HTTP/1.1\r\nHost: x\r\n{length}{lines}\r\n");
        self.stream.write_all(head.as_bytes())?;
        self.stream.write_all(body)?;
        self.answer(method, began)
    }

    pub fn get(&mut self, length: usize) -> io::Result<Answer> {
        self.ask("GET", &format!("/b/{length}"), "", &[])
    }

    /// A body so long, and the time it took to send and be answered; the server's sum is checked.
    pub fn put(&mut self, body: &[u8]) -> Duration {
        let answer = self.ask("PUT", "/b/key", "", body).unwrap();
        assert_eq!(String::from_utf8_lossy(&answer.body), super::server::sum(body).to_string());
        answer.whole
    }

    fn answer(&mut self, method: &str, began: Instant) -> io::Result<Answer> {
        if self.from.fill_buf()?.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let first_byte = began.elapsed();
        let (status, length) = self.head()?;
        let mut body = Vec::new();
        match length {
            _ if method == "HEAD" => {}
            Some(length) => {
                (&mut self.from).take(length).read_to_end(&mut body)?;
                if (body.len() as u64) < length {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            None => self.chunks(&mut body)?,
        }
        Ok(Answer { status, body, first_byte, whole: began.elapsed() })
    }

    /// Reads a status and a Content-Length.
    pub fn head(&mut self) -> io::Result<(u16, Option<u64>)> {
        let (mut status, mut length) = (0, None);
        loop {
            let line = self.line()?;
            if line.is_empty() {
                return Ok((status, length));
            }
            if let Some(rest) = line.strip_prefix("HTTP/1.1 ") {
                status = rest.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0);
            }
            if let Some(rest) = line.strip_prefix("Content-Length: ") {
                length = rest.parse().ok();
            }
        }
    }

    fn chunks(&mut self, body: &mut Vec<u8>) -> io::Result<()> {
        loop {
            let size = u64::from_str_radix(&self.line()?, 16).map_err(|_| io::ErrorKind::InvalidData)?;
            if (&mut self.from).take(size).read_to_end(body)? as u64 != size {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.line()?;
            if size == 0 {
                return Ok(());
            }
        }
    }

    /// Reads what there is of a body, for as long as it comes.
    pub fn rest(&mut self, wait: Duration) -> (Vec<u8>, io::Result<()>) {
        self.stream.set_read_timeout(Some(wait)).unwrap();
        let mut body = Vec::new();
        let result = self.from.read_to_end(&mut body).map(|_| ());
        (body, result)
    }

    pub fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).unwrap();
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.from.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().to_owned())
    }
}

/// The middle one.
pub fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}
