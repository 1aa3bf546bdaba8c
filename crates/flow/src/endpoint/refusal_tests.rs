//! An endpoint that refuses, or breaks connections, is asked for less, and for more again when it no longer does.

use super::*;

const MS: Duration = Duration::from_millis(1);

/// Eight fetches are under way, as many as are allowed; all that was sent has its first byte.
struct Busy {
    endpoint: Endpoint,
    now: Duration,
    flying: Vec<FetchId>,
    next: u64,
}

impl Busy {
    fn new() -> Busy {
        let endpoint = Endpoint::new(Tuning::default(), 64);
        let mut busy = Busy { endpoint, now: Duration::from_secs(10), flying: Vec::new(), next: 0 };
        busy.fill();
        assert_eq!(busy.flying.len(), 8);
        busy
    }

    /// As many as are allowed are sent, and a little of each comes.
    fn fill(&mut self) {
        while self.endpoint.in_flight() < self.endpoint.allowed() {
            self.next += 1;
            self.endpoint.started(self.now, FetchId(self.next), 1_000_000, false);
            self.flying.push(FetchId(self.next));
        }
        self.now += MS;
        for fetch in self.flying.clone() {
            self.endpoint.progress(self.now, fetch, 10);
        }
    }

    /// The oldest one under way fails.
    fn fail(&mut self, how: Failure) {
        let fetch = self.flying.remove(0);
        self.endpoint.failed(self.now, fetch, how);
    }

    /// The newest one does.
    fn fail_newest(&mut self, how: Failure) {
        let fetch = self.flying.pop().expect("one is under way");
        self.endpoint.failed(self.now, fetch, how);
    }
}

#[test]
fn a_refusal_cuts_once_for_all_that_were_under_way() {
    let mut busy = Busy::new();
    (0..6).for_each(|_| busy.fail(Failure::Throttled));
    // A third less. Had each of them cut, it would be a quarter of the eight.
    assert!((5..=6).contains(&busy.endpoint.allowed()), "{}", busy.endpoint.allowed());
}

#[test]
fn what_is_refused_again_cuts_again_but_a_burst_leaves_a_quarter() {
    let mut busy = Busy::new();
    let mut allowed = Vec::new();
    for _ in 0..12 {
        busy.fail_newest(Failure::Throttled);
        // The rest ends well.
        while busy.endpoint.in_flight() > 0 {
            busy.now += MS;
            let fetch = busy.flying.remove(0);
            busy.endpoint.finished(busy.now, fetch);
        }
        allowed.push(busy.endpoint.allowed());
        busy.fill();
    }
    assert!(allowed.windows(2).all(|pair| pair[1] <= pair[0]), "{allowed:?}");
    assert!(allowed[0] < 8 && allowed[1] < allowed[0], "{allowed:?}");
    assert_eq!(allowed.last(), Some(&2), "{allowed:?}");
}

#[test]
fn when_refusals_have_ended_it_comes_back_to_nearly_where_they_began() {
    let mut busy = Busy::new();
    for _ in 0..8 {
        busy.fail_newest(Failure::Throttled);
        while busy.endpoint.in_flight() > 0 {
            let fetch = busy.flying.remove(0);
            busy.endpoint.finished(busy.now, fetch);
        }
        busy.fill();
    }
    let (cut, last) = (busy.endpoint.allowed(), busy.now);
    assert_eq!(cut, 2);
    let mut seen = vec![cut];
    while busy.now < last + Duration::from_secs(2) {
        busy.fill();
        busy.now += 4 * MS;
        let allowed = busy.endpoint.allowed();
        if busy.now < last + 490 * MS {
            assert_eq!(allowed, cut, "it is calm for half a second first");
        }
        if Some(&allowed) != seen.last() {
            seen.push(allowed);
        }
    }
    assert_eq!(seen[..3], [2, 4, 7], "in doublings: {seen:?}");
}

#[test]
fn what_comes_while_few_are_sent_for_refusals_is_not_what_the_endpoint_can_do() {
    let mut busy = Busy::new();
    // Milliseconds, bytes per second of all that is under way, and whether the newest of it is refused ten times a second.
    let mut deliver = |time: u64, rate: u64, refused: bool| {
        for step in 0..time / 10 {
            busy.fill();
            busy.now += 9 * MS;
            if refused && step % 10 == 0 {
                busy.fail_newest(Failure::Throttled);
                busy.fill();
            }
            let share = rate / 100 / busy.flying.len() as u64;
            busy.flying.iter().for_each(|fetch| {
                busy.endpoint.progress(busy.now, *fetch, share);
            });
            let ended = busy.flying.remove(0);
            busy.endpoint.finished(busy.now, ended);
        }
        busy.endpoint.bandwidth().expect("bytes came")
    };
    assert!(deliver(1_000, 100_000_000, false) > 90_000_000);
    assert!(
        deliver(4_000, 10_000_000, true) > 90_000_000,
        "the burst lasts for longer than rates are remembered"
    );
    assert!(deliver(6_000, 10_000_000, false) < 20_000_000, "nothing is refused any more, and no more comes");
}

#[test]
fn connections_that_break_in_masses_cut_and_a_few_do_not() {
    let mut busy = Busy::new();
    for _ in 0..3 {
        busy.fail(Failure::Transient);
        assert_eq!(busy.endpoint.allowed(), 8);
    }
    busy.fail(Failure::Transient);
    assert!(busy.endpoint.allowed() < 8, "half of what is allowed");
    // What cannot be had says nothing of how much there may be.
    let mut busy = Busy::new();
    (0..8).for_each(|_| busy.fail(Failure::Permanent));
    assert_eq!(busy.endpoint.allowed(), 8);
}

#[test]
fn where_nothing_comes_at_all_failures_do_not_cut() {
    let mut busy = Busy::new();
    busy.now += Duration::from_secs(10);
    (0..8).for_each(|_| busy.fail(Failure::Transient));
    assert_eq!(busy.endpoint.allowed(), 8, "fewer would not help");
}
