//! What was known another time: how many fetches that are, of one size and of another.

use super::resting::{LATENCY, MS, NOW, SIZE, near, round, send};
use super::{Limit, Phase, Tuning};

const RATE: f64 = 400e6;

fn needed(bytes: f64) -> f64 {
    RATE * (0.1 / bytes + 4e-9)
}

/// Told of an endpoint with 100 ms and 250 MB/s a connection, where fetches of a million bytes are sent.
fn told(most: usize) -> Limit {
    let mut limit = Limit::new(Tuning::default(), most);
    limit.recall(NOW, RATE, 0.1, 4e-9, 1e6);
    limit
}

#[test]
fn it_begins_with_what_the_rate_needs_of_fetches_of_that_size() {
    let limit = told(1000);
    assert!(near(limit.base, limit.staffed(needed(1e6))) && near(limit.level, limit.base), "{limit:?}");
    assert!(matches!(limit.phase, Phase::Grow { before: None, first: true, back } if near(back, limit.base)));
    assert_eq!((limit.unloaded(), limit.fresh, limit.allowed()), (Some((0.1, 4e-9)), false, 52));
    assert_eq!(told(30).allowed(), 30, "never more than it may");
}

#[test]
fn as_many_bytes_stay_in_flight_when_fetches_become_larger_or_smaller() {
    let mut limit = told(1000);
    limit.phase = Phase::Grow { back: 30.0, before: Some(round(40.0, 1.0)), first: true };
    let (base, level) = (limit.base, 2.0 * limit.base);
    limit.level = level;
    for bytes in [4e6, 8e6, 2e6, 1e6] {
        limit.averaged(NOW + MS, bytes);
        let share = needed(bytes) / needed(1e6);
        assert!(near(limit.base, base * share) && near(limit.level, level * share), "{bytes}: {limit:?}");
        assert!(matches!(limit.phase, Phase::Grow { back, .. } if near(back, 30.0 * share)), "{limit:?}");
    }
}

#[test]
fn in_its_first_round_it_is_what_the_rate_needs_of_fetches_of_the_size_they_have() {
    let mut limit = told(1000);
    for bytes in [4e6, 8e6] {
        limit.averaged(NOW + MS, bytes);
        let level = limit.staffed(needed(bytes));
        assert!(near(limit.base, level) && near(limit.level, level), "{bytes}: {limit:?}");
        assert!(matches!(limit.phase, Phase::Grow { back, .. } if near(back, level)), "{limit:?}");
    }
}

/// Eight times the first number is not all that this network needs of small fetches, but of large ones it is more.
#[test]
fn what_is_known_is_bounded_by_number_whatever_the_size() {
    let (most, rate) = (8.0 * Tuning::default().first, 4.0 * RATE);
    let mut limit = Limit::new(Tuning::default(), 1000);
    limit.recall(NOW, rate, 0.1, 4e-9, 1e6);
    assert!(near(limit.level, most), "{limit:?}");
    limit.averaged(NOW + MS, 2e6);
    assert!(near(limit.level, most), "{limit:?}");
    limit.averaged(NOW + MS, 8e6);
    let level = limit.staffed(4.0 * needed(8e6));
    assert!(level < most && near(limit.level, level), "{level}, {limit:?}");
    limit.averaged(NOW + MS, 1e6);
    assert!(near(limit.level, most), "as many bytes of small ones would be more: {limit:?}");
}

/// Where eight are more than is known to be needed, they stay as many bytes, down to what is needed.
#[test]
fn who_begins_with_more_than_is_known_does_not_have_as_many_large_ones() {
    let mut limit = Limit::new(Tuning::default(), 1000);
    limit.recall(NOW, RATE / 100.0, 0.1, 4e-9, 1e6);
    assert!(near(limit.level, 8.0), "{limit:?}");
    limit.averaged(NOW + MS, 2e6);
    assert!(near(limit.level, 8.0 * needed(2e6) / needed(1e6)), "{limit:?}");
    limit.averaged(NOW + MS, 8e6);
    assert!(near(limit.level, limit.staffed(needed(8e6) / 100.0)) && limit.level < 2.0, "{limit:?}");
}

/// So many fetches of a million bytes are sent at a level that was known, and each brings this many bytes per second from 100 ms on.
fn coming(count: usize, each: f64) -> Limit {
    let mut limit = told(1000);
    limit.flying(1e6);
    send(&mut limit, NOW, count, count);
    limit.delivered(NOW + 110 * MS, (count as f64 * each / 100.0) as u64);
    limit
}

/// It is known of one connection that it brings 250 MB/s.
#[test]
fn where_many_stream_as_fast_as_one_alone_it_goes_on_from_what_they_bring() {
    for (count, each, level) in
        [(52, 250e6, 256.0), (52, 188e6, 256.0), (52, 187e6, 52.0), (12, 250e6, 256.0), (11, 250e6, 52.0)]
    {
        let limit = coming(count, each);
        assert_eq!(
            (limit.allowed() as f64, limit.is_untried()),
            (level, true),
            "{count} of {each}: {limit:?}"
        );
    }
    // What the rate needs that was known another time is not what counts then.
    let mut limit = coming(52, 250e6);
    limit.averaged(NOW + 120 * MS, 8e6);
    assert_eq!(limit.allowed(), 256);
}

#[test]
fn a_little_larger_or_smaller_is_as_large() {
    for (share, follows) in [(0.79, true), (0.81, false), (1.24, false), (1.26, true)] {
        let mut limit = told(1000);
        // It was measured.
        limit.phase = Phase::Grow { back: limit.base, before: Some(round(40.0, 1.0)), first: true };
        let (base, began) = (limit.base, limit.round.began);
        // As many bytes as need so many times the fetches.
        limit.averaged(NOW + MS, 0.1 / (share * (0.1 / 1e6 + 4e-9) - 4e-9));
        let expected = if follows { base * share } else { base };
        assert!(near(limit.base, expected), "{share}: {limit:?}");
        assert_eq!(limit.round.began != began, follows, "a round is of one level");
    }
}

#[test]
fn the_level_is_its_own_once_it_was_found() {
    let mut limit = told(1000);
    limit.hold(NOW, 40.0);
    limit.phase = Phase::Grow { back: 40.0, before: None, first: true };
    limit.averaged(NOW + MS, 8e6);
    assert!(near(limit.level, 40.0), "{limit:?}");
    // Who was told nothing takes sizes as they come.
    let mut limit = Limit::new(Tuning::default(), 1000);
    limit.baseline.latency = Some(LATENCY);
    limit.averaged(NOW, SIZE);
    limit.averaged(NOW, 8.0 * SIZE);
    assert_eq!(limit.allowed(), 8);
}
