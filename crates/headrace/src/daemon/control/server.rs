//! The daemon's end of the control socket.

use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::{Semaphore, mpsc};

use super::protocol::{Line, MAX_REQUEST, PROGRESS_INTERVAL, Problem, Request, Step};
use crate::daemon::private_socket::PrivateSocket;
use crate::failure::{Context, Failure};

/// Most commands served at a time; more wait.
const MAX_CONNECTIONS: usize = 16;
/// How long a command may take to send its request or to take an answer.
const PEER_LIMIT: Duration = Duration::from_secs(10);
/// How long the end of the daemon waits for answers to be taken.
const DRAIN_LIMIT: Duration = Duration::from_secs(2);
/// Progress lines that may wait for a slow command; more are dropped.
const PROGRESS_QUEUE: usize = 16;
/// Parts of a result that may wait for a slow command; then the handler waits.
const PARTS_QUEUE: usize = 2;

/// Where a handler reports progress, and the parts of a result that comes in parts.
#[derive(Clone, Debug)]
pub struct Steps {
    progress: mpsc::Sender<Step>,
    parts: mpsc::Sender<Vec<u8>>,
}

impl Steps {
    /// Reports how far it is. Never blocks: what does not fit is dropped.
    pub fn send(&self, step: Step) {
        let _ = self.progress.try_send(step);
    }

    /// Sends a part of the result. False: the command went away, nobody wants to know any more.
    pub async fn part(&self, part: &impl Serialize) -> Result<bool, Failure> {
        let line = serde_json::to_vec(&Part { part }).context(|| "cannot encode the answer".to_owned())?;
        Ok(self.parts.send(line).await.is_ok())
    }
}

/// [`Line::Part`] without a copy of what is in it.
#[derive(Serialize)]
struct Part<'a, T> {
    part: &'a T,
}

/// What a handler returns.
pub type Answer = Pin<Box<dyn Future<Output = Result<Value, Failure>> + Send>>;

/// Answers requests.
pub trait Handler: Send + Sync + 'static {
    /// Begins to answer one.
    fn handle(self: Arc<Self>, request: Request, steps: Steps) -> Answer;
}

/// A bound socket; its file is removed when dropped.
#[derive(Debug)]
pub struct Server {
    socket: PrivateSocket,
    connections: Arc<Semaphore>,
}

impl Server {
    /// Binds `path`, as [`PrivateSocket::bind`].
    pub fn bind(path: &Path) -> Result<Server, Failure> {
        let socket = PrivateSocket::bind("control", path, "choose a shorter --runtime-dir")?;
        Ok(Server { socket, connections: Arc::new(Semaphore::new(MAX_CONNECTIONS)) })
    }

    /// Waits a moment until commands that are being served have their answers.
    pub async fn drain(&self) {
        // All but the one that waits for the next command.
        let idle = self.connections.acquire_many(MAX_CONNECTIONS as u32 - 1);
        let _ = tokio::time::timeout(DRAIN_LIMIT, idle).await;
    }

    /// Serves commands until dropped.
    pub async fn run<H: Handler>(&self, handler: Arc<H>) {
        loop {
            let Ok(permit) = Arc::clone(&self.connections).acquire_owned().await else { return };
            let (stream, peer) = self.socket.accept().await;
            let handler = Arc::clone(&handler);
            tokio::spawn(async move {
                if let Err(error) = serve(stream, peer, handler).await {
                    tracing::debug!(%error, "a control connection ended");
                }
                drop(permit);
            });
        }
    }
}

async fn serve<H: Handler>(stream: UnixStream, peer: u32, handler: Arc<H>) -> io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut line = Vec::new();
    let mut read = BufReader::new(read.take(MAX_REQUEST));
    tokio::time::timeout(PEER_LIMIT, read.read_until(b'\n', &mut line)).await??;
    let result = match parse(&line) {
        Err(failure) => Err(failure),
        Ok(request) => {
            tracing::debug!(?request, uid = peer, "control request");
            let (progress, mut steps) = mpsc::channel(PROGRESS_QUEUE);
            let (sender, mut parts) = mpsc::channel(PARTS_QUEUE);
            let mut answer = handler.handle(request, Steps { progress, parts: sender });
            let mut last = Step { what: String::new(), done: 0, total: 0, bytes: false };
            let mut beat = tokio::time::interval(PROGRESS_INTERVAL);
            beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            let result = loop {
                let sent = tokio::select! {
                    result = &mut answer => break result,
                    // Only the newest counts; it is sent with the next beat.
                    Some(step) = steps.recv() => { last = step; Ok(()) }
                    Some(part) = parts.recv() => send_line(&mut write, part).await,
                    _ = beat.tick() => send(&mut write, &Line::Progress(last.clone())).await,
                };
                // A command that went away stops hearing, but what it asked for goes on to its end; unless it was to hear.
                if sent.is_err() {
                    parts.close();
                }
            };
            while let Ok(part) = parts.try_recv() {
                send_line(&mut write, part).await?;
            }
            result
        }
    };
    let line = match result {
        Ok(value) => Line::Done(value),
        Err(failure) => Line::Failed(Problem::from(&failure)),
    };
    send(&mut write, &line).await
}

