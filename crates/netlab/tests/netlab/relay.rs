//! What passes arrives as it was sent.

use std::time::Duration;

use headrace_netlab::{Conditions, NetLab, Options};

use super::client::Client;
use super::server::{Server, content};

fn plain(server: &Server) -> NetLab {
    NetLab::start(server.address, Conditions::default()).unwrap()
}

#[test]
fn bodies_of_every_size_and_kind_pass_unharmed() {
    let server = Server::start();
    let lab = plain(&server);
    let mut client = Client::connect(lab.address());
    for length in [0, 1, 4096, 32_767, 32_768, 65_537, 1_000_000, 20 << 20] {
        let answer = client.get(length).unwrap();
        assert_eq!((answer.status, answer.body == content(length)), (200, true), "{length} bytes");
        let chunked = client.ask("GET", &format!("/c/{length}"), "", &[]).unwrap();
        assert!(chunked.body == content(length), "{length} bytes in chunks");
        let head = client.ask("HEAD", &format!("/b/{length}"), "", &[]).unwrap();
        assert!(head.body.is_empty());
        client.put(&content(length));
    }
}

#[test]
fn clients_at_once_do_not_meet() {
    let server = Server::start();
    let lab = plain(&server);
    std::thread::scope(|scope| {
        for number in 0..50usize {
            let address = lab.address();
            scope.spawn(move || {
                let mut client = Client::connect(address);
                for round in 0..20 {
                    let length = (number * 7919 + round * 104_729) % 300_000;
                    assert!(client.get(length).unwrap().body == content(length));
                }
            });
        }
    });
    assert_eq!(lab.counters().requests, 1000);
}

#[test]
fn leave_to_send_a_body_is_given_once_and_the_last_answer_follows() {
    let server = Server::start();
    let lab = plain(&server);
    let mut client = Client::connect(lab.address());
    client.send("PUT /b/key HTTP/1.1\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(client.head().unwrap(), (100, None));
    client.send("body");
    assert_eq!(client.head().unwrap().0, 200, "the server's own leave is not passed on");
}

#[test]
fn a_connection_that_the_server_has_ended_is_made_anew() {
    let server = Server::start();
    server.hang_up_after_each(true);
    let lab = plain(&server);
    let mut client = Client::connect(lab.address());
    for _ in 0..3 {
        assert_eq!(client.get(1000).unwrap().body.len(), 1000);
        // Until the proxy can have seen the end.
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_request_to_close_is_kept() {
    let server = Server::start();
    let lab = plain(&server);
    let mut client = Client::connect(lab.address());
    assert_eq!(client.ask("GET", "/b/10", "Connection: close\r\n", &[]).unwrap().body.len(), 10);
    let (rest, end) = client.rest(Duration::from_secs(20));
    assert!(rest.is_empty() && end.is_ok(), "{end:?}");
}

#[test]
fn it_ends_with_its_value_and_takes_the_connections_along() {
    let server = Server::start();
    let lab = plain(&server);
    let address = lab.address();
    let mut client = Client::connect(address);
    client.get(10).unwrap();
    drop(lab);
    let (rest, _) = client.rest(Duration::from_secs(20));
    assert!(rest.is_empty());
    assert!(std::net::TcpStream::connect(address).is_err(), "nothing listens");
}

#[test]
fn connections_beyond_the_limit_are_refused_and_those_within_served() {
    let server = Server::start();
    let options = Options { max_connections: 2, ..Options::default() };
    let lab = NetLab::start_with(server.address, Conditions::default(), options).unwrap();
    let mut within: Vec<Client> = (0..2).map(|_| Client::connect(lab.address())).collect();
    for client in &mut within {
        client.get(10).unwrap();
    }
    assert!(Client::connect(lab.address()).get(10).is_err());
    for client in &mut within {
        client.get(10).unwrap();
    }
}

#[test]
fn what_is_no_http_ends_the_connection_only() {
    let server = Server::start();
    let lab = plain(&server);
    let mut client = Client::connect(lab.address());
    client.send(&"x".repeat(100 << 10));
    let (rest, _) = client.rest(Duration::from_secs(20));
    assert!(rest.is_empty());
    assert_eq!(Client::connect(lab.address()).get(10).unwrap().body.len(), 10);
}
