use super::*;
use crate::drive::fixed::{Fixed, Settings as Hand};
use crate::drive::{Outcome, Plant};
use crate::models::s3::{Endpoint, Service};
use std::time::Duration;

const MIB: u64 = 1 << 20;
const SECOND: Duration = Duration::from_secs(1);

/// A daemon whose bytes are always there: one request of 1 MiB takes 10 ms in it, and 1 ms to wake it.
fn settings() -> Settings {
    Settings {
        readers: 1,
        copy_rate: (100 * MIB) as f64,
        max_background: 64,
        congestion_threshold: 64,
        request: MIB,
        readahead: MIB,
        threads: 16,
        wake: Duration::from_millis(1),
        service: Duration::from_millis(10),
        service_rate: 1e15,
        service_sigma: 0.0,
    }
}

fn outcome(settings: Settings) -> Outcome {
    let mut endpoint = Endpoint::plain(0.0001, 1 << 40);
    endpoint.first_byte.sigma = 0.0;
    let store = Service::new(vec![endpoint], &[1 << 40], &[], MIB, 1);
    let hand = Hand { window: 256 * MIB, concurrency: 1024, part: 8 * MIB, memory: 1 << 40 };
    let mut plant = Plant::new(vec![Box::new(Fixed::new(hand))], Box::new(store));
    let outcome = run(settings, &mut plant, 4 * SECOND, 1);
    assert_eq!(outcome.violations, Vec::<String>::new());
    outcome
}

#[track_caller]
fn rate_is(settings: Settings, mib: f64) {
    let rate = outcome(settings).total().rate(SECOND, 4 * SECOND) / MIB as f64;
    assert!((rate / mib - 1.0).abs() < 0.03, "{rate} MiB/s, not {mib}");
}

#[test]
fn readahead_hides_the_daemon_behind_the_copy() {
    // A copy takes 10 ms, the daemon 11, side by side.
    rate_is(settings(), 1000.0 / 11.0);
    // With more ahead the copy alone is left.
    rate_is(Settings { readahead: 4 * MIB, ..settings() }, 100.0);
}

#[test]
fn congestion_leaves_only_what_somebody_waits_for() {
    // Nothing ahead: copy and daemon one after the other.
    rate_is(Settings { congestion_threshold: 0, ..settings() }, 1000.0 / 21.0);
}

#[test]
fn threads_and_slots_bound_what_is_served() {
    // A thread that finds the next request there does not sleep: one every 10 ms each.
    let many = Settings { readers: 32, readahead: 4 * MIB, ..settings() };
    rate_is(Settings { threads: 4, ..many }, 400.0);
    rate_is(Settings { max_background: 8, ..many }, 800.0);
}
