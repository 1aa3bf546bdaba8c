//! First bytes come when they should.

use std::time::Duration;

use headrace_netlab::{Conditions, Latency, NetLab, Schedule};

use super::client::{Client, median};
use super::server::Server;

fn ms(number: u64) -> Duration {
    Duration::from_millis(number)
}

fn lab(server: &Server, settings: &[(&str, &str)]) -> NetLab {
    let mut conditions = Conditions::default();
    for (name, value) in settings {
        conditions.set(name, value).unwrap();
    }
    NetLab::start(server.address, conditions).unwrap()
}

#[test]
fn no_answer_is_sooner_than_asked_and_few_are_much_later() {
    let server = Server::start();
    let lab = lab(&server, &[("first-byte", "20ms")]);
    let mut client = Client::connect(lab.address());
    let times: Vec<Duration> = (0..30).map(|_| client.get(4096).unwrap().first_byte).collect();
    assert!(times.iter().all(|time| *time >= ms(20)), "{times:?}");
    assert!(median(times) < ms(60));
}

#[test]
fn tails_are_there() {
    let server = Server::start();
    let lab = lab(&server, &[("first-byte", "4ms,pareto=1.2")]);
    let times: Vec<Duration> = std::thread::scope(|scope| {
        let address = lab.address();
        let one = move || {
            let mut client = Client::connect(address);
            (0..40).map(|_| client.get(10).unwrap().first_byte).collect::<Vec<_>>()
        };
        let all: Vec<_> = (0..8).map(|_| scope.spawn(one)).collect();
        all.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(times.iter().all(|time| *time >= ms(4)));
    // Four in a hundred take at least 14.6 times as long, so some of 320 do, whatever the machine adds.
    assert!(times.iter().filter(|time| **time >= ms(40)).count() >= 4, "no tail");
}

#[test]
fn a_handshake_is_paid_for_once() {
    let server = Server::start();
    let lab = lab(&server, &[("connect", "100ms")]);
    let mut client = Client::connect(lab.address());
    assert!(client.get(10).unwrap().first_byte >= ms(100));
    let times = (0..5).map(|_| client.get(10).unwrap().first_byte).collect();
    assert!(median(times) < ms(100));
}

#[test]
fn changes_hold_for_the_next_request_of_old_connections() {
    let server = Server::start();
    let lab = lab(&server, &[]);
    let mut client = Client::connect(lab.address());
    let times = (0..5).map(|_| client.get(10).unwrap().first_byte).collect();
    assert!(median(times) < ms(100));
    lab.set(Conditions { first_byte: Latency::constant(ms(100)), ..lab.conditions() }).unwrap();
    assert!(client.get(10).unwrap().first_byte >= ms(100));
    assert!(lab.set(Conditions { stall: 2.0, ..Conditions::default() }).is_err());
    assert_eq!(lab.conditions().first_byte, Latency::constant(ms(100)), "a refused change changes nothing");
}

#[test]
fn a_schedule_is_followed() {
    let server = Server::start();
    let lab = lab(&server, &[]);
    let text = "[[step]]\nat = \"300ms\"\nfirst-byte = \"150ms\"\n[[step]]\nat = \"2s\"\nfirst-byte = \"0\"";
    let began = std::time::Instant::now();
    lab.follow(Schedule::parse(text, &lab.conditions()).unwrap()).unwrap();
    let mut client = Client::connect(lab.address());
    let mut slow = 0;
    while began.elapsed() < ms(2500) {
        let asked = began.elapsed();
        let took = client.get(10).unwrap().first_byte;
        // The change itself may be late, never early.
        if took >= ms(150) && asked + took < ms(2000) {
            assert!(asked + took >= ms(450), "slow too early: asked at {asked:?}, took {took:?}");
            slow += 1;
        }
        std::thread::sleep(ms(20));
    }
    assert!(slow >= 3, "{slow} slow ones");
    assert_eq!(lab.conditions(), Conditions::default(), "the last step");
}
