//! When what was known another time is believed.

use super::*;

const MS: Duration = Duration::from_millis(1);
const KIB: u64 = 1 << 10;

const KNOWN: Known =
    Known { latency: Duration::from_millis(40), mib: Duration::from_millis(20), rate: 500_000_000 };

/// One fetch, of which so many bytes come: the first after `latency`, the rest `body` later.
fn told(endpoint: &mut Endpoint, fetch: u64, latency: Duration, bytes: u64, body: Duration) -> bool {
    let (began, fetch) = (Duration::from_secs(fetch), FetchId(fetch));
    endpoint.started(began, fetch, bytes, false);
    let early = endpoint.progress(began + latency, fetch, 0);
    let late = endpoint.progress(began + latency + body, fetch, bytes);
    early || late
}

fn believes(latency: Duration, bytes: u64, body: Duration) -> bool {
    let mut endpoint = Endpoint::new(Tuning::default(), 64);
    endpoint.recall(KNOWN);
    let believed = told(&mut endpoint, 1, latency, bytes, body);
    let (size, rate) = (bytes as f64, 500e6);
    let needed = rate * (0.04 / size + 0.02 / f64::from(1 << 20));
    let level = needed + 1.5 * needed.sqrt() + 1.0;
    assert_eq!(endpoint.allowed(), if believed { level.round() as usize } else { 8 });
    assert_eq!(endpoint.bandwidth().is_some_and(|rate| rate == 500_000_000), believed);
    believed
}

#[test]
fn it_is_believed_when_a_fetch_comes_as_it_says() {
    assert!(believes(40 * MS, 1024 * KIB, 20 * MS));
    for (latency, body) in [(20, 20), (80, 20), (40, 1), (40, 40)] {
        assert!(believes(latency * MS, 1024 * KIB, body * MS), "{latency}, {body}");
    }
    for (latency, body) in [(19, 20), (81, 20), (40, 41), (400, 20), (40, 200), (4, 2)] {
        assert!(!believes(latency * MS, 1024 * KIB, body * MS), "{latency}, {body}");
    }
    // Of half a MiB, half the time.
    assert!(believes(40 * MS, 512 * KIB, 10 * MS) && believes(40 * MS, 512 * KIB, 20 * MS));
    assert!(!believes(40 * MS, 512 * KIB, 21 * MS));
    assert!(!believes(40 * MS, 511 * KIB, 10 * MS), "too little to tell");
}

#[test]
fn it_does_not_begin_with_fewer_than_who_knows_nothing() {
    for (rate, allowed) in [(50_000_000, 8), (80_000_000, 9), (1_200_000_000, 64), (1 << 40, 64)] {
        let mut endpoint = Endpoint::new(Tuning::default(), 128);
        endpoint.recall(Known { rate, ..KNOWN });
        assert!(told(&mut endpoint, 1, 40 * MS, 1024 * KIB, 20 * MS));
        assert_eq!(endpoint.allowed(), allowed, "{rate}");
    }
}

#[test]
fn near_by_two_milliseconds_more_or_less_are_chance() {
    let near = Known { latency: MS, mib: MS, ..KNOWN };
    for (latency, body, believed) in [(3, 2, true), (4, 2, false), (3, 4, false)] {
        let mut endpoint = Endpoint::new(Tuning::default(), 64);
        endpoint.recall(near);
        assert_eq!(
            told(&mut endpoint, 1, latency * MS, 1024 * KIB, body * MS),
            believed,
            "{latency}, {body}"
        );
    }
}

#[test]
fn what_was_measured_counts_more() {
    let mut endpoint = Endpoint::new(Tuning::default(), 64);
    endpoint.recall(KNOWN);
    // Eight at a time, all they may, for some rounds.
    let mut next = 100;
    for round in 0..40 {
        let began = Duration::from_secs(100) + 110 * MS * round;
        let fetches: Vec<_> = (0..endpoint.allowed() as u64).map(|n| FetchId(next + n)).collect();
        next += 64;
        fetches.iter().for_each(|fetch| endpoint.started(began, *fetch, 1024 * KIB, false));
        for fetch in &fetches {
            assert!(!endpoint.progress(began + 100 * MS, *fetch, 0));
            assert!(!endpoint.progress(began + 110 * MS, *fetch, 1024 * KIB));
            endpoint.finished(began + 110 * MS, *fetch);
        }
    }
    let known = endpoint.known().expect("it was measured");
    assert!(known.latency.abs_diff(100 * MS) < MS, "{known:?}");
    let allowed = endpoint.allowed();
    assert!(!told(&mut endpoint, 1 << 20, 40 * MS, 1024 * KIB, 20 * MS));
    assert_eq!(endpoint.allowed(), allowed);
}

#[test]
fn an_endpoint_that_refuses_is_not_as_it_was() {
    let mut endpoint = Endpoint::new(Tuning::default(), 64);
    endpoint.recall(KNOWN);
    endpoint.started(Duration::from_secs(1), FetchId(1), 1024 * KIB, false);
    endpoint.failed(Duration::from_secs(1) + MS, FetchId(1), Failure::Throttled);
    assert!(!told(&mut endpoint, 2, 40 * MS, 1024 * KIB, 20 * MS));
    assert!(endpoint.allowed() < 8, "{}", endpoint.allowed());
}

#[test]
fn it_is_believed_once_and_then_measured() {
    let mut endpoint = Endpoint::new(Tuning::default(), 64);
    endpoint.recall(KNOWN);
    assert_eq!(endpoint.known(), Some(KNOWN), "it is what is known, as long as nothing else is");
    assert!(told(&mut endpoint, 1, 40 * MS, 1024 * KIB, 20 * MS));
    assert!(!told(&mut endpoint, 2, 40 * MS, 1024 * KIB, 20 * MS));
    assert_eq!(endpoint.duration(2 << 20), Some(80 * MS));
    let known = endpoint.known().expect("it is known");
    assert_eq!((known.latency, known.mib), (KNOWN.latency, KNOWN.mib));
}

#[test]
fn it_says_better_than_the_number_of_readers_how_many_are_needed() {
    for (known, allowed) in [(None, 30), (Some(KNOWN), 8)] {
        let mut endpoint = Endpoint::new(Tuning::default(), 64);
        known.into_iter().for_each(|known| endpoint.recall(known));
        endpoint.readers(Duration::ZERO, 30);
        assert_eq!(endpoint.allowed(), allowed, "{known:?}");
    }
}
