//! Latency and rates within 5 % of what was asked, and what they cost: `make netlab-check`, on a machine that does nothing
//! else.

use std::time::{Duration, Instant};

use headrace_netlab::{Conditions, NetLab};

use super::client::{Client, median};
use super::server::Server;

/// Most that a figure may differ from what was asked, as a share of it.
const TOLERANCE: f64 = 0.05;

fn lab(server: &Server, settings: &[(&str, &str)]) -> NetLab {
    let mut conditions = Conditions::default();
    for (name, value) in settings {
        conditions.set(name, value).unwrap();
    }
    NetLab::start(server.address, conditions).unwrap()
}

/// Figures beside what was asked for, all of them before the first that is wrong fails the test.
#[derive(Default)]
struct Sheet {
    wrong: Vec<String>,
}

impl Sheet {
    fn line(&mut self, what: &str, found: f64, asked: f64, unit: &str) {
        let off = found / asked - 1.0;
        let line = format!(
            "{what:<52} asked {asked:>7.2} {unit:<4}  got {found:>7.2} {unit:<4} {:>+6.1} %",
            off * 100.0
        );
        println!("     {line}");
        if off.abs() > TOLERANCE {
            self.wrong.push(line);
        }
    }

    fn check(self) {
        assert!(self.wrong.is_empty(), "more than {} % off:\n{}", TOLERANCE * 100.0, self.wrong.join("\n"));
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// First bytes of objects so long, over so many connections at once.
fn first_bytes(lab: &NetLab, connections: usize, each: usize, length: usize) -> Vec<Duration> {
    std::thread::scope(|scope| {
        let address = lab.address();
        let one = move || {
            let mut client = Client::connect(address);
            (0..each).map(|_| client.get(length).unwrap().first_byte).collect::<Vec<_>>()
        };
        let all: Vec<_> = (0..connections).map(|_| scope.spawn(one)).collect();
        all.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
#[ignore = "exact times need a quiet machine: make netlab-check"]
fn first_bytes_within_five_percent() {
    let server = Server::start();
    let mut sheet = Sheet::default();
    for (asked, connections) in [(5, 1), (20, 1), (20, 16), (20, 32), (100, 8)] {
        let lab = lab(&server, &[("first-byte", &format!("{asked}ms"))]);
        let times = first_bytes(&lab, connections, (4000 / asked / connections).max(10), 4096);
        let what = format!("first byte, median, {connections} connections");
        sheet.line(&what, milliseconds(median(times)), asked as f64, "ms");
    }
    let tail = lab(&server, &[("first-byte", "20ms,lognormal=0.5")]);
    let mut times = first_bytes(&tail, 16, 200, 4096);
    times.sort();
    sheet.line("first byte, log-normal 0.5, median", milliseconds(times[times.len() / 2]), 20.0, "ms");
    sheet.line(
        "first byte, log-normal 0.5, 90th percentile",
        milliseconds(times[times.len() * 9 / 10]),
        37.96,
        "ms",
    );
    sheet.check();
}

/// What connections saw that each read objects one after another.
struct Seen {
    /// Bytes per second of all of them, from the first request to the last byte.
    all: f64,
    /// Bytes per second of one of them, from an answer's first byte to its last.
    one: f64,
    /// Of the proxy, for a GiB.
    cpu_seconds: f64,
}

fn read(lab: &NetLab, connections: usize, length: usize, time: Duration) -> Seen {
    let before = lab.counters();
    let began = Instant::now();
    let one = || {
        let mut client = Client::connect(lab.address());
        let (mut bytes, mut busy) = (0, Duration::ZERO);
        while began.elapsed() < time {
            let answer = client.get(length).unwrap();
            bytes += answer.body.len();
            busy += answer.whole - answer.first_byte;
        }
        (bytes, busy)
    };
    let seen: Vec<(usize, Duration)> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..connections).map(|_| scope.spawn(one)).collect();
        all.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let all = began.elapsed().as_secs_f64();
    let bytes: usize = seen.iter().map(|(bytes, _)| bytes).sum();
    let busy: f64 = seen.iter().map(|(_, busy)| busy.as_secs_f64()).sum();
    let cpu_seconds = lab.counters().since(&before).cpu_seconds_per_gib().unwrap();
    Seen { all: bytes as f64 / all, one: bytes as f64 / busy, cpu_seconds }
}

#[test]
#[ignore = "exact rates need a quiet machine: make netlab-check"]
fn rates_within_five_percent() {
    let server = Server::start();
    let time = Duration::from_secs(4);
    let mut sheet = Sheet::default();
    for (name, asked, connections, length) in [
        ("per-connection", 10, 1, 4 << 20),
        ("per-connection", 90, 1, 4 << 20),
        ("per-connection", 90, 1, 64 << 20),
        ("per-connection", 90, 4, 8 << 20),
        ("total", 100, 1, 4 << 20),
        ("total", 200, 8, 4 << 20),
    ] {
        let lab = lab(&server, &[(name, &format!("{asked}MB"))]);
        let seen = read(&lab, connections, length, time);
        let found = if name == "total" && connections > 1 { seen.all } else { seen.one };
        let what = format!("{name}, {connections} x {} MiB, {:.3} CPU s/GiB", length >> 20, seen.cpu_seconds);
        sheet.line(&what, found / 1e6, f64::from(asked), "MB/s");
    }
    sheet.check();
}

#[test]
#[ignore = "processor time needs a quiet machine: make netlab-check"]
fn relaying_is_cheap() {
    let server = Server::start();
    let lab = lab(&server, &[]);
    for (connections, length) in [(1, 64 << 20), (4, 4 << 20)] {
        let seen = read(&lab, connections, length, Duration::from_secs(4));
        println!(
            "     no condition, {connections} x {} MiB: {:.0} MB/s, {:.3} CPU s/GiB",
            length >> 20,
            seen.all / 1e6,
            seen.cpu_seconds
        );
        assert!(seen.cpu_seconds < 0.5, "{} CPU seconds for a GiB", seen.cpu_seconds);
    }
}
