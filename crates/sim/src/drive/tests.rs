//! The fixed controller against the S3 model: what arithmetic says must come out.

use super::*;
use crate::models::network::RateStep;
use crate::models::s3::{Endpoint, Fault, FaultKind, Service};
use fixed::Settings;
use std::time::Duration;

const MIB: u64 = 1 << 20;
const SECOND: Duration = Duration::from_secs(1);

fn endpoint(latency: f64, rate: u64) -> Endpoint {
    let mut endpoint = Endpoint::plain(latency, rate);
    endpoint.first_byte.sigma = 0.0;
    endpoint
}

fn fixed(window: u64, concurrency: usize) -> Box<dyn Controller> {
    Box::new(Fixed::new(Settings { window, concurrency, part: MIB, memory: 4096 * MIB }))
}

fn outcome(
    readers: Vec<ReaderSpec>,
    controller: Box<dyn Controller>,
    endpoint: Endpoint,
    steps: &[RateStep],
) -> Outcome {
    let store = Service::new(vec![endpoint], &[8000 * MIB], steps, 128 << 10, 1);
    let mut plant = Plant::new(vec![controller], Box::new(store));
    let setup = Setup { readers, memory: 4096 * MIB, duration: 6 * SECOND, ..Setup::default() };
    let outcome = run(&setup, &mut plant, 1);
    assert_eq!(outcome.violations, Vec::<String>::new());
    assert_eq!(outcome.above_ceiling, 0);
    outcome
}

#[track_caller]
fn rate_is(outcome: &Outcome, mib: f64) {
    let rate = outcome.total().rate(SECOND, 6 * SECOND) / MIB as f64;
    assert!((rate / mib - 1.0).abs() < 0.05, "{rate} MiB/s, not {mib}");
}

#[test]
fn throughput_is_concurrency_over_latency() {
    // 1 MiB in 90 + 10 ms: 10 MiB/s for each in flight.
    for (concurrency, mib) in [(1, 10.0), (4, 40.0), (16, 160.0), (64, 640.0)] {
        let reader = ReaderSpec::sequential(1, 4096 * MIB);
        rate_is(&outcome(vec![reader], fixed(512 * MIB, concurrency), endpoint(0.09, 100 * MIB), &[]), mib);
    }
}

#[test]
fn throughput_is_window_over_latency() {
    // The part being read and eight ahead of it: as the reader gets one, the next is asked for.
    let reader = ReaderSpec::sequential(1, 40_960 * MIB);
    let outcome = outcome(vec![reader], fixed(9 * MIB, 64), endpoint(0.09, 100 * MIB), &[]);
    rate_is(&outcome, 90.0);
    assert!(outcome.peak <= 11 * MIB, "{}", outcome.peak);
    let arrived = outcome.arrived().rate(SECOND, 6 * SECOND) / MIB as f64;
    assert!((arrived / 90.0 - 1.0).abs() < 0.05, "what is read has come over the network: {arrived} MiB/s");
}

#[test]
fn a_slow_reader_gets_its_own_rate_and_wastes_nothing() {
    let reader = ReaderSpec::sequential(1, 20 * MIB);
    let outcome = outcome(vec![reader], fixed(16 * MIB, 64), endpoint(0.09, 100 * MIB), &[]);
    rate_is(&outcome, 20.0);
    assert_eq!(outcome.wasted, 0.0);
}

#[test]
fn random_reads_take_latency_and_transfer_each() {
    let reader = ReaderSpec { pattern: Pattern::Random, depth: 4, ..ReaderSpec::sequential(1, 40_960 * MIB) };
    let outcome = outcome(vec![reader], fixed(16 * MIB, 64), endpoint(0.09, 100 * MIB), &[]);
    rate_is(&outcome, 40.0);
    assert_eq!(outcome.wasted, 0.0);
}

#[test]
fn interleaved_streams_on_one_handle_are_each_fetched_ahead() {
    let pattern = Pattern::Interleaved(4);
    let reader = ReaderSpec { pattern, ..ReaderSpec::sequential(1, 4096 * MIB) };
    rate_is(&outcome(vec![reader], fixed(24 * MIB, 64), endpoint(0.09, 100 * MIB), &[]), 640.0);
}

