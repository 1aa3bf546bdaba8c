//! What ends a round, what it counts, and what a fetch of another size changes.

use std::time::Duration;

use super::resting::{EACH, LATENCY, MS, NOW, SIZE, arrived, near, resting, rests_at, round, trying};
use super::round::Baseline;
use super::{Finished, Limit, Phase};

/// One of those under way has ended, after this time; another is sent.
fn ended(limit: &mut Limit, now: Duration, duration: Duration) {
    limit.finished(now, &Finished { started: NOW, bytes: SIZE as u64, latency: duration / 2, duration });
    limit.started(now);
}

/// A round at rest of which nothing was judged so far, of fetches that take so long.
fn begun(base: f64, duration: Duration) -> Limit {
    Limit { duration: Some(duration.as_secs_f64()), ..arrived(base) }
}

fn is_judged(limit: &Limit) -> bool {
    limit.reference.is_some()
}

#[test]
fn a_round_is_over_when_as_many_have_ended_as_are_allowed_and_it_was_not_too_short() {
    for (base, fetches, at, over) in [
        (10.0, 9, 60, false),
        (10.0, 10, 60, true),
        (10.0, 10, 59, false),
        (2.0, 5, 60, false),
        (2.0, 6, 60, true),
        (30.0, 29, 60, false),
        (30.0, 30, 60, true),
    ] {
        let mut limit = begun(base, 40 * MS);
        (0..fetches).for_each(|_| ended(&mut limit, NOW + at * MS, 40 * MS));
        assert_eq!(is_judged(&limit), over, "{fetches} of {base} after {at} ms");
        assert_eq!(limit.round.began == NOW + at * MS, over, "and the next begins");
    }
}

#[test]
fn trials_and_steps_of_growing_are_over_after_half_as_many_and_growing_is_judged_sooner() {
    let before = Some(round(10.0, 1.0));
    let grow = |before| Phase::Grow { back: 8.0, before, first: true };
    for (phase, fetches, at, over) in [
        (Phase::Up, 9, 60, false),
        (Phase::Up, 10, 60, true),
        (Phase::Up, 10, 59, false),
        (grow(before), 9, 20, false),
        (grow(before), 10, 20, true),
        (grow(before), 10, 19, false),
        (grow(None), 19, 20, false),
        (grow(None), 20, 20, true),
        (Phase::Down { proposed: true }, 19, 60, false),
        (Phase::Down { proposed: true }, 20, 60, true),
    ] {
        // No longer than any of these rounds: one that seems to bring nothing may be a lull else.
        let mut limit = Limit { duration: Some(0.015), ..trying(20.0, 20.0, phase) };
        (0..fetches).for_each(|_| ended(&mut limit, NOW + at * MS, 15 * MS));
        assert_eq!(limit.round.began > NOW, over, "{phase:?}: {fetches} after {at} ms");
    }
}

#[test]
fn where_fetches_are_slow_a_round_is_over_after_a_while_and_two_latencies_if_anything_came() {
    let long = |latency: Duration, answered: Option<Duration>, bytes, after: Duration| {
        let mut limit = begun(10.0, 10_000 * MS);
        limit.latency = latency.as_secs_f64();
        answered.into_iter().for_each(|latency| limit.round.answered(NOW, latency.as_secs_f64()));
        limit.delivered(NOW + after, bytes);
        is_judged(&limit)
    };
    let quick = 20 * MS;
    assert_eq!([299, 300].map(|after| long(quick, None, 1, after * MS)), [false, true]);
    assert!(!long(quick, None, 0, 1_000 * MS), "nothing came");
    assert_eq!([399, 401].map(|after| long(200 * MS, None, 1, after * MS)), [false, true]);
    assert_eq!([399, 401].map(|after| long(quick, Some(200 * MS), 1, after * MS)), [false, true]);
    // The first of all may take three times as long.
    for (after, over) in [(899, false), (900, true)] {
        let phase = Phase::Grow { back: 10.0, before: None, first: true };
        let mut limit = Limit { duration: Some(10.0), ..trying(10.0, 10.0, phase) };
        limit.delivered(NOW + after * MS, 1);
        assert_eq!(limit.round.began > NOW, over, "{after}");
    }
    // One that ended by time alone does not say what unloaded fetches take.
    let mut limit = begun(10.0, 10_000 * MS);
    (0..6).for_each(|_| {
        limit
            .round
            .finished(&Finished { started: NOW, bytes: SIZE as u64, latency: MS, duration: 2 * MS }, 0.001)
    });
    limit.delivered(NOW + 300 * MS, 1);
    assert!(is_judged(&limit) && limit.baseline.latency == Some(LATENCY));
}

