//! What an endpoint is told, and what it says of it.

use super::*;

const MS: Duration = Duration::from_millis(1);
const KB: u64 = 1_000;
const MB: u64 = 1_000_000;

/// An endpoint and the time.
struct Told {
    endpoint: Endpoint,
    now: Duration,
    next: u64,
}

impl Told {
    fn new(tuning: Tuning) -> Told {
        Told { endpoint: Endpoint::new(tuning, 64), now: Duration::from_secs(10), next: 0 }
    }

    fn send(&mut self, bytes: u64) -> FetchId {
        self.next += 1;
        self.endpoint.started(self.now, FetchId(self.next), bytes, false);
        FetchId(self.next)
    }

    fn bytes(&mut self, after: Duration, fetch: FetchId, bytes: u64) {
        self.now += after;
        self.endpoint.progress(self.now, fetch, bytes);
    }

    /// So many at a time: the first bytes of all come after this latency, and then a tenth of each after each `tenth`, so many times.
    fn coming(
        &mut self,
        at_once: usize,
        latency: Duration,
        bytes: u64,
        tenth: Duration,
        tenths: usize,
    ) -> Vec<FetchId> {
        let all: Vec<FetchId> = (0..at_once).map(|_| self.send(bytes)).collect();
        self.now += latency;
        for fetch in &all {
            self.endpoint.progress(self.now, *fetch, 0);
        }
        for _ in 0..tenths {
            self.now += tenth;
            for fetch in &all {
                self.endpoint.progress(self.now, *fetch, bytes / 10);
            }
        }
        all
    }

    /// So many at a time: the first bytes of all come after this latency, and all their bytes in as much time again.
    fn fetches(&mut self, at_once: usize, latency: Duration, bytes: u64) {
        let all = self.coming(at_once, latency, bytes, latency / 10, 10);
        all.iter().for_each(|fetch| self.endpoint.finished(self.now, *fetch));
    }

    /// How long a fetch may be silent that has brought nothing, or something.
    fn patience(&mut self, first_byte: bool) -> Duration {
        let fetch = self.send(MB);
        if first_byte {
            self.endpoint.progress(self.now, fetch, 1);
        }
        let late = self.endpoint.late(fetch).expect("it is under way").patience;
        self.endpoint.abandoned(self.now, fetch);
        late
    }
}

#[test]
fn two_streams_have_room_for_a_fetch_of_each() {
    let mut tuning = Tuning::default();
    tuning.limit.first = 1.0;
    let mut told = Told::new(tuning);
    assert_eq!(told.endpoint.allowed(), 1);
    for (streams, allowed) in [(0, 1), (1, 1), (2, 2), (9, 2), (1, 1)] {
        told.endpoint.streams(streams);
        assert_eq!(told.endpoint.allowed(), allowed, "{streams} streams");
    }
}

#[test]
fn the_size_of_fetches_is_that_of_late() {
    let mut told = Told::new(Tuning::default());
    assert_eq!(told.endpoint.size(), None);
    told.fetches(1, 10 * MS, MB);
    assert_eq!(told.endpoint.size(), Some(MB));
    told.fetches(1, 10 * MS, 3 * MB);
    let size = told.endpoint.size().expect("there were some");
    assert!(size > MB && size < 3 * MB / 2, "one says little: {size}");
    (0..100).for_each(|_| told.fetches(1, 10 * MS, 3 * MB));
    let size = told.endpoint.size().expect("there were some");
    assert!(size > 29 * MB / 10 && size <= 3 * MB, "{size}");
}

#[test]
fn it_says_how_long_fetches_take_and_how_fast_one_alone_would_be() {
    let mut told = Told::new(Tuning::default());
    assert_eq!(
        (told.endpoint.latency(), told.endpoint.alone(MB), told.endpoint.lately()),
        (None, None, Duration::ZERO)
    );
    // 20 ms to the first byte, and a MB in 20 ms after it.
    (0..40).for_each(|_| told.fetches(8, 20 * MS, MB));
    let near = |got: Duration, expected: Duration| got > expected.mul_f64(0.9) && got < expected.mul_f64(1.1);
    assert!(told.endpoint.latency().is_some_and(|latency| near(latency, 20 * MS)));
    assert!(near(told.endpoint.lately(), 40 * MS), "{:?}", told.endpoint.lately());
    for (bytes, rate) in
        [(MB, 25.0 * MB as f64), (10 * MB, 10.0 * MB as f64 / 0.22), (100 * KB, 0.1 * MB as f64 / 0.022)]
    {
        let alone = told.endpoint.alone(bytes).expect("it is known") as f64;
        assert!((alone / rate - 1.0).abs() < 0.1, "{alone} of {rate}");
    }
}