#[test]
fn equal_readers_share_alike() {
    let readers: Vec<_> = (0..8).map(|number| ReaderSpec::sequential(number, 4096 * MIB)).collect();
    let outcome = outcome(readers, fixed(32 * MIB, 64), endpoint(0.02, 100 * MIB), &[]);
    rate_is(&outcome, 2133.0);
    let shares: Vec<f64> = outcome.readers.iter().map(|series| series.rate(SECOND, 6 * SECOND)).collect();
    assert!(measure::jain(&shares) > 0.98, "{shares:?}");
}

#[test]
fn contention_slows_every_copy() {
    let readers: Vec<_> = (0..4).map(|number| ReaderSpec::sequential(number, 20 * MIB)).collect();
    let store = Service::new(vec![endpoint(0.01, 100 * MIB)], &[200 * MIB], &[], 128 << 10, 1);
    let mut plant = Plant::new(vec![fixed(32 * MIB, 64)], Box::new(store));
    let setup = Setup {
        readers,
        memory: 4096 * MIB,
        duration: 6 * SECOND,
        contention: 1.0 / 3.0,
        ..Setup::default()
    };
    rate_is(&run(&setup, &mut plant, 1), 40.0);
}

#[test]
fn a_bursty_reader_rests_and_a_closed_file_is_forgotten() {
    let half = Duration::from_millis(500);
    let bursty =
        ReaderSpec { pattern: Pattern::Bursty(10 * MIB, half), ..ReaderSpec::sequential(1, 20 * MIB) };
    let early = ReaderSpec { stop: Some(2 * SECOND), ..ReaderSpec::sequential(2, 20 * MIB) };
    let late = ReaderSpec { start: 4 * SECOND, len: 20 * MIB, ..ReaderSpec::sequential(3, 20 * MIB) };
    let outcome = outcome(vec![bursty, early, late], fixed(16 * MIB, 64), endpoint(0.01, 100 * MIB), &[]);
    let [bursty, early, late] = &outcome.readers[..] else { panic!("three readers") };
    let mib = |series: &Series, from, until| series.bytes(from * SECOND, until * SECOND) / MIB as f64;
    // 10 MiB in half a second, then half a second of nothing: 10 MiB/s.
    assert!((50.0..66.0).contains(&mib(bursty, 0, 6)), "{}", mib(bursty, 0, 6));
    assert!((36.0..=40.0).contains(&mib(early, 0, 6)) && mib(early, 3, 6) == 0.0);
    assert!((mib(late, 4, 6) - 20.0).abs() < 1e-6 && mib(late, 0, 4) == 0.0);
    // What was ahead of the one that closed.
    assert!(outcome.wasted > 0.0);
}

#[test]
fn reads_survive_cuts_resets_and_503() {
    for kind in [FaultKind::Cut, FaultKind::Refuse, FaultKind::Stall(Some(Duration::from_millis(50)))] {
        let mut faulty = endpoint(0.01, 100 * MIB);
        faulty.faults = vec![Fault { from: Duration::ZERO, until: 2 * SECOND, probability: 0.2, kind }];
        let reader = ReaderSpec::sequential(1, 4096 * MIB);
        let outcome = outcome(vec![reader], fixed(32 * MIB, 4), faulty, &[]);
        assert_eq!(outcome.errors, 0);
        let rate = outcome.total().rate(3 * SECOND, 6 * SECOND) / MIB as f64;
        assert!((195.0..=205.0).contains(&rate), "{rate} MiB/s after {kind:?}");
    }
}

#[test]
fn a_rate_step_is_seen() {
    let steps = [RateStep { at: 3 * SECOND, factor: 0.0025 }];
    let reader = ReaderSpec::sequential(1, 4096 * MIB);
    let total = outcome(vec![reader], fixed(128 * MIB, 4), endpoint(0.02, 100 * MIB), &steps).total();
    assert!((total.rate(SECOND, 3 * SECOND) / MIB as f64 / 133.3 - 1.0).abs() < 0.05);
    assert!((total.rate(4 * SECOND, 6 * SECOND) / MIB as f64 / 18.2 - 1.0).abs() < 0.05);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let once = || {
        let mut faulty = Endpoint::plain(0.02, 50 * MIB);
        faulty.faults =
            vec![Fault { from: Duration::ZERO, until: 9 * SECOND, probability: 0.1, kind: FaultKind::Cut }];
        let readers = (0..5).map(|number| ReaderSpec::sequential(number, 4096 * MIB)).collect();
        outcome(readers, fixed(8 * MIB, 20), faulty, &[])
    };
    let (a, b) = (once(), once());
    assert_eq!((a.readers, a.fetched, a.fetches, a.peak), (b.readers, b.fetched, b.fetches, b.peak));
}
