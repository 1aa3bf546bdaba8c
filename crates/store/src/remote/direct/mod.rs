//! Ranged GETs straight from the connection: what is received is what is handed over, without a task, a queue or a copy in between.
//!
//! ```text
//! head        what is sent, and the head of an answer
//! framing     where the body of an answer ends
//! connection  TCP with or without TLS
//! pool        connections that wait for the next request
//! ```
//!
//! All else (other requests, redirects, proxies) goes through the HTTP library, which passes on what it receives from task to task: a small
//! GET over a network that takes no time takes a quarter longer.

mod connection;
mod framing;
mod head;
mod pool;

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use http::header::HOST;
use http::uri::Scheme;
use http::{HeaderValue, Request, Response, Uri};
use opendal::{Buffer, Error, ErrorKind, HttpBody};

use self::connection::{Connection, Connector};
use self::framing::{Framing, Taken};
use self::head::Head;
use self::pool::Pool;

/// Bytes received at a time, at most, and so what one piece that is handed over keeps in memory.
const PIECE: usize = 256 << 10;
/// Room for the head of an answer beside the body that is expected.
const HEAD: usize = 2 << 10;
/// Below so much room a new buffer is begun.
const CRAMPED: usize = 16 << 10;

/// What is particular to a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timing {
    /// Until it is there, TLS included.
    pub(super) connect: Duration,
    /// What was sent and is not acknowledged for so long means a dead network.
    pub(super) unacknowledged: Duration,
    /// How often an idle one is checked.
    pub(super) keep_alive: Duration,
    /// An idle one is closed after so long.
    pub(super) idle: Duration,
}

/// A client for ranged GETs.
pub(super) struct Direct {
    connector: Connector,
    pool: Arc<Pool>,
    agent: HeaderValue,
}

impl Direct {
    /// A client that keeps up to `most_idle` connections per server.
    pub(super) fn new(
        tls: rustls::ClientConfig,
        timing: Timing,
        most_idle: usize,
        agent: HeaderValue,
    ) -> Direct {
        Direct {
            connector: Connector::new(tls, timing),
            pool: Arc::new(Pool::new(most_idle, timing.idle)),
            agent,
        }
    }

    /// Sends a GET of `expected` bytes to a server. `None` if the answer sends us elsewhere, which is the HTTP library's to follow.
    pub(super) async fn fetch(
        &self,
        server: &str,
        request: &Request<Buffer>,
        expected: u64,
    ) -> opendal::Result<Option<Response<HttpBody>>> {
        let uri = request.uri();
        let host = request.headers().get(HOST).cloned().or_else(|| host(uri));
        let host = host.ok_or_else(|| fault("the request's URL has no host"))?;
        let asked = head::request(uri, &host, &self.agent, request.headers());
        let room = usize::try_from(expected).unwrap_or(PIECE).saturating_add(HEAD).min(PIECE);
        loop {
            let (mut connection, used) = match self.pool.take(server) {
                Some(connection) => (connection, true),
                None => (self.connector.connect(uri).await.map_err(unreachable)?, false),
            };
            let mut buffer = BytesMut::with_capacity(room);
            let head = match ask(&mut connection, &asked, &mut buffer).await {
                Ok(head) => head,
                // The server had closed it meanwhile; a GET may be sent again.
                Err(_) if used && buffer.is_empty() => continue,
                Err(error) => return Err(error),
            };
            if head.status.is_redirection() {
                return Ok(None);
            }
            let Head { status, version, headers, framing, keeps } = head;
            let length = framing.length();
            let home = keeps.then(|| (Arc::clone(&self.pool), server.to_owned()));
            let body = Body { connection: Some(connection), buffer, framing, home };
            let pieces = futures::stream::try_unfold(body, Body::next);
            let mut answer = Response::new(HttpBody::new(Box::pin(pieces), length));
            (*answer.status_mut(), *answer.version_mut(), *answer.headers_mut()) = (status, version, headers);
            answer.extensions_mut().insert(uri.clone());
            return Ok(Some(answer));
        }
    }
}

