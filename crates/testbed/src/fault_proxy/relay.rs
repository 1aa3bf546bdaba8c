//! A connection through the proxy: request by request, each with its fault.

use std::io::{self, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use super::wire::{Framing, Head, Wire};
use super::{Fault, State, lock};

/// How long a connection that stands still is kept.
const HOLD: Duration = Duration::from_secs(300);

/// What becomes of the bytes of one body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spoil {
    Nothing,
    FlipAt(u64),
    StallAfter(u64),
    ResetAfter(u64),
    CloseAfter(u64),
    /// The bytes behind this are left out.
    DropAfter(u64),
}

/// How a request ended.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// The connection serves the next one.
    Done,
    Reset,
    Close,
    Hold,
}

/// Serves a client until either side ends.
pub(super) fn serve(client: TcpStream, state: &State) {
    let mut client = Wire::new(client);
    let mut upstream = None;
    loop {
        match exchange(&mut client, &mut upstream, state) {
            Ok(Some(End::Done)) => {}
            Ok(Some(End::Hold)) => {
                hold(state);
                return client.reset();
            }
            Ok(Some(End::Reset)) => return client.reset(),
            Ok(Some(End::Close) | None) => return drop(client.stream.shutdown(Shutdown::Both)),
            // The server broke off; so do we.
            Err(_) => return client.reset(),
        }
    }
}

/// Until the proxy ends or goes down.
fn hold(state: &State) {
    let until = Instant::now() + HOLD;
    let mut held = lock(&state.changed_lock);
    while !state.ends() && Instant::now() < until {
        let left = until.saturating_duration_since(Instant::now()).min(Duration::from_millis(500));
        held = match state.changed.wait_timeout(held, left) {
            Ok((held, _)) => held,
            Err(poisoned) => poisoned.into_inner().0,
        };
    }
}

fn exchange(client: &mut Wire, upstream: &mut Option<Wire>, state: &State) -> io::Result<Option<End>> {
    let Some(request) = client.read_head()? else { return Ok(None) };
    let method = request.word(0).to_owned();
    let body = request.of_request();
    let fault = state.pick(&method, request.word(1));
    match fault {
        Fault::Reset => return Ok(Some(End::Reset)),
        Fault::BlackHole => return Ok(Some(End::Hold)),
        Fault::Hang | Fault::Busy(_) | Fault::TooMany | Fault::Broken => {
            relay(client, &mut io::sink(), body, Spoil::Nothing)?;
            return answer(client, fault).map(Some);
        }
        _ => {}
    }
    let server = match upstream {
        Some(server) => server,
        None => upstream.insert(Wire::new(TcpStream::connect(*lock(&state.upstream))?)),
    };
    server.write_head(&request)?;
    let spoil = match fault {
        Fault::StallRequest(after) => Spoil::StallAfter(after),
        Fault::ResetRequest(after) => Spoil::ResetAfter(after),
        Fault::CorruptRequest => flip(body),
        _ => Spoil::Nothing,
    };
    let to = server.stream.try_clone()?;
    match relay(client, &mut &to, body, spoil)? {
        End::Done => {}
        other => {
            server.reset();
            *upstream = None;
            return Ok(Some(other));
        }
    }
    let Some(head) = server.read_head()? else { return Err(io::ErrorKind::UnexpectedEof.into()) };
    let framing = head.of_answer(&method);
    if fault == Fault::LoseAnswer {
        relay(server, &mut io::sink(), framing, Spoil::Nothing)?;
        return Ok(Some(End::Reset));
    }
    if let Fault::Delay(time) = fault {
        std::thread::sleep(time);
    }
    let (head, spoil) = spoiled(head, framing, fault);
    client.write_head(&head)?;
    let to = client.stream.try_clone()?;
    let end = relay(server, &mut &to, framing, spoil)?;
    if end != End::Done || framing == Framing::Close {
        *upstream = None;
    }
    Ok(Some(if framing == Framing::Close && end == End::Done { End::Close } else { end }))
}

