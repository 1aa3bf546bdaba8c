//! The endpoint: HTTP/1.1 on a socket that only the owner and root may use, and on request at an address of this machine.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use headrace_metrics::Snapshot;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::answer::{answer, too_late};
use super::place::MetricsPlace;
use crate::daemon::private_socket::{PrivateSocket, cannot_accept};
use crate::failure::{Context, Exit, Failure};

/// Most clients served at a time, each listener for itself; more wait.
const MAX_CONNECTIONS: usize = 8;
/// Longest request with its headers, bytes.
const MAX_REQUEST: usize = 16 << 10;
/// How long a client may take to send its request.
const HEADER_LIMIT: Duration = Duration::from_secs(10);
/// How long a client may take in all.
const CLIENT_LIMIT: Duration = Duration::from_secs(30);
/// How long the figures may take to be taken down.
const GATHER_LIMIT: Duration = Duration::from_secs(10);

/// Takes down the figures.
pub type Gather = Arc<dyn Fn() -> Snapshot + Send + Sync>;

/// Where metrics can really be asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Places {
    /// The socket's path.
    pub socket: Option<PathBuf>,
    /// The address, with the port that was found if any would do.
    pub address: Option<SocketAddr>,
}

/// Bound sockets; the file of one is removed when this is dropped.
#[derive(Debug, Default)]
pub struct Server {
    unix: Option<PrivateSocket>,
    tcp: Option<TcpListener>,
    places: Places,
}

impl Server {
    /// Binds what `place` asks for; `socket` is in a private directory, and what a daemon that was killed left there is replaced.
    ///
    /// # Errors
    /// When a place is taken, or cannot be used.
    pub async fn bind(place: MetricsPlace, socket: &Path) -> Result<Server, Failure> {
        if place == MetricsPlace::Off {
            return Ok(Server::default());
        }
        let otherwise = "choose a shorter --runtime-dir, or do without with --metrics off";
        let unix = PrivateSocket::bind("metrics", socket, otherwise)?;
        let mut places = Places { socket: Some(socket.to_owned()), address: None };
        let tcp = match place {
            MetricsPlace::Address(address) => {
                let what = || format!("cannot serve metrics at {address}");
                let listener = TcpListener::bind(address).await.map_err(|error| {
                    let failure = Failure::new(what()).because(&error);
                    match error.kind() {
                        io::ErrorKind::AddrInUse => failure
                            .advise("Another mount or program uses this port: choose another with --metrics, or 0 for any.")
                            .exit(Exit::InUse),
                        _ => failure,
                    }
                })?;
                places.address = Some(listener.local_addr().context(what)?);
                Some(listener)
            }
            MetricsPlace::Off | MetricsPlace::Socket => None,
        };
        Ok(Server { unix: Some(unix), tcp, places })
    }

    /// Where it is.
    pub fn places(&self) -> Places {
        self.places.clone()
    }

    /// Serves until dropped.
    pub async fn run(self, gather: Gather) {
        let unix = async {
            match &self.unix {
                Some(unix) => serve_unix(unix, &gather).await,
                None => std::future::pending().await,
            }
        };
        let tcp = async {
            match &self.tcp {
                Some(listener) => serve_tcp(listener, &gather).await,
                None => std::future::pending().await,
            }
        };
        tokio::join!(unix, tcp);
    }
}

async fn serve_unix(socket: &PrivateSocket, gather: &Gather) {
    let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(permit) = Arc::clone(&connections).acquire_owned().await else { return };
        let (stream, _) = socket.accept().await;
        let gather = Arc::clone(gather);
        tokio::spawn(async move {
            converse(stream, gather).await;
            drop(permit);
        });
    }
}

async fn serve_tcp(listener: &TcpListener, gather: &Gather) {
    let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(permit) = Arc::clone(&connections).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let gather = Arc::clone(gather);
                tokio::spawn(async move {
                    converse(stream, gather).await;
                    drop(permit);
                });
            }
            Err(error) => cannot_accept("metrics", &error).await,
        }
    }
}

/// One request and its answer: a client that asks every few seconds need not keep one of few places.
async fn converse(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, gather: Gather) {
    let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
        let gather = Arc::clone(&gather);
        async move {
            // It takes locks for a moment, which a busy volume may hold.
            let taken = tokio::task::spawn_blocking(move || answer(&request, || gather()));
            let response = tokio::time::timeout(GATHER_LIMIT, taken).await;
            Ok::<_, Infallible>(response.ok().and_then(Result::ok).unwrap_or_else(too_late))
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_LIMIT)
        .max_buf_size(MAX_REQUEST)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    match tokio::time::timeout(CLIENT_LIMIT, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a metrics connection ended"),
        Err(_) => tracing::debug!("a metrics client took too long"),
    }
}

#[cfg(test)]
mod tests {
    use headrace_metrics::{Collection, Unit};
    use std::os::unix::fs::MetadataExt as _;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpStream, UnixStream};

    use super::*;

    fn gather() -> Gather {
        Arc::new(|| {
            let mut into = Collection::new();
            into.gauge("headrace_orphans", "Some", Unit::None, 3.0);
            Snapshot::new(into)
        })
    }

    async fn ask(mut stream: impl AsyncRead + AsyncWrite + Unpin, request: &[u8]) -> String {
        stream.write_all(request).await.unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    }

    const REQUEST: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";

    #[tokio::test]
    async fn it_answers_on_both_and_its_socket_is_private_and_goes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("m.sock");
        let server =
            Server::bind(MetricsPlace::Address("127.0.0.1:0".parse().unwrap()), &path).await.unwrap();
        let places = server.places();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let running = tokio::spawn(server.run(gather()));
        let over_tcp = ask(TcpStream::connect(places.address.unwrap()).await.unwrap(), REQUEST).await;
        let over_unix = ask(UnixStream::connect(&path).await.unwrap(), REQUEST).await;
        for answer in [over_tcp, over_unix] {
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
            assert!(answer.ends_with("\nheadrace_orphans 3\n"), "{answer}");
        }
        running.abort();
        let _ = running.await;
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_port_that_is_taken_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let place = MetricsPlace::Address(taken.local_addr().unwrap());
        let failure = Server::bind(place, &dir.path().join("m.sock")).await.unwrap_err();
        assert_eq!(failure.exit_code(), Exit::InUse);
        assert!(!dir.path().join("m.sock").exists());
    }

    #[tokio::test]
    async fn off_is_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        let server = Server::bind(MetricsPlace::Off, &dir.path().join("m.sock")).await.unwrap();
        assert_eq!(server.places(), Places::default());
        assert!(std::fs::read_dir(dir.path()).unwrap().next().is_none());
    }

    #[tokio::test]
    async fn endless_and_senseless_requests_are_cut_off() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("m.sock");
        let server = Server::bind(MetricsPlace::Socket, &path).await.unwrap();
        let _running = tokio::spawn(server.run(gather()));
        let long = [b"GET /metrics HTTP/1.1\r\nX: ".to_vec(), vec![b'a'; 2 * MAX_REQUEST]].concat();
        let mut stream = UnixStream::connect(&path).await.unwrap();
        // It may be cut off before all is sent.
        let _ = stream.write_all(&long).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 4"), "{}", answer.escape_ascii());
        let answer = ask(UnixStream::connect(&path).await.unwrap(), b"\xff\xfe\0nonsense\r\n\r\n").await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{answer}");
        assert!(ask(UnixStream::connect(&path).await.unwrap(), REQUEST).await.starts_with("HTTP/1.1 200"));
    }
}
