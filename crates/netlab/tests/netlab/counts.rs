//! What is counted is what passed.

use headrace_netlab::{Conditions, NetLab, Traffic};

use super::client::Client;
use super::server::{Server, content};

#[test]
fn requests_bytes_and_processor_time_are_counted() {
    let server = Server::start();
    let lab = NetLab::start(server.address, Conditions::default()).unwrap();
    let mut client = Client::connect(lab.address());
    client.get(1_000_000).unwrap();
    let before = lab.counters();
    for _ in 0..3 {
        client.get(5_000_000).unwrap();
    }
    client.put(&content(70_000));
    client.ask("HEAD", "/b/5", "", &[]).unwrap();
    client.ask("GET", "/b?list-type=2&prefix=x", "", &[]).unwrap();
    client.ask("DELETE", "/b/5", "", &[]).unwrap();
    // The answer is there before the account of it is: another request settles it.
    client.ask("BREW", "/", "", &[]).unwrap();
    Client::connect(lab.address()).get(0).unwrap();
    let counters = lab.counters().since(&before);
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
