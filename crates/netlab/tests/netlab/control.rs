//! Control while it runs.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use headrace_netlab::control::{ControlAddress, serve};
use headrace_netlab::{Conditions, Counters, NetLab};

use super::client::Client;
use super::server::Server;

fn ask(path: &std::path::Path, request: &str) -> (String, String) {
    let mut stream = UnixStream::connect(path).unwrap();
    write!(stream, "{request} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().to_owned(), body.to_owned())
}

#[test]
fn conditions_are_changed_and_counters_read_over_a_socket_of_the_owner() {
    let server = Server::start();
    let lab = Arc::new(NetLab::start(server.address, Conditions::default()).unwrap());
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("control");
    serve(&ControlAddress::Unix(path.clone()), Arc::clone(&lab)).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);

    let (status, body) = ask(&path, "POST /set?first-byte=2ms%2Cuniform=1ms&error-503=1");
    assert_eq!(status, "200", "{body}");
    let told: Conditions = serde_json::from_str(&body).unwrap();
    assert_eq!(told, lab.conditions());
    assert_eq!(told.first_byte.to_string(), "2ms,uniform=1ms");
    let mut client = Client::connect(lab.address());
    assert_eq!(client.get(10).unwrap().status, 503);

    for (request, status, word) in [
        ("POST /set?latency=2ms", "400", "no such condition"),
        ("POST /set?error-503", "400", "NAME=VALUE"),
        ("POST /set?reset=0.5", "400", "exceed 1"),
        ("GET /set?reset=0", "405", "GET"),
        ("GET /", "404", "/counters"),
    ] {
        let (found, body) = ask(&path, request);
        assert!(found == status && body.contains(word), "{request}: {found} {body}");
    }
    assert_eq!(lab.conditions(), told, "what is refused changes nothing");

    client.get(10).unwrap();
    let counters: Counters = serde_json::from_str(&ask(&path, "GET /counters").1).unwrap();
    assert_eq!(counters.requests, 2);
}
