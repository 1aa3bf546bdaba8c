//! TCP with or without TLS.

use std::io;

use bytes::BytesMut;
use http::Uri;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tower_service::Service;

use super::Timing;

/// Resolves names, tries the addresses found, and greets.
#[derive(Clone)]
pub(super) struct Connector {
    service: HttpsConnector<HttpConnector>,
    timing: Timing,
}

impl Connector {
    pub(super) fn new(tls: rustls::ClientConfig, timing: Timing) -> Connector {
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_connect_timeout(Some(timing.connect));
        http.set_keepalive(Some(timing.keep_alive));
        http.set_tcp_user_timeout(Some(timing.unacknowledged));
        let builder = HttpsConnectorBuilder::new().with_tls_config(tls);
        Connector { service: builder.https_or_http().enable_http1().wrap_connector(http), timing }
    }

    /// A new connection to the server of a URL.
    pub(super) async fn connect(&self, uri: &Uri) -> io::Result<Connection> {
        let connecting = self.service.clone().call(uri.clone());
        let connected = tokio::time::timeout(self.timing.connect, connecting).await;
        let connected = connected.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?;
        Ok(match connected.map_err(io::Error::other)? {
            MaybeHttpsStream::Http(plain) => Connection::Plain(plain.into_inner()),
            MaybeHttpsStream::Https(tls) => Connection::Tls(Box::new(tls.into_inner())),
        })
    }
}

/// A connection to a server.
pub(super) enum Connection {
    Plain(TcpStream),
    Tls(Box<TlsStream<TokioIo<TokioIo<TcpStream>>>>),
}

impl Connection {
    pub(super) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Connection::Plain(stream) => stream.write_all(bytes).await,
            Connection::Tls(stream) => {
                stream.write_all(bytes).await?;
                stream.flush().await
            }
        }
    }

    /// Appends what has come, as far as there is room; 0 when nothing more will.
    pub(super) async fn read(&mut self, into: &mut BytesMut) -> io::Result<usize> {
        match self {
            Connection::Plain(stream) => stream.read_buf(into).await,
            Connection::Tls(stream) => stream.read_buf(into).await,
        }
    }

    /// Whether an idle connection still looks usable. With TLS, something may have come that is no answer: that shows when it is used.
    pub(super) fn looks_open(&self) -> bool {
        match self {
            Connection::Plain(stream) => {
                matches!(stream.try_read(&mut [0]), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
            }
            Connection::Tls(_) => true,
        }
    }
}
