//! Ranged GETs over connections of our own: what is reused, what is sent again, and answers that not every server gives.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use common::{Server, open_plain, options};
use headrace_metrics::{Collection, Snapshot};
use headrace_store::{ErrorKind, ObjectStore};
use headrace_testbed::FaultProxy;

/// A server that says what it is told to, whatever is asked, request after request.
struct Scripted {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl Scripted {
    /// After one that is empty or has [`CLOSES`] it closes the connection.
    fn start(answers: Vec<Vec<u8>>) -> Scripted {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        std::thread::spawn(move || {
            let mut answers = answers.into_iter();
            // One connection after the other: those who ask do so too.
            while let Ok((mut stream, _)) = listener.accept() {
                counted.fetch_add(1, Ordering::Relaxed);
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                while lines
                    .by_ref()
                    .take_while(|line| line.as_ref().is_ok_and(|line| !line.is_empty()))
                    .count()
                    > 0
                {
                    let Some(answer) = answers.next() else { return };
                    let closes = answer.is_empty() || String::from_utf8_lossy(&answer).contains(CLOSES);
                    if stream.write_all(&answer).is_err() || closes {
                        break;
                    }
                }
            }
        });
        Scripted { address, connections }
    }

    fn store(&self) -> Arc<dyn ObjectStore> {
        open_plain("s3://bucket", &options(&format!("http://{}", self.address))).unwrap()
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

fn partial(lines: &str, body: &[u8]) -> Vec<u8> {
    [format!("HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-9/90\r\n{lines}\r\n").as_bytes(), body]
        .concat()
}

/// A header that tells the server, not the client, that the connection ends here.
const CLOSES: &str = "X-Ends: here\r\n";
const BODY: &[u8] = b"0123456789";

#[tokio::test]
async fn every_way_to_end_an_answer_is_understood_on_one_connection() {
    let not_found = b"<Error><Code>NoSuchKey</Code><Message>not there</Message></Error>";
    let head = "HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n";
    let size = format!("{:x}\r\n", not_found.len());
    let chunked_error = [head.as_bytes(), size.as_bytes(), not_found, b"\r\n0\r\n\r\n"];
    let script = Scripted::start(vec![
        partial("Content-Length: 10\r\n", BODY),
        partial("Transfer-Encoding: chunked\r\n", b"4;x=y\r\n0123\r\n6\r\n456789\r\n0\r\nx: y\r\n\r\n"),
        chunked_error.concat(),
        [b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n", &partial("Content-Length: 10\r\n", BODY)[..]]
            .concat(),
        partial(CLOSES, BODY),
        partial("Content-Length: 10\r\nConnection: close\r\n", BODY),
    ]);
    let store = script.store();
    for _ in 0..2 {
        assert_eq!(store.get_range("k", 0..10).await.unwrap(), BODY);
    }
    let error = store.get_range("k", 0..10).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound, "{error}");
    for _ in 0..2 {
        assert_eq!(store.get_range("k", 0..10).await.unwrap(), BODY);
    }
    assert_eq!(script.connections(), 1, "each answer was read to its end");
    assert_eq!(store.get_range("k", 0..10).await.unwrap(), BODY);
    assert_eq!(script.connections(), 2, "one that ends with its connection leaves none");
}

#[tokio::test]
async fn answers_that_are_none_are_asked_for_again_and_never_taken_for_data() {
    for wrong in [
        b"SSH-2.0-OpenSSH_9.2\r\n".to_vec(),
        partial("Content-Length: 10\r\nContent-Length: 11\r\n", BODY),
        partial("Transfer-Encoding: gzip, chunked\r\n", BODY),
        partial("Transfer-Encoding: chunked\r\n", b"zz\r\n0123456789"),
        partial("Transfer-Encoding: chunked\r\n", b"3\r\n0123456789"),
        Vec::new(),
    ] {
        let text = String::from_utf8_lossy(&wrong).into_owned();
        // After it nothing that may still come on that connection is believed.
        let script = Scripted::start(vec![wrong, partial("Content-Length: 10\r\n", BODY)]);
        let store = script.store();
        let got = tokio::time::timeout(Duration::from_secs(20), store.get_range("k", 0..10)).await;
        assert_eq!(got.expect(&text).expect(&text), BODY, "{text}");
        assert_eq!(script.connections(), 2, "{text}");
    }
}

#[tokio::test]
async fn more_than_was_announced_is_not_taken_for_the_next_answer() {
    let more =
        [partial("Content-Length: 10\r\n", BODY), partial("Content-Length: 10\r\n", b"abcdefghij")].concat();
    let script = Scripted::start(vec![more, partial("Content-Length: 10\r\n", BODY)]);
    let store = script.store();
    for _ in 0..2 {
        assert_eq!(store.get_range("k", 0..10).await.unwrap(), BODY);
    }
    assert_eq!(script.connections(), 2);
}

#[tokio::test]
async fn a_redirect_is_followed() {
    let there = Scripted::start(vec![partial("Content-Length: 10\r\n", BODY)]);
    let elsewhere = format!(
        "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://{}/bucket/k\r\nContent-Length: 0\r\n\r\n",
        there.address
    );
    // Asked again by who can follow it.
    let here = Scripted::start(vec![elsewhere.clone().into_bytes(), elsewhere.into_bytes()]);
    assert_eq!(here.store().get_range("k", 0..10).await.unwrap(), BODY);
    assert_eq!(there.connections(), 1);
}

fn retries(store: &dyn ObjectStore) -> u64 {
    let mut collection = Collection::new();
    store.collect(&mut collection);
    Snapshot::new(collection).counter("headrace_store_retries_total", &[])
}

/// A server, or something on the way to it, closes connections that idle, and is restarted now and then.
#[tokio::test]
async fn a_connection_that_was_closed_meanwhile_costs_nothing() {
    let server = Server::start_with(&["--keep-alive"]);
    let proxy = FaultProxy::start(server.address);
    let store = open_plain("s3://bucket/p", &options(&proxy.endpoint())).unwrap();
    let body = Bytes::from_iter((0..1u32 << 20).map(|at| (at % 251) as u8));
    store.put("k", body.clone()).await.unwrap();
    for _ in 0..5 {
        // Several at once: several connections.
        let gets = (0..8u64).map(|at| store.get_range("k", at * 1000..at * 1000 + 5000));
        for (at, got) in futures::future::join_all(gets).await.into_iter().enumerate() {
            assert!(got.unwrap() == body[at * 1000..at * 1000 + 5000]);
        }
        proxy.down();
        proxy.up();
    }
    assert_eq!(retries(&*store), 0);
}
