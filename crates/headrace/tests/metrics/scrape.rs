//! Asks a mount for its metrics.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use headrace_testbed::Mounted;
use serde_json::Value;

use crate::exposition::Exposition;

/// What `headrace status` says of a mount.
pub fn status(mounted: &Mounted<'_>) -> Value {
    let json = mounted.volume().command(&["status", "--json"]).arg(mounted.path()).ok();
    serde_json::from_str(&json).expect("status prints JSON")
}

/// The metrics socket of a mount, from its status.
pub fn socket(mounted: &Mounted<'_>) -> PathBuf {
    status(mounted)["metrics"]["socket"].as_str().expect("the status names the socket").into()
}

/// Metrics over the socket.
pub fn over_socket(mounted: &Mounted<'_>) -> Exposition {
    let stream = UnixStream::connect(socket(mounted)).expect("connecting to the metrics socket");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("setting a time limit");
    let (head, body) = ask(stream, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    Exposition::parse(&body)
}

/// Head and body of the answer at an address.
pub fn over_tcp(address: &str, request: &str) -> (String, String) {
    let stream = TcpStream::connect(address).expect("connecting to the metrics address");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("setting a time limit");
    ask(stream, request)
}

fn ask(mut stream: impl Read + Write, request: &str) -> (String, String) {
    stream.write_all(request.as_bytes()).expect("sending a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer that ends");
    let (head, body) = answer.split_once("\r\n\r\n").expect("an answer with a head");
    (head.to_owned(), body.to_owned())
}
