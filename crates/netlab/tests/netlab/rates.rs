//! Bytes come no faster than they should.

use std::time::Duration;

use headrace_netlab::{Conditions, NetLab, Rate};

use super::client::Client;
use super::server::{Server, content};

/// The kernel paces from the second packet on, and a packet of the loopback interface is long.
const FIRST_PACKETS: f64 = 300_000.0;

fn assert_paced(what: &str, bytes: usize, rate: u64, took: Duration) {
    let least = (bytes as f64 - FIRST_PACKETS) / rate as f64;
    let found = took.as_secs_f64();
    assert!(found >= least * 0.97, "{what}: {bytes} bytes in {found} s: faster than {rate}/s");
    assert!(found < least * 10.0 + 5.0, "{what}: {bytes} bytes in {found} s: much slower than {rate}/s");
}

/// Threads that each read or write so many bytes; the time until the last is done.
fn all(lab: &NetLab, threads: usize, bytes: usize, upload: bool) -> Duration {
    let body = content(bytes);
    let began = std::time::Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut client = Client::connect(lab.address());
                if upload {
                    client.put(&body);
                } else {
                    assert!(client.get(bytes).unwrap().body == body);
                }
            });
        }
    });
    began.elapsed()
}

#[test]
fn each_connection_has_its_rate_in_both_directions() {
    let server = Server::start();
    let rate = 20_000_000;
    let conditions = Conditions { per_connection: Rate::per_second(rate), ..Conditions::default() };
    let lab = NetLab::start(server.address, conditions).unwrap();
    for threads in [1, 4] {
        for upload in [false, true] {
            let took = all(&lab, threads, 6 << 20, upload);
            assert_paced(&format!("{threads} connections, upload {upload}"), 6 << 20, rate, took);
        }
    }
}

#[test]
fn all_connections_share_the_total_in_both_directions() {
    let server = Server::start();
    let rate = 40_000_000;
    let conditions = Conditions { total: Rate::per_second(rate), ..Conditions::default() };
    let lab = NetLab::start(server.address, conditions).unwrap();
    for upload in [false, true] {
        let took = all(&lab, 4, 4 << 20, upload);
        assert_paced(&format!("upload {upload}"), 16 << 20, rate, took);
    }
}

#[test]
fn caps_change_under_way() {
    let server = Server::start();
    for name in ["per-connection", "total"] {
        let mut conditions = Conditions::default();
        conditions.set(name, "1MB").unwrap();
        let lab = NetLab::start(server.address, conditions).unwrap();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| Client::connect(lab.address()).get(60 << 20).unwrap());
            while lab.counters().connections == 0 {
                std::thread::sleep(Duration::from_millis(5));
            }
            lab.set(Conditions::default()).unwrap();
            // A minute at the old rate.
            let answer = reader.join().unwrap();
            assert!(answer.whole < Duration::from_secs(30), "{name}: {:?}", answer.whole);
            assert!(answer.body == content(60 << 20));
        });
    }
}