#[test]
fn the_first_search_measures_from_when_readers_want_as_much_as_is_allowed() {
    // So many are under way for 100 ms; then one after the other is sent until there are so many.
    let began = |phase, few: usize, many: usize| {
        let mut limit = Limit { in_flight: few, ..trying(8.0, 8.0, phase) };
        for _ in few..many {
            limit.started(NOW + 100 * MS);
        }
        limit.round.began - NOW
    };
    let first = Phase::Grow { back: 8.0, before: None, first: true };
    assert_eq!(began(first, 1, 8), 100 * MS);
    assert_eq!(began(first, 3, 8), 100 * MS);
    assert_eq!(began(first, 1, 7), Duration::ZERO, "they do not");
    assert_eq!(began(first, 4, 8), Duration::ZERO, "they did for half of what is allowed: that counts");
    assert_eq!(began(first, 8, 9), Duration::ZERO, "they have, all the time");
    assert_eq!(
        began(Phase::Grow { back: 8.0, before: Some(round(4.0, 1.0)), first: true }, 1, 8),
        Duration::ZERO
    );
    assert_eq!(began(Phase::Hold, 1, 8), Duration::ZERO);
}

#[test]
fn a_lower_level_that_is_not_reached_in_two_fetches_time_was_not_tried() {
    let unsettled = |phase, duration: Duration| {
        let mut limit = Limit { duration: Some(duration.as_secs_f64()), ..resting(100.0) };
        limit.phase = phase;
        limit.set_level(NOW, 50.0);
        assert!(!limit.round.settled);
        limit
    };
    for (duration, least) in [(100 * MS, 200), (5 * MS, 40)] {
        for (after, tried) in [(least, true), (least + 1, false)] {
            let mut limit = unsettled(Phase::Down { proposed: true }, duration);
            limit.delivered(NOW + after * MS, 1);
            assert_eq!(limit.phase != Phase::Hold, tried, "{duration:?} {after}");
            assert_eq!(limit.level, if tried { 50.0 } else { 100.0 });
        }
    }
    // At rest, what hangs must not hold up everything.
    for (duration, least) in [(100 * MS, 300), (200 * MS, 400)] {
        for (after, settled) in [(least, false), (least + 1, true)] {
            let mut limit = unsettled(Phase::Hold, duration);
            let due = limit.down_due;
            limit.last_bytes = NOW + after * MS;
            limit.delivered(NOW + after * MS, 1);
            assert_eq!((limit.round.settled, limit.down_due), (settled, due), "{duration:?} {after}");
            assert!(limit.reference.is_some());
        }
    }
}

#[test]
fn on_the_way_down_one_is_sent_for_every_two_that_end_until_it_is_there() {
    let mut limit = resting(20.0);
    limit.set_level(NOW, 10.0);
    assert_eq!((limit.allowed(), limit.round.settled), (20, false));
    let mut in_flight = 20;
    for ended in 1..=9 {
        limit.cancelled(NOW + MS);
        in_flight -= 1;
        assert_eq!((limit.in_flight(), limit.round.settled), (in_flight, false));
        assert_eq!(limit.allowed(), (20.0 - 0.5 * f64::from(ended)).round() as usize);
    }
    limit.cancelled(NOW + 2 * MS);
    assert!(limit.round.settled && limit.round.began == NOW + 2 * MS, "ten are under way");
    // From then on a round counts what ends, and is not begun anew.
    limit.cancelled(NOW + 3 * MS);
    assert_eq!(limit.round.began, NOW + 2 * MS);
    for (in_flight, settled) in [(10, true), (11, false)] {
        let mut limit = Limit { in_flight, ..resting(20.0) };
        limit.set_level(NOW, 10.0);
        assert_eq!((limit.round.settled, limit.allowed()), (settled, if settled { 10 } else { 11 }));
    }
    // A fraction of one does not matter.
    let mut limit = Limit { in_flight: 10, ..resting(20.0) };
    limit.set_level(NOW, 9.6);
    assert!(limit.round.settled);
}

