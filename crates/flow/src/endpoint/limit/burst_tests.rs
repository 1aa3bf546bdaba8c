//! What the first fetches bring together.

use std::time::Duration;

use super::resting::{MS, NOW, near};
use super::{Finished, Limit, Phase, Tuning};

const MIB: u64 = 1 << 20;

/// The first bytes of so many fetches come, and then all others evenly.
fn come(limit: &mut Limit, from: Duration, count: u64, bytes: u64, body: Duration) {
    limit.streaming(from, count as usize);
    let pieces = 16;
    (1..=pieces)
        .for_each(|piece| limit.delivered(from + body * piece / pieces, count * bytes / u64::from(pieces)));
}

/// So many fetches of `bytes` are sent at once. Each has its first byte after `latency` and its last `body` later.
fn first(limit: &mut Limit, count: u64, bytes: u64, latency: Duration, body: Duration) {
    (0..count).for_each(|_| limit.started(NOW));
    come(limit, NOW + latency, count, bytes, body);
    let fetch = Finished { started: NOW, bytes, latency, duration: latency + body };
    (0..count).for_each(|_| limit.finished(NOW + latency + body, &fetch));
}

fn new(most: usize) -> Limit {
    Limit::new(Tuning::default(), most)
}

#[test]
fn far_away_it_goes_on_with_twice_as_many_as_would_bring_as_much_all_the_time() {
    let mut limit = new(1_000);
    // They wait for two thirds of their time.
    first(&mut limit, 8, MIB, 100 * MS, 50 * MS);
    assert!(near(limit.level, 2.0 * 3.0 * 8.0) && near(limit.base, limit.level), "{limit:?}");
    assert!(
        matches!(limit.phase, Phase::Grow { before: None, first: true, .. }),
        "it is searched on: {limit:?}"
    );
    let (latency, per_byte) = limit.unloaded().expect("known by now");
    assert!(near(latency, 0.1) && near(per_byte * MIB as f64, 0.05), "{limit:?}");
    assert!(!limit.is_new());
}

#[test]
fn it_goes_on_with_no_more_than_eight_times_the_first_number_and_no_more_than_there_may_be() {
    for (most, allowed) in [(1_000, 64), (50, 50)] {
        let mut limit = new(most);
        first(&mut limit, 8, MIB, 200 * MS, 10 * MS);
        assert_eq!(limit.allowed(), allowed, "{limit:?}");
    }
}

#[test]
fn a_burst_that_is_over_at_once_is_as_fast_as_one_of_ten_milliseconds() {
    let mut limit = new(1_000);
    first(&mut limit, 8, MIB, 30 * MS, MS);
    // 24 wait while 8 MiB come in 10 ms, and as much comes in a tenth of that.
    assert!(near(limit.level, 2.0 * (24.0 + 0.8)), "{limit:?}");
}

#[test]
fn near_by_or_where_the_network_is_busy_already_it_is_searched_as_usual() {
    // The first of them has four waiting beside eight, the second a little less.
    for (latency, leaps) in [(51, true), (49, false), (1, false)] {
        let mut limit = new(1_000);
        first(&mut limit, 8, MIB, latency * MS, 100 * MS);
        assert_eq!(limit.unloaded().is_some() && limit.level > 20.0, leaps, "{latency}: {limit:?}");
    }
}

#[test]
fn few_that_come_fast_are_worth_more_only_if_all_that_is_needed_is_more() {
    for (count, leaps) in [(3, true), (2, false)] {
        let mut limit = new(1_000);
        // By Little's law four times as many are needed as are sent, and three of four wait.
        first(&mut limit, count, MIB, 90 * MS, 30 * MS);
        assert_eq!(limit.allowed() > 8, leaps, "{count}: {limit:?}");
    }
}

#[test]
fn small_fetches_and_few_bytes_say_nothing() {
    for (count, bytes, leaps) in
        [(8, MIB / 2 - 1, false), (8, MIB / 2, true), (1, MIB - 1, false), (1, MIB, true)]
    {
        let mut limit = new(1_000);
        first(&mut limit, count, bytes, 400 * MS, 10 * MS);
        assert_eq!(limit.allowed() > 16, leaps, "{count} of {bytes}: {limit:?}");
    }
}

/// They took half a second, of which they hardly waited: the last of their bytes came fast by chance.
#[test]
fn where_hardly_any_time_passes_in_waiting_more_would_only_wait() {
    for (latency, leaps) in [(5, false), (15, true)] {
        let mut limit = new(1_000);
        (0..8).for_each(|_| limit.started(NOW));
        limit.streaming(NOW + latency * MS, 8);
        limit.streaming(NOW + 480 * MS, 0);
        come(&mut limit, NOW + 480 * MS, 8, MIB, 20 * MS);
        let fetch = Finished { started: NOW, bytes: MIB, latency: latency * MS, duration: 500 * MS };
        (0..8).for_each(|_| limit.finished(NOW + 500 * MS, &fetch));
        assert_eq!(limit.allowed() > 16, leaps, "{latency}: {limit:?}");
    }
}

/// The quickest is no measure of how long all of them take.
#[test]
fn half_of_those_that_were_sent_have_to_have_ended() {
    let mut limit = new(1_000);
    (0..8).for_each(|_| limit.started(NOW));
    come(&mut limit, NOW + 100 * MS, 8, MIB, 50 * MS);
    let fetch = Finished { started: NOW, bytes: MIB, latency: 100 * MS, duration: 150 * MS };
    for ended in 1..=4 {
        limit.finished(NOW + 150 * MS, &fetch);
        assert_eq!(limit.allowed() > 8, ended == 4, "{ended}: {limit:?}");
    }
}

#[test]
fn what_came_before_a_time_in_which_nothing_did_does_not_count() {
    for (another, level) in [(false, 2.0 * 8.0 * 150.0 / 80.0), (true, 48.0)] {
        let mut limit = new(1_000);
        (0..8).for_each(|_| limit.started(NOW));
        // Something that is read 30 ms before: it has ended by then, or goes on.
        limit.streaming(NOW + 70 * MS, 1);
        limit.delivered(NOW + 70 * MS, 1);
        if another {
            limit.streaming(NOW + 80 * MS, 0);
        }
        come(&mut limit, NOW + 100 * MS, 8, MIB, 50 * MS);
        let fetch = Finished { started: NOW, bytes: MIB, latency: 100 * MS, duration: 150 * MS };
        (0..8).for_each(|_| limit.finished(NOW + 150 * MS, &fetch));
        assert!((limit.level / level - 1.0).abs() < 0.01, "{another}: {limit:?}");
    }
}

#[test]
fn it_happens_once_and_not_to_who_was_refused() {
    let mut limit = new(1_000);
    first(&mut limit, 8, MIB, 100 * MS, 50 * MS);
    let before = limit.level;
    limit.streaming(NOW + 160 * MS, 0);
    limit.started(NOW + 160 * MS);
    limit.streaming(NOW + 260 * MS, 1);
    limit.delivered(NOW + 300 * MS, 100 * MIB);
    let fetch = Finished { started: NOW + 160 * MS, bytes: 100 * MIB, latency: 100 * MS, duration: 140 * MS };
    limit.finished(NOW + 300 * MS, &fetch);
    assert!(near(limit.level, before), "{limit:?}");

    let mut limit = new(1_000);
    limit.started(NOW);
    limit.failed(NOW + MS, NOW, crate::backoff::Failure::Throttled);
    let allowed = limit.allowed();
    first(&mut limit, 8, MIB, 100 * MS, 50 * MS);
    assert!(limit.allowed() <= allowed, "{limit:?}");
}
