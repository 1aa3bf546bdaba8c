//! A connection through the proxy: request by request, each with its fate.

use std::io::{self, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::body::{Direction, End, Passage, Relay, Spoil};
use super::wire::{Framing, Head, Wire};
use super::{State, lock, socket};
use crate::fault::{Fate, Fault};
use crate::operation::operation;

/// How long a connection that stands still is kept.
const HOLD: Duration = Duration::from_secs(300);
/// How long a connection to the server may take.
const CONNECT: Duration = Duration::from_secs(10);
/// Where a fault is in an answer whose length is not known before its end: as if it had so many bytes.
const UNKNOWN_LENGTH: u64 = 16 << 10;

/// Serves a client until either side ends. `number` names the connection in the state.
pub(super) fn serve(client: Arc<TcpStream>, number: u64, state: &State) {
    let mut session =
        Session { client: Wire::new(client), server: None, relay: Relay::new(state), number, fresh: true };
    loop {
        let end = session.exchange();
        session.relay.tally.settle(&state.ledger);
        match end {
            Ok(Some(End::Done)) => {}
            Ok(Some(End::Hold)) => {
                let _ = state.sleep_until(Instant::now() + HOLD);
                return session.client.reset();
            }
            Ok(Some(End::Reset)) => return session.client.reset(),
            Ok(Some(End::Close) | None) => return drop(session.client.stream.shutdown(Shutdown::Both)),
            // The server broke off; so do we.
            Err(_) => return session.client.reset(),
        }
    }
}

struct Session<'a> {
    client: Wire,
    server: Option<Wire>,
    relay: Relay<'a>,
    number: u64,
    /// No request was seen yet.
    fresh: bool,
}

