//! What is counted is what passed.

use std::time::{Duration, Instant};

use headrace_netlab::{Conditions, Counters, NetLab, Traffic};

use super::client::Client;
use super::server::{Server, content};

#[test]
fn requests_bytes_and_processor_time_are_counted() {
    let server = Server::start();
    let lab = NetLab::start(server.address, Conditions::default()).unwrap();
    let mut client = Client::connect(lab.address());
    let answers = |counters: &Counters| counters.statuses.values().sum::<u64>();
    client.get(1_000_000).unwrap();
    let before = settled(&lab, |counters| answers(counters) == 1);
    for _ in 0..3 {
        client.get(5_000_000).unwrap();
    }
    client.put(&content(70_000));
    client.ask("HEAD", "/b/5", "", &[]).unwrap();
    client.ask("GET", "/b?list-type=2&prefix=x", "", &[]).unwrap();
    client.ask("DELETE", "/b/5", "", &[]).unwrap();
    client.ask("BREW", "/", "", &[]).unwrap();
    Client::connect(lab.address()).get(0).unwrap();
    let counters = settled(&lab, |counters| answers(counters) == 10).since(&before);
    assert_eq!((counters.requests, counters.faults, counters.connections), (9, 0, 1));
    assert_eq!(counters.methods["GET"], 5);
    assert_eq!(counters.methods["OTHER"], 1);
    let operation = |name: &str| counters.operations[name];
    assert_eq!(operation("GetObject"), Traffic { requests: 4, bytes_sent: 15_000_000, bytes_received: 0 });
    assert_eq!((operation("PutObject").requests, operation("PutObject").bytes_received), (1, 70_000));
    assert_eq!(operation("ListObjectsV2").requests, 1);
    assert_eq!(operation("HeadObject").bytes_sent, 0);
    assert_eq!(operation("DeleteObject").requests, 1);
    assert!(counters.bytes_sent > 15_000_000 && counters.bytes_sent < 15_010_000, "heads too");
    assert!(counters.cpu_nanos > 0 && counters.cpu_seconds_per_gib().unwrap() < 100.0);
}

/// The counters, once they are `right`: a client has an answer before the account of it is settled.
pub(super) fn settled(lab: &NetLab, right: impl Fn(&Counters) -> bool) -> Counters {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let counters = lab.counters();
        if right(&counters) {
            return counters;
        }
        assert!(Instant::now() < deadline, "not what was answered: {counters:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