#[test]
fn of_a_trial_upward_bytes_count_from_when_first_bytes_may_come() {
    let up = |in_flight| {
        let mut limit = Limit { in_flight, latency: 0.03, phase: Phase::Up, ..resting(20.0) };
        limit.set_level(NOW, 25.0);
        (limit.round.from, limit.round.settled)
    };
    assert_eq!(up(20), (NOW + 30 * MS, true));
    assert_eq!(up(40), (NOW, false), "more than that are under way");
    let mut limit = Limit { latency: 0.03, ..resting(20.0) };
    limit.set_level(NOW, 25.0);
    assert_eq!((limit.round.from, limit.round.settled), (NOW, true), "at rest all of them do");
}

#[test]
fn what_came_before_a_silence_says_nothing() {
    let stall = resting(1.0).tuning.stall;
    for (duration, silence) in [(40 * MS, stall), (100 * MS, 400 * MS)] {
        for (after, counts) in [(silence, true), (silence + MS, false)] {
            let mut limit = begun(10.0, duration);
            limit.delivered(NOW + after, 1_000);
            assert_eq!(limit.round.began == NOW || is_judged(&limit), counts, "{duration:?} {after:?}");
            // A trial ends where it began.
            let mut limit = Limit { duration: Some(duration.as_secs_f64()), ..trying(10.0, 13.0, Phase::Up) };
            limit.delivered(NOW + after, 0);
            assert_eq!(limit.phase == Phase::Up, counts);
            assert_eq!(limit.level, if counts { 13.0 } else { 10.0 });
            // Where nothing comes at all, failures do not cut.
            let mut limit = Limit { duration: Some(duration.as_secs_f64()), ..resting(10.0) };
            (0..5).for_each(|_| limit.failed(NOW + after, NOW, crate::backoff::Failure::Transient));
            assert_eq!(limit.base < 10.0, counts);
        }
    }
    let mut limit = trying(10.0, 8.0, Phase::Down { proposed: true });
    limit.delivered(NOW + 10 * stall, 1);
    assert_eq!((limit.phase, limit.level), (Phase::Hold, 10.0));
}

/// What had come before it is read then, so that readers want less for a while.
#[test]
fn that_fetches_took_as_long_as_a_stall_is_not_their_number() {
    let end = NOW + 5_000 * MS;
    let mut limit = resting(20.0);
    limit.delivered(end, 1);
    for _ in 0..20 {
        limit.finished(end, &Finished { started: NOW, bytes: SIZE as u64, latency: MS, duration: end - NOW });
    }
    (0..10).for_each(|_| limit.started(end));
    limit.delivered(end + 60 * MS, (20.0 * EACH * 0.06) as u64);
    for _ in 0..20 {
        limit.started(end + 60 * MS);
        limit.finished(
            end + 60 * MS,
            &Finished { started: end, bytes: SIZE as u64, latency: 20 * MS, duration: 40 * MS },
        );
    }
    assert_eq!((limit.phase, limit.base), (Phase::Hold, 20.0));
}

#[test]
fn a_pause_in_which_nothing_is_under_way_is_no_part_of_a_round() {
    let stall = resting(1.0).tuning.stall;
    for (in_flight, after, anew) in [(0, stall + MS, true), (0, stall, false), (1, 10 * stall, false)] {
        let mut limit = Limit { in_flight, ..arrived(10.0) };
        limit.started(NOW + after);
        assert_eq!(limit.round.began > NOW, anew, "{in_flight} {after:?}");
        assert_eq!(limit.in_flight(), in_flight + 1);
        // Nor is it a silence that what is sent now has to wait for.
        limit.delivered(NOW + after + stall, 0);
        assert_eq!(limit.round.began > NOW + after, in_flight > 0);
    }
}

