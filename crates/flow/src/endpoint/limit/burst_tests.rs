//! What the first fetches bring together.

use std::time::Duration;

use super::resting::{MS, NOW, near, send};
use super::{Finished, Limit, Phase, Tuning};

const MIB: u64 = 1 << 20;

/// The first bytes of so many fetches come, and then all others evenly.
fn come(limit: &mut Limit, from: Duration, count: u64, bytes: u64, body: Duration) {
    limit.streaming(from, count as usize);
    let pieces = 16;
    (1..=pieces)
        .for_each(|piece| limit.delivered(from + body * piece / pieces, count * bytes / u64::from(pieces)));
}

/// So many fetches of `bytes` are sent at once, and come, but none has ended yet: each has its first byte after `latency` and its last `body` later.
fn coming(limit: &mut Limit, count: u64, bytes: u64, latency: Duration, body: Duration) -> Finished {
    (0..count).for_each(|_| limit.started(NOW));
    come(limit, NOW + latency, count, bytes, body);
    Finished { started: NOW, bytes, latency, duration: latency + body }
}

/// The same, and all of them end.
fn first(limit: &mut Limit, count: u64, bytes: u64, latency: Duration, body: Duration) {
    let fetch = coming(limit, count, bytes, latency, body);
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
    let fetch = coming(&mut limit, 8, MIB, 100 * MS, 50 * MS);
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

/// What is allowed is sent again and again: as many have to have ended as are allowed, though two more are under way for who waits.
#[test]
fn those_that_follow_do_not_put_it_off() {
    let mut limit = new(1_000);
    let fetch = coming(&mut limit, 10, MIB, 100 * MS, 50 * MS);
    for ended in 1..=8 {
        limit.finished(NOW + 150 * MS, &fetch);
        limit.started(NOW + 150 * MS);
        assert_eq!(limit.allowed() > 16, ended == 8, "{ended}: {limit:?}");
    }
}

/// The first ones have come, each with 20 MiB in a second, and 48 are sent at 160 ms. So many of them have their first byte at 260 ms, and each brings
/// this many MiB in a second until then.
fn second(streaming: usize, each: f64, until: Duration) -> Limit {
    let mut limit = new(1_000);
    first(&mut limit, 8, MIB, 100 * MS, 50 * MS);
    limit.streaming(NOW + 150 * MS, 0);
    limit.flying(MIB as f64);
    send(&mut limit, NOW + 160 * MS, 48, streaming);
    let bytes = streaming as f64 * each * MIB as f64 * (until - 260 * MS).as_secs_f64();
    limit.delivered(NOW + until, bytes as u64);
    limit
}

#[test]
fn as_long_as_each_of_many_streams_as_fast_as_each_of_few_it_goes_on() {
    // By Little's law twice as many wait as stream.
    assert_eq!(second(48, 20.0, 270 * MS).allowed(), 256, "32 times the first number, and not 2 x 3 x 48");
    let limit = second(36, 20.0, 270 * MS);
    assert!((limit.level / 216.0 - 1.0).abs() < 0.01 && limit.is_untried(), "{limit:?}");
    assert!(limit.in_flight() == 48, "before any of them has ended");
    // 15 MiB are three quarters of 20.
    let level = second(48, 15.01, 270 * MS).level;
    assert!((level / (2.0 * 2.501 * 48.0) - 1.0).abs() < 0.01, "{level}");
    // Or the network is what limits, and it is searched on from there.
    assert!(near(second(48, 14.9, 270 * MS).level, 48.0));
}

#[test]
fn few_that_stream_and_a_moment_say_nothing() {
    for (streaming, until, leaps) in
        [(24, 270 * MS, true), (23, 270 * MS, false), (48, 269 * MS, false), (24, 269 * MS, false)]
    {
        let limit = second(streaming, 20.0, until);
        assert_eq!(limit.level > 50.0, leaps, "{streaming} until {until:?}: {limit:?}");
    }
}

#[test]
fn once_others_hold_them_up_or_a_round_is_judged_it_is_over() {
    let mut limit = second(48, 10.0, 270 * MS);
    limit.delivered(NOW + 300 * MS, 200 * MIB);
    assert!(near(limit.level, 48.0), "{limit:?}");

    // It goes on in the same way, and each is compared with the first ones.
    let again = |each: f64| {
        let mut limit = second(24, 16.0, 270 * MS);
        let (before, sent) = (limit.level, NOW + 271 * MS);
        send(&mut limit, sent, 96, 100);
        let mut judged = limit.clone();
        judged.phase = Phase::Hold;
        let bytes = (2.0 * each * MIB as f64) as u64;
        limit.delivered(sent + 120 * MS, bytes);
        judged.delivered(sent + 120 * MS, bytes);
        assert!(near(judged.level, before), "{judged:?}");
        limit.level > before
    };
    assert!(again(20.0) && again(15.1) && !again(14.9));
}

#[test]
fn what_came_together_is_told_once() {
    let mut limit = new(1_000);
    first(&mut limit, 8, MIB, 100 * MS, 50 * MS);
    let rate = limit.take_burst().expect("it was found");
    assert!(near(rate, 8.0 * MIB as f64 / 0.05), "{rate}");
    assert_eq!(limit.take_burst(), None);
    let rate =
        second(48, 10.0, 270 * MS).take_burst().expect("it was found, though it is no reason for more");
    assert!((rate / (480.0 * MIB as f64) - 1.0).abs() < 0.01, "{rate}");
}

#[test]
fn what_was_sent_before_says_nothing_of_the_higher_level() {
    let mut limit = new(1_000);
    let fetch = coming(&mut limit, 10, MIB, 100 * MS, 50 * MS);
    (0..8).for_each(|_| limit.finished(NOW + 150 * MS, &fetch));
    let level = limit.level;
    // Many that are as old as those have their first bytes only now.
    limit.streaming(NOW + 160 * MS, 40);
    limit.answered(NOW, 160 * MS);
    limit.delivered(NOW + 180 * MS, 16 * MIB);
    assert!(near(limit.level, level), "{limit:?}");
}

#[test]
fn how_many_streamed_at_which_time_counts() {
    // Half of them stream twice as long as the others.
    let mut limit = second(24, 0.0, 260 * MS);
    limit.streaming(NOW + 270 * MS, 48);
    limit.delivered(NOW + 280 * MS, (20.0 * MIB as f64 * (0.24 + 0.48)) as u64);
    assert_eq!(limit.allowed(), 256, "each has brought as much as the first ones: {limit:?}");
}

#[test]
fn before_a_mebibyte_has_come_it_is_not_over() {
    let mut limit = second(48, 1.0, 270 * MS);
    let level = limit.level;
    limit.delivered(NOW + 300 * MS, 48 * 20 * MIB * 40 / 1_000);
    assert!(limit.level > level, "{limit:?}");
}