#[test]
fn gaps_in_which_readers_pause_are_no_slowness_and_short_ones_are() {
    let (second, long, short) = (Duration::from_secs(1), 20 * MS, 8 * MS);
    for (gap, transfer, least, most) in
        [(3 * second, long, 45 * MB, 55 * MB), (8 * MS, short, 45 * MB, 80 * MB)]
    {
        let mut told = Told::new(Tuning::default());
        // With no latency to speak of, 50 or 125 MB/s.
        for _ in 0..50 {
            told.now += gap;
            let fetch = told.send(MB);
            (0..10).for_each(|_| told.bytes(transfer / 10, fetch, MB / 10));
            told.endpoint.finished(told.now, fetch);
        }
        let bandwidth = told.endpoint.bandwidth().expect("it was measured");
        assert!((least..most).contains(&bandwidth), "{gap:?}: {bandwidth}");
    }
    // Nor is it a pause when something is under way.
    let mut told = Told::new(Tuning::default());
    told.send(MB);
    for _ in 0..5 {
        told.now += Duration::from_secs(3);
        let fetch = told.send(MB);
        (0..10).for_each(|_| told.bytes(2 * MS, fetch, MB / 10));
        told.endpoint.finished(told.now, fetch);
    }
    assert!(told.endpoint.bandwidth() < Some(60 * MB), "{:?}", told.endpoint.bandwidth());
}

#[test]
fn how_little_came_in_a_stall_is_no_rate() {
    for stall in [5, 60] {
        let mut told = Told::new(Tuning::default());
        (0..20).for_each(|_| told.fetches(8, 10 * MS, MB));
        let before = told.endpoint.bandwidth();
        let all: Vec<FetchId> = (0..told.endpoint.allowed()).map(|_| told.send(MB)).collect();
        all.iter().for_each(|fetch| told.bytes(MS, *fetch, KB));
        told.bytes(Duration::from_secs(stall), all[0], KB);
        assert_eq!(told.endpoint.bandwidth(), before, "{stall} s");
        all.iter().for_each(|fetch| told.bytes(2 * MS, *fetch, MB / 2));
        let after = told.endpoint.bandwidth().expect("there were some");
        assert!((240 * MB..=260 * MB).contains(&after), "{stall} s: {after}");
    }
}

#[test]
fn only_when_as_many_are_under_way_as_are_allowed_is_a_lower_rate_the_endpoints() {
    for (at_once, lower) in [(1, false), (8, true)] {
        let mut told = Told::new(Tuning::default());
        (0..10).for_each(|_| told.fetches(8, 20 * MS, 4 * MB));
        let before = told.endpoint.bandwidth().expect("it was measured");
        for _ in 0..30 {
            let at_once = if at_once == 1 { 1 } else { told.endpoint.allowed() };
            told.fetches(at_once, 100 * MS, MB / 10);
        }
        let after = told.endpoint.bandwidth().expect("it was measured");
        assert_eq!(after < before / 2, lower, "{before}, {after}");
    }
}

#[test]
fn what_was_given_up_because_it_was_late_counts_as_late_and_nothing_else_that_was_given_up() {
    let mut told = Told::new(Tuning::default());
    (0..200).for_each(|_| told.fetches(1, 20 * MS, 10));
    let (usual, latency) = (told.patience(false), told.endpoint.latency());
    assert!(usual < 40 * MS, "{usual:?}");
    // Given up soon, or while it came.
    for _ in 0..200 {
        let fetch = told.send(10);
        told.now += MS;
        told.endpoint.cancelled(told.now, fetch);
        let fetch = told.send(10);
        told.bytes(20 * MS, fetch, 1);
        told.now += Duration::from_secs(1);
        told.endpoint.cancelled(told.now, fetch);
    }
    assert_eq!((told.patience(false), told.endpoint.latency()), (usual, latency));
    for _ in 0..20 {
        let fetch = told.send(10);
        told.now += Duration::from_millis(300);
        told.endpoint.abandoned(told.now, fetch);
    }
    assert_eq!(told.patience(false), usual, "hung, it says nothing");
    for _ in 0..20 {
        let fetch = told.send(10);
        told.now += Duration::from_millis(300);
        told.endpoint.cancelled(told.now, fetch);
    }
    assert!(told.patience(false) > 250 * MS, "{:?}", told.patience(false));
}