#[test]
fn what_is_counted_is_how_many_were_under_way_and_streamed_until_it_changed() {
    let mut limit = Limit { in_flight: 0, ..arrived(10.0) };
    // Two for 10 ms, one of which streams in the second half; then one; then none.
    limit.started(NOW);
    limit.started(NOW);
    limit.streaming(NOW + 5 * MS, 1);
    limit.cancelled(NOW + 10 * MS);
    limit.delivered(NOW + 20 * MS, 500);
    limit.cancelled(NOW + 20 * MS);
    let measure = limit.round.measure(NOW + 20 * MS, 0);
    assert!(
        near(measure.level, 1.5) && near(measure.streaming, 0.75) && near(measure.rate, 25_000.0),
        "{measure:?}"
    );
}

#[test]
fn how_long_fetches_and_first_bytes_take_lately_are_means_of_which_the_newest_count_most() {
    let mut limit = Limit { baseline: Baseline::default(), ..resting(50.0) };
    assert_eq!(limit.duration(), Duration::ZERO);
    ended(&mut limit, NOW, 100 * MS);
    assert_eq!(limit.duration(), 100 * MS);
    ended(&mut limit, NOW, 260 * MS);
    assert_eq!(limit.duration(), 110 * MS);
    limit.answered(NOW, 80 * MS);
    assert!(near(limit.latency, 0.01));
    limit.answered(NOW, 90 * MS);
    assert!(near(limit.latency, 0.02));
    assert!(limit.round.latency().is_some_and(|latency| near(latency, 0.085)));
}

#[test]
fn one_slow_first_byte_counts_for_eight_usual_ones() {
    for (latency, counts) in [(160 * MS, 0.16), (161 * MS, 0.161), (5_000 * MS, 0.161)] {
        let mut limit = resting(50.0);
        limit.answered(NOW, latency);
        assert!(near(limit.round.latency().expect("one"), counts));
        limit.finished(NOW, &Finished { started: NOW, bytes: 1, latency, duration: latency });
        assert!(near(limit.round.measure(NOW + MS, 0).durations, counts));
    }
    let mut limit = Limit { baseline: Baseline::default(), ..resting(50.0) };
    limit.answered(NOW, 5_000 * MS);
    assert!(near(limit.round.latency().expect("one"), 5.0), "nothing is usual yet");
}

#[test]
fn noise_is_a_mean_of_changes_of_which_a_large_one_is_no_noise() {
    let mut limit = resting(50.0);
    for (change, noise) in [(0.1, 0.02), (-0.1, 0.036), (5.0, 0.0888), (0.0, 0.07104)] {
        limit.note(change);
        assert!(near(limit.noise, noise), "{change}: {}", limit.noise);
    }
}

#[test]
fn a_level_is_the_knee_and_slack_of_the_order_of_its_root() {
    let limit = resting(50.0);
    assert_eq!([1.0, 16.0, 100.0].map(|knee| limit.staffed(knee)), [3.5, 23.0, 116.0]);
    assert!(limit.knee(&round(30.0, 2.5)).is_some_and(|knee| near(knee, 12.0)));
    assert!(limit.knee(&round(30.0, 0.5)).is_some_and(|knee| near(knee, 30.0)), "no more than there are");
    assert_eq!(Limit { baseline: Baseline::default(), ..resting(50.0) }.knee(&round(30.0, 2.5)), None);
    assert_eq!(limit.unloaded(), Some((LATENCY, LATENCY / SIZE)));
}

#[test]
fn the_best_lately_needs_as_many_as_come_during_a_fetch() {
    let mut limit = resting(50.0);
    assert_eq!(limit.for_best(&round(50.0, 1.0), 0.0), None);
    limit.could(Some((30.0 * EACH) as u64), Some(SIZE));
    let needs = |latency: f64, bytes: f64| 30.0 * EACH * (latency + LATENCY / SIZE * bytes) / bytes;
    for (mean, latency, expected) in [
        (SIZE, 0.0, needs(LATENCY, SIZE)),
        (SIZE, 0.1, needs(0.1, SIZE)),
        (4.0 * SIZE, 0.0, needs(LATENCY, 4.0 * SIZE)),
        (SIZE / 4.0, 0.0, needs(LATENCY, SIZE)),
    ] {
        let measure = super::round::Measure { bytes: 100.0 * mean, ..round(50.0, 1.0) };
        assert!(limit.for_best(&measure, latency).is_some_and(|level| near(level, limit.staffed(expected))));
    }
}

