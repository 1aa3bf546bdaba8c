//! Faults happen as often as asked, where they should, and again for the same seed.

use std::time::Duration;

use headrace_netlab::{Conditions, NetLab, Options};

use super::client::Client;
use super::counts::settled;
use super::server::{Server, content};

fn lab(server: &Server, seed: u64, settings: &[(&str, &str)]) -> NetLab {
    let mut conditions = Conditions::default();
    for (name, value) in settings {
        conditions.set(name, value).unwrap();
    }
    let options = Options { seed, ..Options::default() };
    NetLab::start_with(server.address, conditions, options).unwrap()
}

/// What 400 requests in order meet: a status, or 0 for a broken answer. What arrives is right.
fn met(lab: &NetLab) -> Vec<u16> {
    let mut client = Client::connect(lab.address());
    (0..400)
        .map(|_| match client.get(20_000) {
            Ok(answer) => {
                assert!(answer.status != 200 || answer.body == content(20_000));
                answer.status
            }
            Err(_) => {
                client = Client::connect(lab.address());
                0
            }
        })
        .collect()
}

#[test]
fn faults_are_as_many_as_asked_and_a_seed_repeats_them() {
    let server = Server::start();
    let settings = [("error-503", "0.1"), ("error-429", "0.05"), ("reset", "0.1"), ("truncate", "0.1")];
    let first = lab(&server, 5, &settings);
    let seen = met(&first);
    assert_eq!(seen, met(&lab(&server, 5, &settings)), "the same seed");
    assert_ne!(seen, met(&lab(&server, 6, &settings)), "another seed");
    let count = |status| seen.iter().filter(|found| **found == status).count();
    for (status, wanted) in [(503, 40), (429, 20), (0, 80), (200, 260)] {
        assert!(
            (wanted / 2..=wanted * 2).contains(&count(status)),
            "{status}: {} for {wanted}",
            count(status)
        );
    }
    let refused = count(503) as u64;
    let counters = settled(&first, |counters| counters.statuses.get(&503) == Some(&refused));
    assert_eq!((counters.requests, counters.faults), (400, 400 - count(200) as u64));
}

#[test]
fn a_truncated_body_ends_and_a_reset_one_breaks() {
    let server = Server::start();
    for (name, clean) in [("truncate", true), ("reset", false)] {
        for seed in 0..5 {
            let lab = lab(&server, seed, &[(name, "1")]);
            let mut client = Client::connect(lab.address());
            client.send("GET /b/1000000 HTTP/1.1\r\n\r\n");
            assert_eq!(client.head().unwrap(), (200, Some(1_000_000)));
            let (body, end) = client.rest(Duration::from_secs(20));
            assert!(body.len() < 1_000_000 && body == content(body.len()), "{name}: {} bytes", body.len());
            assert_eq!(end.is_ok(), clean, "{name}: {end:?}");
        }
    }
}

#[test]
fn a_stalled_body_stands_still() {
    let server = Server::start();
    let lab = lab(&server, 1, &[("stall", "1")]);
    let mut client = Client::connect(lab.address());
    client.send("GET /b/1000000 HTTP/1.1\r\n\r\n");
    client.head().unwrap();
    let (body, end) = client.rest(Duration::from_millis(500));
    assert!(body.len() < 1_000_000 && body == content(body.len()));
    assert_eq!(end.unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "neither an end nor an error");
}