/// The answer's head with its fault, and what becomes of its body.
fn spoiled(head: Head, framing: Framing, fault: Fault) -> (Head, Spoil) {
    let good = head.word(1).starts_with('2');
    match (fault, framing) {
        (Fault::StallAnswer(after), _) => (head, Spoil::StallAfter(after)),
        (Fault::ResetAnswer(after), _) => (head, Spoil::ResetAfter(after)),
        (Fault::Truncate(after), Framing::Length(length)) if after < length => {
            (head, Spoil::CloseAfter(after))
        }
        (Fault::Shorten(by), Framing::Length(length)) if good && length > 0 => {
            let length = length.saturating_sub(by);
            (head.with_length(length), Spoil::DropAfter(length))
        }
        (Fault::CorruptAnswer, _) if good => (head, flip(framing)),
        (Fault::IgnoreRange, _) => (head.with_status("200 OK").without("content-range"), Spoil::Nothing),
        _ => (head, Spoil::Nothing),
    }
}

fn flip(framing: Framing) -> Spoil {
    match framing {
        Framing::Length(length) if length > 0 => Spoil::FlipAt(length / 2),
        _ => Spoil::Nothing,
    }
}

/// Answers in the server's place.
fn answer(client: &mut Wire, fault: Fault) -> io::Result<End> {
    let slow = "<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>";
    let (status, after, body) = match fault {
        Fault::Busy(0) => ("503 Busy", String::new(), slow),
        Fault::Busy(seconds) => ("503 Busy", format!("Retry-After: {seconds}\r\n"), slow),
        Fault::TooMany => ("429 Too Many Requests", String::new(), ""),
        Fault::Broken => ("500 Oops", String::new(), ""),
        _ => return Ok(End::Hold),
    };
    let length = body.len();
    client.stream.write_all(
        format!("HTTP/1.1 {status}\r\n{after}Content-Length: {length}\r\n\r\n{body}").as_bytes(),
    )?;
    Ok(End::Done)
}

/// Passes a body on.
fn relay(from: &mut Wire, to: &mut dyn Write, framing: Framing, spoil: Spoil) -> io::Result<End> {
    let mut at = 0;
    let length = match framing {
        Framing::Chunked => return relay_chunks(from, to),
        Framing::Length(length) => length,
        Framing::Close => u64::MAX,
    };
    while at < length {
        let (limit, end) = match spoil {
            Spoil::StallAfter(limit) => (limit, End::Hold),
            Spoil::ResetAfter(limit) => (limit, End::Reset),
            Spoil::CloseAfter(limit) => (limit, End::Close),
            _ => (u64::MAX, End::Done),
        };
        if at >= limit {
            return Ok(end);
        }
        let mut piece = from.read((length - at).min(limit - at))?;
        if piece.is_empty() {
            return match framing {
                Framing::Close => Ok(End::Done),
                _ => Err(io::ErrorKind::UnexpectedEof.into()),
            };
        }
        let next = at + piece.len() as u64;
        match spoil {
            Spoil::FlipAt(place) if (at..next).contains(&place) => piece[(place - at) as usize] ^= 0x10,
            Spoil::DropAfter(keep) => piece.truncate(keep.saturating_sub(at) as usize),
            _ => {}
        }
        to.write_all(&piece)?;
        at = next;
    }
    Ok(match spoil {
        // Bodies that end before their fault's place are spoiled at their end: the answer to them does not come.
        Spoil::StallAfter(_) => End::Hold,
        Spoil::ResetAfter(_) => End::Reset,
        _ => End::Done,
    })
}

fn relay_chunks(from: &mut Wire, to: &mut dyn Write) -> io::Result<End> {
    loop {
        let line = from.read_line()?;
        to.write_all(&line)?;
        let text = String::from_utf8_lossy(&line);
        let size = u64::from_str_radix(text.split(';').next().unwrap_or_default().trim(), 16)
            .map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
        if size == 0 {
            // Trailers, up to an empty line.
            loop {
                let line = from.read_line()?;
                to.write_all(&line)?;
                if line == b"\r\n" {
                    return Ok(End::Done);
                }
            }
        }
        relay(from, to, Framing::Length(size + 2), Spoil::Nothing)?;
    }
}