/// Twice as many bring a tenth more so far, which is less than a third of what would be worth it; or more.
#[test]
fn that_growing_brings_nothing_is_believed_after_the_time_of_a_fetch() {
    let before = round(10.0, 1.0);
    for (times, at, over) in [(1.09, 50, false), (1.09, 99, false), (1.09, 100, true), (1.11, 50, true)] {
        let phase = Phase::Grow { back: 8.0, before: Some(before), first: true };
        let mut limit = Limit { duration: Some(0.1), ..trying(20.0, 20.0, phase) };
        limit.delivered(NOW, (before.rate * times * at as f64 / 1e3) as u64);
        (0..10).for_each(|_| ended(&mut limit, NOW + at * MS, 100 * MS));
        assert_eq!(limit.round.began > NOW, over, "{times} after {at} ms");
    }
}

/// After fetches of a million bytes, those that are sent have so many.
fn sized(mut limit: Limit, bytes: f64) -> Limit {
    limit.sized(NOW, bytes);
    limit
}

#[test]
fn of_larger_fetches_fewer_are_needed_at_once() {
    let needs = |rate: f64, latency: f64, bytes: f64| {
        resting(1.0).staffed(rate * (latency + LATENCY / SIZE * bytes) / bytes)
    };
    let limit = sized(resting(100.0), 1e7);
    assert!(rests_at(&limit, needs(100.0 * EACH, LATENCY, 1e7)), "{limit:?}");
    // Of less than twice as large ones it is not worth it.
    let high = || Limit { base: 200.0, ..resting(100.0) };
    assert_eq!((sized(high(), 1.99e6).base, sized(high(), 2.01e6).base < 100.0), (200.0, true));
    // Nor if it is less than three tenths of it.
    let needed = needs(100.0 * EACH, LATENCY, 1e7);
    for (base, lower) in [(needed / 0.69, true), (needed / 0.71, false)] {
        assert_eq!(rests_at(&sized(Limit { base, ..resting(100.0) }, 1e7), needed), lower, "{base}");
    }
    // Readers may have wanted less than there is, and first bytes may take longer by now.
    let limit = sized(Limit { best: Some((110.0 * EACH, SIZE)), base: 150.0, ..resting(100.0) }, 1e7);
    assert!(rests_at(&limit, needs(110.0 * EACH, LATENCY, 1e7)));
    let limit = sized(Limit { best: Some((90.0 * EACH, SIZE)), ..resting(100.0) }, 1e7);
    assert!(rests_at(&limit, needs(100.0 * EACH, LATENCY, 1e7)));
    let limit = sized(Limit { latency: 0.04, base: 150.0, ..resting(100.0) }, 1e7);
    assert!(rests_at(&limit, needs(100.0 * EACH, 0.04, 1e7)));
    // Where all that ended was small, how long a large one takes is not known.
    let mut unknown = resting(100.0);
    unknown.baseline.per_byte = None;
    assert_eq!(sized(unknown, 1e7).base, 100.0);
}

#[test]
fn the_first_search_and_the_way_down_take_sizes_as_they_come() {
    let before = Some(round(50.0, 1.0));
    let grow = |before| Phase::Grow { back: 50.0, before, first: true };
    for (phase, lower) in [
        (grow(None), false),
        (Phase::Down { proposed: false }, false),
        (grow(before), true),
        (Phase::Up, true),
        (Phase::Hold, true),
    ] {
        let limit = sized(trying(100.0, 100.0, phase), 1e7);
        assert_eq!(limit.base < 100.0, lower, "{phase:?}");
    }
}

#[test]
fn no_fewer_than_the_least_and_no_more_than_the_most_are_allowed() {
    let mut limit = Limit { most: 20.0, ..resting(10.0) };
    limit.set_least(15);
    assert_eq!(limit.allowed(), 15);
    limit.set_least(0);
    assert_eq!(limit.allowed(), 10);
    limit.set_least(50);
    assert_eq!(limit.allowed(), 20);
}