/// What `Host` says of a URL: the port only if it is another than the scheme's.
fn host(uri: &Uri) -> Option<HeaderValue> {
    let (scheme, authority) = uri.scheme().zip(uri.authority())?;
    let usual = if *scheme == Scheme::HTTPS { 443 } else { 80 };
    let host = match authority.port_u16() {
        Some(port) if port != usual => format!("{}:{port}", authority.host()),
        _ => authority.host().to_owned(),
    };
    HeaderValue::try_from(host).ok()
}

/// Sends a request and reads the head of the answer; what came after it is left in `buffer`.
async fn ask(connection: &mut Connection, asked: &[u8], buffer: &mut BytesMut) -> opendal::Result<Head> {
    connection.write(asked).await.map_err(unreachable)?;
    loop {
        if buffer.capacity() - buffer.len() < HEAD / 2 {
            buffer.reserve(HEAD);
        }
        if connection.read(buffer).await.map_err(unreachable)? == 0 {
            let closed = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
            return Err(unreachable(closed));
        }
        if let Some(head) = Head::take(buffer).map_err(fault)? {
            return Ok(head);
        }
    }
}

/// What is left of an answer.
struct Body {
    connection: Option<Connection>,
    buffer: BytesMut,
    framing: Framing,
    /// Where the connection goes when the answer is complete.
    home: Option<(Arc<Pool>, String)>,
}

impl Body {
    /// The next piece.
    async fn next(mut self) -> opendal::Result<Option<(Buffer, Body)>> {
        loop {
            match self.framing.take(&mut self.buffer).map_err(fault)? {
                Taken::Bytes(bytes) => {
                    self.framing.look_ahead(&mut self.buffer);
                    if self.framing.is_over() {
                        self.release();
                    }
                    return Ok(Some((Buffer::from(bytes), self)));
                }
                Taken::End => {
                    self.release();
                    return Ok(None);
                }
                Taken::More => {}
            }
            let Some(connection) = &mut self.connection else { return Ok(None) };
            let left = self.framing.left().and_then(|left| usize::try_from(left).ok());
            let wanted = left.unwrap_or(PIECE).clamp(1, PIECE);
            if self.buffer.capacity() - self.buffer.len() < wanted.min(CRAMPED) {
                match self.buffer.is_empty() {
                    true => self.buffer = BytesMut::with_capacity(wanted),
                    false => self.buffer.reserve(wanted),
                }
            }
            if connection.read(&mut self.buffer).await.map_err(broken_off)? > 0 {
                continue;
            }
            return match self.framing {
                Framing::UntilClose => Ok(None),
                _ => Err(broken_off(std::io::Error::from(std::io::ErrorKind::UnexpectedEof))),
            };
        }
    }

    /// Lets go of the connection: nothing more comes of this answer.
    fn release(&mut self) {
        let connection = self.connection.take();
        // What came beyond the end belongs to no request.
        if let (Some(connection), Some((pool, origin)), true) =
            (connection, self.home.take(), self.buffer.is_empty())
        {
            pool.put(origin, connection);
        }
    }
}

fn unreachable(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Unexpected, "send http request").set_temporary().set_source(error)
}

fn broken_off(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Unexpected, "read data from http response").set_temporary().set_source(error)
}

/// The answer makes no sense; the next one may.
fn fault(what: &'static str) -> Error {
    Error::new(ErrorKind::Unexpected, what).set_temporary()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_port_is_not_named() {
        for (uri, expected) in [
            ("http://host/b/k", "host"),
            ("http://host:80/", "host"),
            ("https://host:443/", "host"),
            ("https://host:80/", "host:80"),
            ("http://[::1]:9000/", "[::1]:9000"),
        ] {
            assert_eq!(host(&uri.parse().unwrap()).unwrap(), expected);
        }
        assert!(host(&"/path".parse().unwrap()).is_none());
    }
}