impl Session<'_> {
    fn exchange(&mut self) -> io::Result<Option<End>> {
        let Some(request) = self.client.read_head()? else { return Ok(None) };
        let state = self.relay.state;
        let (method, target) = (request.word(0), request.word(1));
        let body = request.of_request();
        self.relay.limits.refresh(state);
        let fate = state.plan().pick(&method, &target, &self.relay.limits.conditions, self.fresh);
        self.fresh = false;
        let operation = operation(&method, &target, request.header("x-amz-copy-source").is_some());
        state.ledger.arrived(&method, operation, fate.fault != Fault::None);
        self.relay.tally.begin(operation);
        self.relay.tally.head_received += request.bytes().len() as u64;
        match fate.fault {
            Fault::Reset => return Ok(Some(End::Reset)),
            Fault::BlackHole => return Ok(Some(End::Hold)),
            _ => {}
        }
        // Whoever waits for leave to send a body gets it here, since the server's leave is not passed on.
        if body != Framing::Length(0) && request.header("expect").is_some() {
            (&*self.client.stream).write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        if matches!(fate.fault, Fault::Hang | Fault::Busy(_) | Fault::TooMany | Fault::Broken) {
            self.sink_request(body)?;
            let end = self.answer(fate)?;
            return Ok(Some(if end == End::Done && request.closes() { End::Close } else { end }));
        }
        match self.forward(&request, body, fate.fault)? {
            End::Done => {}
            other => {
                if let Some(server) = self.server.take() {
                    server.reset();
                }
                return Ok(Some(other));
            }
        }
        self.return_answer(&method, request.closes(), fate).map(Some)
    }

    fn sink_request(&mut self, body: Framing) -> io::Result<()> {
        let passage =
            Passage { from: &mut self.client, to: None, direction: Direction::ToServer, head: Vec::new() };
        self.relay.pass(passage, body, Spoil::Nothing).map(|_| ())
    }

    /// Passes the request on.
    fn forward(&mut self, request: &Head, body: Framing, fault: Fault) -> io::Result<End> {
        self.connect()?;
        let Some(server) = &mut self.server else { return Err(io::ErrorKind::NotConnected.into()) };
        let spoil = match fault {
            Fault::StallRequest(after) => Spoil::StallAfter(after),
            Fault::ResetRequest(after) => Spoil::ResetAfter(after),
            Fault::CorruptRequest => flip(body),
            _ => Spoil::Nothing,
        };
        let passage = Passage {
            from: &mut self.client,
            to: Some(server),
            direction: Direction::ToServer,
            head: request.bytes().to_vec(),
        };
        self.relay.pass(passage, body, spoil)
    }

    /// A connection to the server that serves the next request, the old one if it still stands.
    fn connect(&mut self) -> io::Result<()> {
        if self.server.as_ref().is_some_and(|server| !server.is_stale()) {
            return Ok(());
        }
        self.server = None;
        let state = self.relay.state;
        let upstream = *lock(&state.upstream);
        let stream = Arc::new(socket::connect(upstream, CONNECT)?);
        if let Some(ends) = lock(&state.connections).get_mut(&self.number) {
            ends.server = Some(Arc::clone(&stream));
        }
        self.server = Some(Wire::new(stream));
        Ok(())
    }

    /// Waits for the answer and passes it on.
    fn return_answer(&mut self, method: &str, closes: bool, fate: Fate) -> io::Result<End> {
        let state = self.relay.state;
        let due = Instant::now() + fate.wait;
        let Some(server) = &mut self.server else { return Err(io::ErrorKind::NotConnected.into()) };
        let head = loop {
            let Some(head) = server.read_head()? else { return Err(io::ErrorKind::UnexpectedEof.into()) };
            if !head.word(1).starts_with('1') {
                break head;
            }
        };
        let framing = head.of_answer(method);
        if fate.fault == Fault::LoseAnswer {
            let passage =
                Passage { from: server, to: None, direction: Direction::ToClient, head: Vec::new() };
            let before = self.relay.tally.body_sent;
            self.relay.pass(passage, framing, Spoil::Nothing)?;
            // Nothing of it reached the client.
            self.relay.tally.body_sent = before;
            return Ok(End::Reset);
        }
        state.sleep_until(due)?;
        if let Fault::Delay(time) = fate.fault {
            state.sleep_until(Instant::now() + time)?;
        }
        let last = closes || framing == Framing::Close || head.closes();
        self.relay.tally.status = head.word(1).parse().ok();
        let (head, spoil) = spoiled(head, framing, fate);
        self.relay.tally.head_sent += head.bytes().len() as u64;
        let passage = Passage {
            from: server,
            to: Some(&mut self.client),
            direction: Direction::ToClient,
            head: head.bytes().to_vec(),
        };
        let end = self.relay.pass(passage, framing, spoil)?;
        if end != End::Done || last {
            self.server = None;
        }
        Ok(if last && end == End::Done { End::Close } else { end })
    }

    /// Answers in the server's place.
    fn answer(&mut self, fate: Fate) -> io::Result<End> {
        let slow = "<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>";
        let (status, reason, after, body) = match fate.fault {
            Fault::Busy(0) => (503, "Busy", String::new(), slow),
            Fault::Busy(seconds) => (503, "Busy", format!("Retry-After: {seconds}\r\n"), slow),
            Fault::TooMany => (429, "Too Many Requests", String::new(), ""),
            Fault::Broken => (500, "Oops", String::new(), ""),
            _ => return Ok(End::Hold),
        };
        self.relay.state.sleep_until(Instant::now() + fate.wait)?;
        let length = body.len();
        let text = format!("HTTP/1.1 {status} {reason}\r\n{after}Content-Length: {length}\r\n\r\n{body}");
        (&*self.client.stream).write_all(text.as_bytes())?;
        self.relay.tally.status = Some(status);
        self.relay.tally.head_sent += text.len() as u64;
        Ok(End::Done)
    }
}

/// The answer's head with its fault, and what becomes of its body.
fn spoiled(head: Head, framing: Framing, fate: Fate) -> (Head, Spoil) {
    let good = head.word(1).starts_with('2');
    let at = |asked: u64| match (fate.share, framing) {
        (None, _) => asked,
        (Some(share), Framing::Length(length)) => (length as f64 * share) as u64,
        (Some(share), _) => (UNKNOWN_LENGTH as f64 * share) as u64,
    };
    match (fate.fault, framing) {
        (Fault::StallAnswer(after), _) => (head, Spoil::StallAfter(at(after))),
        (Fault::ResetAnswer(after), _) => (head, Spoil::ResetAfter(at(after))),
        (Fault::Truncate(after), Framing::Length(length)) if at(after) < length => {
            (head, Spoil::CloseAfter(at(after)))
        }
        (Fault::Truncate(after), Framing::Chunked) => (head, Spoil::CloseAfter(at(after))),
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