#[test]
fn a_body_may_pause_as_long_as_bodies_do() {
    let mut told = Told::new(Tuning::default());
    // First bytes come within 20 ms, and then half a second passes before each piece.
    for _ in 0..200 {
        let fetch = told.send(30);
        told.bytes(20 * MS, fetch, 0);
        told.endpoint.progress(told.now, fetch, 0);
        (0..3).for_each(|_| told.bytes(500 * MS, fetch, 10));
        told.endpoint.finished(told.now, fetch);
    }
    assert!(told.patience(false) < 40 * MS, "{:?}", told.patience(false));
    assert!(told.patience(true) > 450 * MS, "{:?}", told.patience(true));
}

#[test]
fn however_many_are_late_at_once_second_attempts_keep_to_their_budget() {
    let mut told = Told::new(Tuning::default());
    (0..400).for_each(|_| told.fetches(1, 20 * MS, 10));
    let late: Vec<FetchId> = (0..40).map(|_| told.send(10)).collect();
    told.now += Duration::from_secs(1);
    let mut named = Vec::new();
    while let Some(fetch) = told.endpoint.hedge(told.now) {
        assert!(late.contains(&fetch) && !named.contains(&fetch), "each once");
        named.push(fetch);
    }
    assert_eq!(named.len(), Tuning::default().hedge.burst as usize);
    assert_eq!(told.endpoint.hedge_at(), None, "no more can be afforded");
}

#[test]
fn a_fetch_that_has_ended_does_not_count_among_those_that_stream() {
    let mut told = Told::new(Tuning::default());
    let all: Vec<FetchId> = (0..4).map(|_| told.send(MB)).collect();
    for (begun, fetch) in all.iter().take(3).enumerate() {
        assert_eq!(told.endpoint.streaming, begun);
        told.bytes(MS, *fetch, KB);
    }
    told.bytes(MS, all[0], KB);
    assert_eq!(told.endpoint.streaming, 3, "each once");
    told.endpoint.finished(told.now, all[0]);
    assert_eq!(told.endpoint.streaming, 2);
    told.endpoint.failed(told.now, all[1], crate::backoff::Failure::Permanent);
    assert_eq!(told.endpoint.streaming, 1);
    // This one has brought nothing yet.
    told.endpoint.finished(told.now, all[3]);
    assert_eq!(told.endpoint.streaming, 1);
    told.endpoint.finished(told.now, all[2]);
    assert_eq!(told.endpoint.streaming, 0);
}

#[test]
fn what_is_in_flight_is_as_large_as_what_was_asked_for_on_an_average() {
    let mut told = Told::new(Tuning::default());
    let all: Vec<FetchId> = [MB, 2 * MB, 6 * MB].iter().map(|bytes| told.send(*bytes)).collect();
    told.bytes(MS, all[0], 0);
    assert_eq!(told.endpoint.limit.flying, 3e6);
    told.endpoint.finished(told.now, all[2]);
    told.bytes(MS, all[0], KB);
    assert_eq!(told.endpoint.limit.flying, 1.5e6, "whatever of it has come");
}

#[test]
fn it_is_searched_how_many_are_needed_until_more_bring_nothing() {
    let mut told = Told::new(Tuning::default());
    assert!(told.endpoint.searches());
    let found = (0..200).any(|_| {
        // Sixteen bring as much as eight.
        let at_once = told.endpoint.allowed();
        told.fetches(at_once, MS * 10 * at_once as u32, MB);
        !told.endpoint.searches()
    });
    assert!(found, "{}", told.endpoint.allowed());
}

/// Of an interval in which nothing comes for most of the time.
#[test]
fn what_the_first_fetches_bring_together_is_a_rate_at_which_it_delivers() {
    let mut told = Told::new(Tuning::default());
    let all = told.coming(8, 200 * MS, MB, MS, 10);
    let before = told.endpoint.bandwidth();
    assert!(before.is_none_or(|rate| rate < 50 * MB), "{before:?}");
    all.iter().for_each(|fetch| told.endpoint.finished(told.now, *fetch));
    let rate = told.endpoint.bandwidth().expect("much has come");
    assert!(rate.abs_diff(800 * MB) < 8 * MB, "{rate}");

    // And those that follow, before they have ended.
    told.coming(48, 200 * MS, 2 * MB, 2 * MS, 6);
    let rate = told.endpoint.bandwidth().expect("much has come");
    assert!(rate > 3_000 * MB, "{rate}");
}
