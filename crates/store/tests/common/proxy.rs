//! A loopback proxy: one request a connection, passed on or spoiled.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What the proxy does to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing: pass it on.
    None,
    /// Pass it on, cut the answer after so many bytes of its body.
    Truncate(usize),
    /// Answer 503 with a Retry-After of so many seconds (none if 0).
    Busy(u64),
    /// Answer 500.
    Broken,
    /// Read it and never answer.
    Hang,
    /// Pass it on, then close without answering: it took effect, but nobody says so.
    LoseAnswer,
    /// Pass it on without its Range header's effect: answer with a 200 of these bytes.
    IgnoreRange,
    /// Close before reading.
    Reset,
}

pub struct Proxy {
    pub address: SocketAddr,
    state: Arc<State>,
}

struct State {
    upstream: SocketAddr,
    /// Faults for the next requests, then `always`.
    next: Mutex<Vec<Fault>>,
    always: Mutex<Fault>,
    requests: AtomicU32,
    stop: AtomicBool,
}

impl Proxy {
    pub fn start(upstream: SocketAddr) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("its address");
        let state = Arc::new(State {
            upstream,
            next: Mutex::new(Vec::new()),
            always: Mutex::new(Fault::None),
            requests: AtomicU32::new(0),
            stop: AtomicBool::new(false),
        });
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                if shared.stop.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(client) = client else { continue };
                let state = Arc::clone(&shared);
                std::thread::spawn(move || {
                    let _ = serve(client, &state);
                });
            }
        });
        Proxy { address, state }
    }

    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Spoils the next requests so, one each; those after them pass.
    pub fn next(&self, faults: &[Fault]) {
        let mut reversed = faults.to_vec();
        reversed.reverse();
        *self.state.next.lock().unwrap() = reversed;
        *self.state.always.lock().unwrap() = Fault::None;
    }

    /// Spoils every request so.
    pub fn always(&self, fault: Fault) {
        *self.state.always.lock().unwrap() = fault;
    }

    /// Requests seen since the last call.
    pub fn requests(&self) -> u32 {
        self.state.requests.swap(0, Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
    }
}

fn serve(mut client: TcpStream, state: &State) -> io::Result<()> {
    let fault = state.next.lock().unwrap().pop().unwrap_or(*state.always.lock().unwrap());
    if fault == Fault::Reset {
        state.requests.fetch_add(1, Ordering::SeqCst);
        return client.shutdown(Shutdown::Both);
    }
    let request = read_message(&mut client)?;
    state.requests.fetch_add(1, Ordering::SeqCst);
    match fault {
        Fault::Hang => {
            // Until the client gives up and closes.
            let _ = client.read(&mut [0; 1]);
            Ok(())
        }
        Fault::Busy(seconds) => {
            let after = if seconds > 0 { format!("Retry-After: {seconds}\r\n") } else { String::new() };
            let body =
                "<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>";
            let length = body.len();
            write!(
                client,
                "HTTP/1.1 503 Busy\r\n{after}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
            )
        }
        Fault::Broken => {
            client.write_all(b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        }
        _ => {
            let mut server = TcpStream::connect(state.upstream)?;
            server.set_read_timeout(Some(Duration::from_secs(30)))?;
            server.write_all(&request)?;
            let answer = read_message(&mut server)?;
            match fault {
                Fault::Truncate(length) => {
                    let body = find_body(&answer).unwrap_or(answer.len());
                    client.write_all(&answer[..(body + length).min(answer.len())])
                }
                Fault::LoseAnswer => client.shutdown(Shutdown::Both),
                Fault::IgnoreRange => {
                    let body = &answer[find_body(&answer).unwrap_or(answer.len())..];
                    write!(
                        client,
                        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                        body.len()
                    )?;
                    client.write_all(body)
                }
                _ => client.write_all(&answer),
            }
        }
    }
}

/// Reads a head and as many bytes of body as it announces; makes the connection end with it.
fn read_message(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut message = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        if let Some(body) = find_body(&message) {
            let head = String::from_utf8_lossy(&message[..body]).into_owned();
            let header = |name: &str| {
                head.lines().find_map(|line| {
                    let (found, value) = line.split_once(':')?;
                    found.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
                })
            };
            let bare = head.starts_with("HTTP/1.1 204") || head.starts_with("HTTP/1.1 304");
            let length: Option<usize> = header("content-length").and_then(|length| length.parse().ok());
            let chunked = header("transfer-encoding").is_some();
            let is_request = !head.starts_with("HTTP/");
            let complete = match length {
                Some(length) => message.len() >= body + length,
                None if chunked => message.ends_with(b"0\r\n\r\n"),
                None => is_request || bare,
            };
            if complete {
                let end = message[..body].len() - 2;
                let mut whole = message[..end].to_vec();
                whole.extend_from_slice(b"Connection: close\r\n\r\n");
                whole.extend_from_slice(&message[body..]);
                return Ok(whole);
            }
            // The answer to a HEAD announces a body that does not come.
            if !is_request && length.is_some() && message.len() == body {
                stream.set_read_timeout(Some(Duration::from_millis(300)))?;
                match stream.read(&mut buffer) {
                    Ok(0) | Err(_) => {
                        let end = body - 2;
                        let mut whole = message[..end].to_vec();
                        whole.extend_from_slice(b"Connection: close\r\n\r\n");
                        return Ok(whole);
                    }
                    Ok(read) => message.extend_from_slice(&buffer[..read]),
                }
                continue;
            }
        }
        match stream.read(&mut buffer)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => message.extend_from_slice(&buffer[..read]),
        }
    }
}

fn find_body(message: &[u8]) -> Option<usize> {
    message.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4)
}
