//! When the other mode is tried, and what a trial counts.

use super::*;

const MS: Duration = Duration::from_millis(1);

/// A probe, fed with what a store delivers in each mode.
struct Fed {
    probe: Probe,
    now: Duration,
    /// Fetches under way, of so many streams.
    under_way: (usize, usize),
}

impl Fed {
    /// Readers wait, and eight fetches of one stream are under way.
    fn new() -> Fed {
        let mut probe = Probe::new(Tuning::default());
        probe.wanted(Duration::ZERO, true);
        Fed { probe, now: Duration::ZERO, under_way: (8, 1) }
    }

    /// MB/s in order and otherwise, for so long.
    fn feed(&mut self, time: Duration, ordered: u64, wide: u64) {
        let end = self.now + time;
        while self.now < end {
            self.now += MS;
            self.probe.delivered(self.now, 1_000 * if self.probe.is_ordered() { ordered } else { wide });
            self.probe.under_way(self.now, self.under_way.0, self.under_way.1);
            let mode = self.probe.mode(self.now);
            assert_eq!(mode == Mode::Ordered, self.probe.is_ordered());
        }
    }

    fn under_way(&mut self, fetches: usize, streams: usize) {
        self.under_way = (fetches, streams);
        self.probe.under_way(self.now, fetches, streams);
    }

    /// Until it is tried to send in order, one fetch of a stream at a time.
    fn until_tried(&mut self, wide: u64) {
        let trials = self.probe.trials();
        while self.probe.trials() == trials {
            self.feed(MS, 0, wide);
            assert!(self.now < Duration::from_secs(60), "it is never tried");
        }
        assert!(self.probe.is_ordered() && self.probe.trials() == trials + 1);
    }

    /// In order, and known to be faster so.
    fn in_order(streams: usize) -> Fed {
        let mut fed = Fed::new();
        fed.under_way(8 * streams, streams);
        fed.until_tried(500);
        fed.under_way(streams, streams);
        fed.feed(Duration::from_secs(4), 900, 500);
        assert!(fed.probe.is_ordered());
        fed
    }
}

#[test]
fn what_was_sent_before_a_trial_says_nothing_of_it() {
    let mut fed = Fed::new();
    fed.until_tried(500);
    // Of the eight, hardly anything comes any more.
    fed.feed(400 * MS, 10, 500);
    fed.under_way(1, 1);
    fed.feed(Duration::from_secs(2), 900, 500);
    assert!(fed.probe.is_ordered(), "from then on it was faster");
}

#[test]
fn a_trial_in_which_what_was_sent_before_never_ends_is_given_up() {
    let mut fed = Fed::new();
    fed.until_tried(500);
    fed.feed(700 * MS, 900, 500);
    assert!(fed.probe.is_ordered(), "there is hope");
    fed.feed(200 * MS, 900, 500);
    assert!(!fed.probe.is_ordered());
}

#[test]
fn a_trial_that_brings_far_less_is_over_at_once() {
    let mut fed = Fed::new();
    fed.until_tried(500);
    fed.under_way(1, 1);
    fed.feed(150 * MS, 100, 500);
    assert!(!fed.probe.is_ordered());
    let trials = fed.probe.trials();
    fed.feed(Duration::from_secs(2), 100, 500);
    assert_eq!(fed.probe.trials(), trials, "and what it has cost is to be small beside what comes");
}

#[test]
fn a_stall_within_a_trial_says_nothing_of_the_mode() {
    for stall in [400 * MS, Duration::from_secs(5)] {
        let mut fed = Fed::new();
        fed.until_tried(500);
        fed.under_way(1, 1);
        fed.feed(60 * MS, 900, 500);
        fed.now += stall;
        fed.feed(Duration::from_secs(2), 900, 500);
        assert!(fed.probe.is_ordered(), "{stall:?}");
    }
}

#[test]
fn where_no_stream_has_more_than_one_fetch_under_way_nothing_is_tried() {
    for (fetches, streams, tried) in [(1, 1, false), (3, 3, false), (2, 3, false), (4, 3, true), (2, 1, true)]
    {
        let mut probe = Probe::new(Tuning::default());
        probe.wanted(Duration::ZERO, true);
        let mut fed = Fed { probe, now: Duration::ZERO, under_way: (fetches, streams) };
        fed.feed(Duration::from_secs(6), 500, 500);
        assert_eq!(fed.probe.trials() > 0, tried, "{fetches} of {streams}");
    }
}

#[test]
fn with_half_of_the_streams_gone_one_fetch_of_each_is_no_longer_enough() {
    for (left, ordered) in [(3, true), (2, false), (1, false), (0, false)] {
        let mut fed = Fed::in_order(4);
        fed.under_way(left, left);
        assert_eq!(fed.probe.is_ordered(), ordered, "{left} of 4 are left");
        fed.feed(200 * MS, 900, 500);
        assert_eq!(fed.probe.is_ordered(), ordered, "{left} of 4 are left");
    }
}

#[test]
fn a_failure_ends_a_trial_which_is_made_later() {
    let mut fed = Fed::new();
    fed.until_tried(500);
    let trials = fed.probe.trials();
    fed.probe.failed(fed.now);
    assert!(!fed.probe.is_ordered());
    fed.feed(1_900 * MS, 900, 500);
    assert_eq!((fed.probe.trials(), fed.probe.is_ordered()), (trials, false), "not at once");
    fed.until_tried(500);
}

#[test]
fn while_fetches_fail_nothing_is_measured() {
    let mut fed = Fed::new();
    for _ in 0..100 {
        fed.probe.failed(fed.now);
        fed.feed(200 * MS, 900, 500);
    }
    assert_eq!(fed.probe.trials(), 0);
    fed.until_tried(500);
}

#[test]
fn a_trial_that_was_lucky_is_taken_back() {
    let mut fed = Fed::new();
    fed.until_tried(500);
    fed.under_way(1, 1);
    // As long as it was tried it was faster; then it is slower than what was left for it.
    fed.feed(210 * MS, 900, 500);
    assert!(fed.probe.is_ordered());
    fed.feed(600 * MS, 100, 500);
    assert!(!fed.probe.is_ordered());
}