fn parse(line: &[u8]) -> Result<Request, Failure> {
    if !line.ends_with(b"\n") {
        return Err(Failure::new("the request is incomplete or too long"));
    }
    serde_json::from_slice(line)
        .context(|| "the daemon does not understand the request (another version?)".to_owned())
}

async fn send(write: &mut (impl AsyncWriteExt + Unpin), line: &Line) -> io::Result<()> {
    send_line(write, serde_json::to_vec(line)?).await
}

async fn send_line(write: &mut (impl AsyncWriteExt + Unpin), mut text: Vec<u8>) -> io::Result<()> {
    text.push(b'\n');
    tokio::time::timeout(PEER_LIMIT, write.write_all(&text)).await?
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, Read, Write};
    use std::ops::ControlFlow;
    use std::os::unix::net::UnixStream as Blocking;

    use super::*;
    use crate::daemon::control::client::Client;
    use crate::daemon::control::served::{Served, serve};
    use crate::failure::Exit;

    struct Echo;

    impl Handler for Echo {
        fn handle(self: Arc<Self>, request: Request, steps: Steps) -> Answer {
            Box::pin(async move {
                match request {
                    Request::Info { ino } => Ok(Value::from(ino)),
                    Request::Flush => {
                        steps.send(Step { what: "flushing".into(), done: 1, total: 2, bytes: true });
                        tokio::time::sleep(3 * PROGRESS_INTERVAL).await;
                        Ok(Value::Null)
                    }
                    Request::Operations { .. } => {
                        let mut sent = 0;
                        while sent < 100 && steps.part(&sent).await? {
                            sent += 1;
                        }
                        Ok(Value::from(sent))
                    }
                    _ => Err(Failure::new("no").advise("do not").exit(Exit::InUse)),
                }
            })
        }
    }

    fn start() -> Served {
        serve(Arc::new(Echo))
    }

    #[test]
    fn results_failures_and_progress_reach_the_command() {
        let running = start();
        let call = |request: Request, steps: &mut Vec<Step>| {
            Client::connect(&running.record).unwrap().call::<Value>(&request, &mut |s| steps.push(s))
        };
        let mut steps = Vec::new();
        assert_eq!(call(Request::Info { ino: u64::MAX }, &mut steps), Ok(Value::from(u64::MAX)));
        let failure = call(Request::Status, &mut steps).unwrap_err();
        assert_eq!(
            (failure.message(), failure.advice(), failure.exit_code()),
            ("no", Some("do not"), Exit::InUse)
        );
        steps.clear();
        call(Request::Flush, &mut steps).unwrap();
        assert!(steps.iter().any(|s| s.what == "flushing" && s.bytes && s.total == 2), "{steps:?}");
    }

    #[test]
    fn parts_come_in_order_before_the_result_until_the_command_has_enough() {
        let running = start();
        let request = Request::Operations { interval_ms: 1, for_ms: None, each: false };
        let listen = |enough: usize| {
            let mut parts = Vec::new();
            let mut part = |n: usize| {
                parts.push(n);
                Ok(if parts.len() == enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            };
            let result = Client::connect(&running.record).unwrap().stream::<usize, usize>(
                &request,
                &mut part,
                &|| false,
            );
            (result, parts)
        };
        assert_eq!(listen(usize::MAX), (Ok(Some(100)), (0..100).collect()));
        assert_eq!(listen(3), (Ok(None), vec![0, 1, 2]));
    }

    #[test]
    fn nonsense_is_answered_with_an_error_and_too_much_of_it_is_cut_off() {
        let running = start();
        for request in
            [b"{\"op\":\"dance\"}\n".to_vec(), b"\xff\n".to_vec(), vec![b'x'; MAX_REQUEST as usize]]
        {
            let mut stream = Blocking::connect(&running.record.socket).unwrap();
            stream.write_all(&request).unwrap();
            let mut answer = Vec::new();
            std::io::BufReader::new((&mut stream).take(4096)).read_until(b'\n', &mut answer).unwrap();
            let line: Line = serde_json::from_slice(&answer).unwrap();
            assert!(matches!(line, Line::Failed(_)), "{line:?}");
        }
    }

    #[test]
    fn the_next_daemons_socket_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.sock");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _guard = runtime.enter();
        let old = Server::bind(&path).unwrap();
        let new = Server::bind(&path).unwrap();
        drop(old);
        assert!(Blocking::connect(&path).is_ok());
        drop(new);
        assert!(!path.exists());
    }

    #[test]
    fn nobody_home_is_said() {
        let mut running = start();
        running.record.socket = "/no/such.sock".into();
        let failure = Client::connect(&running.record).unwrap_err();
        assert!(failure.message().starts_with("cannot reach the daemon of /mnt"), "{failure}");
    }
}
