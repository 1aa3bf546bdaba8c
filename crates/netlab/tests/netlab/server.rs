//! An HTTP server with as little of its own as can be, so that what is measured is the proxy: `GET /b/N` has a body of `N`
//! bytes, `GET /c/N` the same in chunks, `PUT` answers with the sum of the body it got.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes of the longest body.
const LONGEST: usize = 64 << 20;

/// A server that ends with this value.
pub struct Server {
    pub address: SocketAddr,
    state: Arc<State>,
}

struct State {
    content: Vec<u8>,
    stop: AtomicBool,
    /// Every connection ends after one answer without announcing it.
    hangs_up: AtomicBool,
}

impl Server {
    pub fn start() -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State { content: content(LONGEST), stop: false.into(), hangs_up: false.into() });
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if shared.stop.load(Ordering::SeqCst) {
                    return;
                }
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || drop(serve(&client, &shared)));
            }
        });
        Server { address, state }
    }

    pub fn hang_up_after_each(&self, hang_up: bool) {
        self.state.hangs_up.store(hang_up, Ordering::SeqCst);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.state.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
    }
}

/// The first bytes of what every body is made of.
pub fn content(length: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length + 8);
    let mut rng = headrace_netlab::random::Rng::new(42);
    while bytes.len() < length {
        bytes.extend_from_slice(&rng.next_u64().to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// Of a body; one that is sensitive to order.
pub fn sum(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

fn serve(client: &TcpStream, state: &State) -> io::Result<()> {
    client.set_nodelay(true)?;
    let mut from = BufReader::new(client);
    let mut to = client;
    loop {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if from.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if line == "\r\n" {
                break;
            }
            lines.push(line);
        }
        let header = |name: &str| {
            lines.iter().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_owned())
        };
        let words: Vec<&str> = lines[0].split(' ').collect();
        if header("Expect: ").is_some() {
            to.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        let mut body = vec![0; header("Content-Length: ").map_or(0, |length| length.parse().unwrap())];
        from.read_exact(&mut body)?;
        let wanted: usize =
            words[1].rsplit(['/', '?']).next().and_then(|number| number.parse().ok()).unwrap_or(0);
        let bytes = &state.content[..wanted];
        match (words[0], words[1].starts_with("/c/")) {
            ("GET", true) => {
                to.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
                for chunk in bytes.chunks(50_000) {
                    write!(to, "{:x}\r\n", chunk.len())?;
                    to.write_all(chunk)?;
                    to.write_all(b"\r\n")?;
                }
                to.write_all(b"0\r\n\r\n")?;
            }
            ("GET", false) => {
                write!(to, "HTTP/1.1 200 OK\r\nContent-Length: {wanted}\r\n\r\n")?;
                to.write_all(bytes)?;
            }
            ("HEAD", _) => write!(to, "HTTP/1.1 200 OK\r\nContent-Length: {wanted}\r\n\r\n")?,
            _ => {
                let text = sum(&body).to_string();
                write!(to, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len())?;
            }
        }
        if state.hangs_up.load(Ordering::SeqCst) {
            return Ok(());
        }
    }
}
