//! What a round says of the level it was at: which level follows, in each phase, on either side of each threshold.

use super::resting::{
    EACH, LATENCY, MS, NOW, SIZE, arrived, faster, near, resting, rests_at, round, slowdown_for, trying,
};
use super::round::{Baseline, Measure};
use super::{Limit, Phase};

fn judged(mut limit: Limit, measure: Measure) -> Limit {
    limit.judge(NOW, measure, true);
    limit
}

/// Growing from `before` to this level, with the base where it began.
fn growing(before: Measure, level: f64, first: bool) -> Limit {
    let phase = Phase::Grow { back: 8.0, before: Some(before), first };
    Limit { reference: None, held: None, ..trying(8.0, level, phase) }
}

fn grows(limit: &Limit) -> bool {
    matches!(limit.phase, Phase::Grow { .. })
}

/// A round in which fewer are in flight than are allowed.
fn fewer(level: f64, slowdown: f64, reference: f64, times: f64) -> Measure {
    Measure { rate: reference * times, ..round(level, slowdown) }
}

/// Where hardly a fetch ends within a round, what is in flight and the rate at which it comes say how long fetches take.
#[test]
fn that_they_queue_is_seen_before_they_have_ended() {
    let unfinished = |after, bytes| {
        let rate = 36.0 * EACH;
        let mut limit = Limit { reference: Some(rate), ..resting(100.0) };
        limit.flying(bytes);
        judged(limit, Measure { rate, finished: 3, after, ..round(60.0, 1.0) })
    };
    let limit = unfinished(LATENCY, SIZE);
    assert!(rests_at(&limit, limit.staffed(36.0)), "{limit:?}");
    let stays = |limit: &Limit| near(limit.base, 100.0);
    assert!(stays(&unfinished(LATENCY * 0.99, SIZE)), "some may have had no time to bring anything");
    assert!(stays(&unfinished(1.0, SIZE / 4.0)), "so little comes soon");
}

#[test]
fn where_fewer_than_allowed_are_in_flight_and_even_they_queue_no_more_are_allowed_than_they_need() {
    let reference = 100.0 * EACH;
    let unused = |slowdown, times| judged(resting(100.0), fewer(60.0, slowdown, reference, times));
    let limit = unused(1.6, 1.0);
    assert!(rests_at(&limit, limit.staffed(60.0 / 1.6)), "{limit:?}");
    assert!(rests_at(&unused(3.0, 1.0), 42.0), "but not far fewer than there are");
    // Not if they need not queue, nor if throughput has fallen as well.
    for (slowdown, times, lower) in
        [(1.51, 1.0, true), (1.49, 1.0, false), (1.6, 0.925, true), (1.6, 0.915, false)]
    {
        let limit = unused(slowdown, times);
        assert_eq!((limit.base < 100.0, limit.reference.is_none()), (lower, lower), "{slowdown} {times}");
    }
    // Nor if that is no fewer.
    let limit = judged(resting(10.0), fewer(8.9, 1.51, 10.0 * EACH, 1.0));
    assert_eq!((limit.base, limit.reference), (10.0, Some(10.0 * EACH)));
    // Where the throughput at rest was not measured yet, that of the rest before counts.
    let limit = judged(arrived(100.0), fewer(60.0, 1.6, reference, 1.0));
    assert!(limit.base < 100.0);
    // While growing, that of the step before.
    for (times, lower) in [(0.93, true), (0.91, false)] {
        let before = round(16.0, 1.0);
        let limit = judged(growing(before, 32.0, true), fewer(20.0, 2.0, before.rate, times));
        assert_eq!(limit.phase == Phase::Hold, lower);
    }
}

#[test]
fn a_trial_that_is_not_used_ends_at_what_is_enough_or_where_it_is_or_where_it_began() {
    let trial = |enough, after_drop| Limit { enough, after_drop, ..trying(100.0, 150.0, Phase::Up) };
    let idle = round(90.0, 1.0);
    assert!(rests_at(&judged(trial(Some(30.0), None), idle), 30.0));
    assert!(rests_at(&judged(trial(Some(30.0), Some(idle)), idle), 30.0));
    assert!(rests_at(&judged(trial(None, Some(idle)), idle), 150.0), "readers follow only now");
    let limit = judged(trial(None, None), idle);
    assert_eq!((limit.phase, limit.base, limit.level), (Phase::Hold, 100.0, 100.0));
    assert_eq!(limit.reference, Some(100.0 * EACH), "nothing was learned");
    // At rest there is no trial to end.
    for (enough, after_drop) in [(Some(30.0), None), (None, Some(idle)), (None, None)] {
        let limit = judged(Limit { enough, after_drop, ..resting(100.0) }, round(60.0, 1.0));
        assert_eq!((limit.base, limit.reference), (100.0, Some(100.0 * EACH)));
    }
}

#[test]
fn a_round_with_a_tenth_fewer_in_flight_than_are_allowed_is_the_readers() {
    for (allowed, level, judged_it) in
        [(100.0, 89.9, false), (100.0, 90.1, true), (2.0, 1.49, false), (2.0, 1.51, true)]
    {
        let limit = judged(arrived(allowed), round(level, 1.0));
        assert_eq!(limit.reference.is_some(), judged_it, "{level} of {allowed}");
    }
}

#[test]
fn how_long_unloaded_fetches_take_is_learned_only_from_rounds_of_which_all_that_was_sent_could_end() {
    let grow = |before| Phase::Grow { back: 8.0, before, first: true };
    let quick = |level| Measure { latencies: 50.0 * LATENCY, ..round(level, 0.75) };
    let before = Some(round(8.0, 1.0));
    for (phase, counted, skip, learns) in [
        (Phase::Hold, true, 0, true),
        (Phase::Hold, false, 0, false),
        (Phase::Hold, true, 1, false),
        (Phase::Down { proposed: false }, true, 0, true),
        (grow(None), true, 0, true),
        (grow(None), false, 0, false),
        (Phase::Up, true, 0, false),
        (grow(before), true, 0, false),
    ] {
        let mut limit = Limit { skip, ..trying(8.0, 8.0, phase) };
        limit.judge(NOW, quick(8.0), counted);
        let latency = limit.baseline.latency.expect("it is known");
        assert!(
            near(latency, if learns { LATENCY / 2.0 } else { LATENCY }),
            "{phase:?} {counted} {skip}: {latency}"
        );
    }
    // At rest, nothing is known that a round would be lower than.
    let limit = judged(Limit { baseline: Baseline::default(), ..arrived(8.0) }, round(8.0, 1.0));
    assert_eq!(limit.baseline.latency, None);
}

#[test]
fn the_first_round_at_another_level_is_passed_over_unless_it_is_hopeless() {
    let limit = judged(Limit { skip: 1, ..arrived(50.0) }, round(50.0, 1.0));
    assert_eq!((limit.skip, limit.reference), (0, None));
    assert!(judged(limit, round(50.0, 1.0)).reference.is_some());
    assert_eq!(judged(Limit { skip: 3, ..arrived(50.0) }, round(50.0, 1.0)).skip, 2);
    let down = |times| {
        let limit = Limit { skip: 1, ..trying(100.0, 50.0, Phase::Down { proposed: true }) };
        judged(limit, faster(round(50.0, 1.0), 2.0 * times))
    };
    assert!(matches!(down(0.86).phase, Phase::Down { .. }));
    assert_eq!(down(0.84).phase, Phase::Hold, "what is queued would only make it look better");
    // That holds for the way down alone.
    let limit = judged(Limit { skip: 1, ..resting(50.0) }, faster(round(50.0, 1.0), 0.5));
    assert_eq!((limit.skip, limit.reference), (0, Some(50.0 * EACH)));
}

#[test]
fn a_lower_level_that_readers_go_far_beyond_was_not_tried() {
    for (level, tried) in [(65.5, true), (66.5, false)] {
        let limit = judged(
            trying(100.0, 50.0, Phase::Down { proposed: true }),
            faster(round(level, 1.0), 100.0 / level),
        );
        assert_eq!((limit.phase, limit.base), (Phase::Hold, if tried { 50.0 } else { 100.0 }), "{level}");
        assert_eq!(limit.proposal_due > NOW, !tried, "it is to be tried later");
    }
    let limit = judged(arrived(100.0), round(150.0, 1.0));
    assert!(limit.reference.is_some(), "at rest that is no reason");
}

#[test]
fn growing_goes_on_while_the_knee_rises_by_a_share_of_what_the_level_does() {
    let before = round(8.0, 1.0);
    for (level, gain, pays) in
        [(16.0, 1.29, false), (16.0, 1.31, true), (24.0, 1.59, false), (24.0, 1.61, true)]
    {
        let measure = faster(round(level, level / 8.0 / gain), 1.5);
        let limit = judged(Limit { held: Some(before), ..growing(before, level, true) }, measure);
        assert_eq!(grows(&limit), pays, "{gain} at {level}");
        if pays {
            assert_eq!((limit.level, limit.base), (2.0 * level, 8.0));
            assert_eq!(limit.phase, Phase::Grow { back: 8.0, before: Some(measure), first: false });
        }
    }
}

/// Fetches become larger in the first search, so that more bytes come though more would only queue.
#[test]
fn the_first_search_ends_where_fetches_queue_though_more_came() {
    let before = round(8.0, 1.0);
    for (slowdown, pays, pays_later) in [(1.49, true, true), (1.51, false, true), (3.0, false, false)] {
        let measure = faster(round(32.0, slowdown), 1.5);
        let limit = judged(growing(before, 32.0, false), measure);
        assert_eq!(grows(&limit), pays, "{slowdown}");
        let level = limit.staffed(32.0 / slowdown).min(32.0);
        assert!(pays || rests_at(&limit, level) && limit.down_due > NOW, "{slowdown}: {limit:?}");
        // Later, what is known of unloaded fetches may be of before they became slower.
        let later = judged(Limit { held: Some(before), ..growing(before, 32.0, false) }, measure);
        assert_eq!(grows(&later), pays_later, "{slowdown}");
    }
}

/// That is seen before they have ended: what is in flight comes at the rate of the round, but what was added brings nothing for one latency.
#[test]
fn the_first_search_ends_where_hardly_one_has_ended() {
    let before = round(8.0, 1.0);
    let step = |level: f64, seconds: f64, bytes: f64| {
        let mut limit = growing(before, level, false);
        limit.flying(bytes);
        let measure = Measure { rate: 32.0 * EACH, finished: 3, after: 0.0, seconds, ..round(level, 1.0) };
        judged(limit, measure)
    };
    // Three quarters of the time brought all of it.
    let limit = step(80.0, 4.0 * LATENCY, SIZE);
    assert!(rests_at(&limit, limit.staffed(32.0 / 0.75)), "{limit:?}");
    assert!(grows(&step(62.0, 4.0 * LATENCY, SIZE)), "1.45 times as long");
    assert!(!grows(&step(66.0, 4.0 * LATENCY, SIZE)), "1.55 times");
    assert!(grows(&step(80.0, 1.9 * LATENCY, SIZE)), "so soon it cannot be told");
    assert!(grows(&step(80.0, 4.0 * LATENCY, SIZE / 4.0)), "so little comes soon");
}

#[test]
fn quick_fetches_deceive_where_throughput_has_hardly_grown() {
    let before = round(8.0, 1.0);
    // A third of what is worth growing for.
    for (level, rate, pays) in
        [(16.0, 1.09, false), (16.0, 1.11, true), (24.0, 1.19, false), (24.0, 1.21, true)]
    {
        let measure = Measure { rate: before.rate * rate, ..round(level, 1.0) };
        assert_eq!(grows(&judged(growing(before, level, true), measure)), pays, "{rate} at {level}");
    }
    // Where it is not known how long fetches take, throughput alone decides.
    for (rate, pays) in [(1.29, false), (1.31, true), (2.0, true)] {
        let limit = Limit { baseline: Baseline::default(), ..growing(before, 16.0, true) };
        assert_eq!(
            grows(&judged(limit, Measure { rate: before.rate * rate, ..round(16.0, 1.0) })),
            pays,
            "{rate}"
        );
    }
}

#[test]
fn where_hardly_more_are_in_flight_growing_ends_where_it_is() {
    for (wider, ends) in [(1.04, true), (1.06, false)] {
        let before = round(15.0 / wider, 1.0);
        let limit = judged(growing(before, 16.0, true), round(15.0, 1.0));
        assert_eq!((grows(&limit), rests_at(&limit, 16.0)), (!ends, ends), "{wider}");
    }
}

#[test]
fn where_growing_has_paid_nearly_in_full_the_endpoint_was_not_loaded() {
    let before = round(8.0, 1.0);
    for (gain, unloaded) in [(2.39, false), (2.41, true)] {
        let slowdown = 3.0 / gain;
        // All of what they take longer is before the first byte.
        let latency = 2.0 * LATENCY * slowdown - LATENCY;
        let measure = Measure { latencies: 100.0 * latency, ..round(24.0, slowdown) };
        let limit = judged(growing(before, 24.0, true), measure);
        assert!(grows(&limit));
        assert!(
            near(limit.baseline.latency.expect("known"), if unloaded { latency } else { LATENCY }),
            "{gain}"
        );
    }
}

#[test]
fn a_first_step_that_brings_nothing_is_taken_back_and_one_that_brings_little_is_taken_in_part() {
    let before = round(10.0, 1.0);
    for noise in [0.0, 0.1] {
        for (over, back) in [(0.045, true), (0.055, false)] {
            let gain = 1.0 + noise + over;
            let limit = Limit { noise, ..growing(before, 20.0, true) };
            let limit = judged(limit, faster(round(20.0, 2.0 / gain), 1.2 / gain));
            let part = limit.staffed(10.0 * gain);
            assert!(rests_at(&limit, if back { 8.0 } else { part }), "{gain}: {limit:?}");
        }
    }
    // Never beyond where it is, nor below where it began.
    let limit = judged(growing(round(16.0, 1.0), 18.0, true), faster(round(18.0, 1.125 / 1.03), 1.0));
    assert!(rests_at(&limit, 8.0));
    let limit = judged(growing(round(16.0, 1.0), 20.0, true), faster(round(20.0, 1.25 / 1.06), 1.0));
    assert!(rests_at(&limit, 20.0), "{limit:?}");
}

/// Later steps: from a round with this knee to one with that, at 32 and 64; what one fetch brought at best so that throughput is worth
/// so many of them.
fn later(knee_before: f64, knee: f64, paid: f64) -> Limit {
    let before = round(32.0, 32.0 / knee_before);
    let measure = Measure { rate: 1.2 * before.rate, ..round(64.0, 64.0 / knee) };
    let limit = growing(before, 64.0, false);
    judged(Limit { each: measure.rate / paid, ..limit }, measure)
}

#[test]
fn after_the_first_step_it_rests_at_the_knee_that_was_seen_or_where_growing_has_paid() {
    for (limit, knee) in [
        (later(18.0, 20.0, 10.0), 20.0),
        (later(25.0, 20.0, 10.0), 25.0),
        (later(18.0, 20.0, 30.0), 30.0),
        // It has paid up to the level before at most.
        (later(18.0, 20.0, 40.0), 32.0),
    ] {
        assert!(rests_at(&limit, limit.staffed(knee)), "{knee}: {limit:?}");
    }
    assert!(rests_at(&later(5.0, 5.5, 5.0), 0.6 * 32.0), "not far below the level before");
    let limit = judged(growing(round(52.0, 1.0), 64.0, false), faster(round(64.0, 64.0 / 55.0), 0.95));
    assert!(rests_at(&limit, 64.0), "nor above where it is: {limit:?}");
    // What the endpoint delivered at best needs more than that.
    for (best, level) in [(40.0, None), (200.0, Some(64.0)), (10.0, Some(limit.staffed(1.2 * 18.0)))] {
        let before = round(32.0, 32.0 / 18.0);
        let limit = Limit { best: Some((best * EACH, SIZE)), each: EACH, ..growing(before, 64.0, false) };
        let limit = judged(limit, Measure { rate: 1.2 * before.rate, ..round(64.0, 3.2) });
        assert!(rests_at(&limit, level.unwrap_or(limit.staffed(best))), "{best}: {limit:?}");
    }
}

#[test]
fn where_it_is_not_known_how_long_fetches_take_what_one_brought_at_best_says_how_many_are_needed() {
    for (gain, seen) in [(1.09, true), (1.11, false)] {
        let before = round(32.0, 1.6);
        let limit = Limit { baseline: Baseline::default(), ..growing(before, 64.0, false) };
        let measure = Measure { rate: before.rate * gain, ..round(64.0, 3.2) };
        let limit = judged(Limit { each: measure.rate / 30.0, ..limit }, measure);
        assert!(rests_at(&limit, if seen { limit.staffed(30.0) } else { 64.0 }), "{gain}: {limit:?}");
    }
}

/// In rounds in which hardly one has ended it is what comes that tells.
#[test]
fn where_what_comes_says_that_they_queue_growing_does_not_end_at_the_top() {
    for (rate, queues) in [(880e6, true), (900e6, false)] {
        let few = |level, rate| Measure { rate, finished: 3, ..round(level, 1.0) };
        let limit = Limit { flying: SIZE, ..growing(few(32.0, rate), 64.0, false) };
        let limit = judged(limit, few(64.0, 1.2 * rate));
        let knee = 1.2 * rate / EACH;
        assert!(rests_at(&limit, if queues { limit.staffed(knee) } else { 64.0 }), "{rate}: {limit:?}");
    }
}

#[test]
fn what_one_fetch_brings_at_best_while_growing_is_remembered() {
    let before = round(8.0, 1.0);
    let limit = judged(growing(before, 16.0, true), round(16.0, 1.25));
    assert!(near(limit.each, EACH / 1.25));
    let limit = judged(Limit { each: 2.0 * EACH, ..growing(before, 16.0, true) }, round(16.0, 1.25));
    assert!(near(limit.each, 2.0 * EACH), "no less than before");
    // Of less than one at a time as if there had been half a one.
    let mut limit = resting(8.0);
    limit.grow(NOW, 8.0, Measure { level: 0.25, rate: EACH, ..before }, true);
    assert!(near(limit.each, 2.0 * EACH));
    let limit = judged(Limit { each: 0.0, ..growing(before, 16.0, true) }, faster(round(16.0, 2.0), 1.0));
    assert!(near(limit.each, EACH / 2.0), "also when it does not pay");
}

#[test]
fn a_step_is_a_doubling_but_at_least_one_and_none_at_the_most() {
    let before = round(8.0, 1.0);
    let mut limit = resting(8.0);
    limit.grow(NOW, 8.0, before, true);
    assert_eq!(limit.level, 16.0);
    let mut limit = resting(4.0);
    limit.tuning.grow = 0.2;
    limit.grow(NOW, 4.0, before, true);
    assert_eq!(limit.level, 5.0);
    limit.level = 10.0;
    limit.grow(NOW, 4.0, before, true);
    assert_eq!(limit.level, 12.0);
    let mut limit = Limit { most: 16.0, ..growing(before, 16.0, true) };
    limit.grow(NOW, 8.0, before, true);
    assert!(rests_at(&limit, 16.0), "there are no more");
}

#[test]
fn a_level_that_is_twice_what_is_needed_is_halved_at_once() {
    for (needed, halved) in [(49.1, false), (48.9, true), (20.0, true)] {
        let measure = round(100.0, slowdown_for(100.0, needed));
        let limit = judged(arrived(100.0), measure);
        let expected = if halved { (Phase::Down { proposed: true }, 50.0) } else { (Phase::Hold, 100.0) };
        assert_eq!((limit.phase, limit.level, limit.base), (expected.0, expected.1, 100.0), "{needed}");
        assert_eq!(limit.reference, Some(measure.rate));
        assert_eq!(limit.held, Some(measure));
        let later = judged(Limit { proposal_due: NOW + MS, ..arrived(100.0) }, measure);
        assert_eq!(later.phase, Phase::Hold, "it was tried just now");
        let due = judged(Limit { proposal_due: NOW, ..arrived(100.0) }, measure);
        assert_eq!(due.phase, expected.0);
    }
    // But not where first bytes take that much longer, and the best lately needs more.
    let late = Measure { latencies: 100.0 * 5.0 * LATENCY, streaming: 100.0 / 6.0, ..round(100.0, 3.0) };
    for (best, level) in [(None, 50.0), (Some((40.0 * EACH, SIZE)), arrived(100.0).staffed(120.0))] {
        let limit = judged(Limit { best, up_wait: 2, ..arrived(100.0) }, late);
        assert!(near(limit.level, level), "{limit:?}");
    }
}

#[test]
fn throughput_that_jumps_starts_the_search_again() {
    for (noise, change, jumps) in
        [(0.0, 1.049, false), (0.0, 1.051, true), (0.03, 1.089, false), (0.03, 1.091, true)]
    {
        let limit = judged(Limit { noise, ..resting(50.0) }, faster(round(50.0, 1.0), change));
        assert_eq!(
            (grows(&limit), limit.level),
            (jumps, if jumps { 100.0 } else { 50.0 }),
            "{noise} {change}"
        );
        if jumps {
            assert!(
                near(limit.reference.expect("known"), change * 50.0 * EACH)
                    && near(limit.each, change * EACH)
            );
            assert!(near(limit.noise, noise + 0.2 * (change - 1.0 - noise)));
        }
    }
    let limit = judged(Limit { most: 50.0, ..resting(50.0) }, faster(round(50.0, 1.0), 1.2));
    assert_eq!((limit.phase, limit.reference.is_some()), (Phase::Hold, true), "there are no more");
}

#[test]
fn throughput_that_drops_is_looked_at_once_more() {
    for (noise, change, drops) in [
        (0.0, 0.921, false),
        (0.0, 0.919, true),
        (0.04, 0.881, false),
        (0.04, 0.879, true),
        (0.3, 0.41, false),
        (0.3, 0.39, true),
    ] {
        let limit = judged(Limit { noise, ..resting(50.0) }, faster(round(50.0, 1.0), change));
        assert_eq!((limit.phase, limit.base), (Phase::Hold, 50.0));
        assert_eq!((limit.reference.is_none(), limit.dropped.is_some()), (drops, drops), "{noise} {change}");
    }
    // With what it was before it is known what to do.
    let limit =
        judged(Limit { dropped: Some(round(50.0, 1.0)), ..arrived(50.0) }, faster(round(50.0, 1.0), 0.8));
    assert_eq!((limit.phase, limit.dropped, limit.level), (Phase::Up, None, 75.0));
}

#[test]
fn when_throughput_changes_what_was_tried_before_says_nothing_any_more() {
    for change in [0.8, 1.2] {
        let tried = Limit { holds: 5, down_step: 0.5, proposal_due: NOW + MS, ..resting(50.0) };
        let tried = Limit { down_wait: tried.tuning.down_rarest, ..tried };
        let limit = judged(tried, faster(round(50.0, 1.0), change));
        let new = Limit::new(limit.tuning, 8);
        assert_eq!((limit.holds, limit.up_wait, limit.proposal_due), (0, new.up_wait, new.proposal_due));
        assert_eq!((limit.down_step, limit.down_wait), (new.down_step, new.down_wait));
    }
}

#[test]
fn what_is_usual_at_rest_follows_slowly() {
    let measure = Measure { streaming: 1.0, ..faster(round(50.0, 1.0), 1.04) };
    let limit = judged(resting(50.0), measure);
    assert!(near(limit.reference.expect("known"), 1.01 * 50.0 * EACH));
    assert!(near(limit.noise, 0.2 * 0.04));
    assert_eq!(limit.held, Some(Measure { rate: 50.0 * EACH, ..measure }));
    assert_eq!(limit.holds, 1);
}

#[test]
fn where_nothing_is_known_of_fetches_a_level_that_throughput_needs_tells_how_long_they_take() {
    // Throughput needs 40 of what one brought at best: with slack, 50.5.
    let limit = |base: f64, each: f64| {
        let limit = Limit { baseline: Baseline::default(), each, ..resting(base) };
        judged(limit, round(base, 1.0))
    };
    let most = limit(10.0, 0.0).staffed(40.0) * 1.1 + 1.0;
    for (base, learns) in [(most - 0.1, true), (most + 0.1, false)] {
        assert_eq!(limit(base, base * EACH / 40.0).baseline.latency.is_some(), learns, "{base}");
    }
    assert_eq!(limit(30.0, 0.0).baseline.latency, None, "nothing is known of one");
    // Where something is known, that is not how it is lowered: many have to agree.
    let known = Limit { each: EACH, ..resting(50.0) };
    let limit = judged(known, Measure { latencies: 90.0 * LATENCY, finished: 100, ..round(50.0, 1.0) });
    assert!(near(limit.baseline.latency.expect("known"), 0.9 * LATENCY));
}

#[test]
fn a_level_well_above_what_is_needed_is_tried_to_be_lowered() {
    let excess = |needed: f64, times: f64, proposal_due| {
        let limit = Limit { proposal_due, ..resting(100.0) };
        let measure = round(100.0, slowdown_for(100.0, needed));
        judged(Limit { reference: Some(measure.rate), ..limit }, faster(measure, times))
    };
    let proposed = Phase::Down { proposed: true };
    for (needed, times, due, tried) in [
        (82.4, 1.0, NOW, true),
        (82.6, 1.0, NOW, false),
        (82.4, 1.0, NOW + MS, false),
        (82.4, 0.965, NOW, true),
        (82.4, 0.955, NOW, false),
    ] {
        let limit = excess(needed, times, due);
        assert_eq!(limit.phase == proposed, tried, "{needed} {times} {due:?}");
        assert!(near(limit.level, if tried { needed } else { 100.0 }));
    }
    assert_eq!(excess(20.0, 1.0, NOW).level, 50.0, "half of it at the least");
    // Where nothing is known of how long fetches take, throughput says what is needed.
    let limit = Limit { baseline: Baseline::default(), each: 2.5 * EACH, ..resting(100.0) };
    let limit = judged(limit, round(100.0, 1.0));
    assert!(limit.phase == proposed && near(limit.level, limit.staffed(40.0)), "{limit:?}");
}

#[test]
fn a_higher_level_is_tried_after_some_rounds_or_some_time() {
    let up = |limit: Limit| {
        let limit = judged(limit, round(100.0, 1.0));
        assert_eq!(limit.level, if limit.phase == Phase::Up { 125.0 } else { 100.0 });
        limit.phase == Phase::Up
    };
    for (holds, tried) in [(0, false), (1, true), (2, true)] {
        assert_eq!(up(Limit { up_wait: 2, holds, ..resting(100.0) }), tried, "{holds}");
    }
    let every = resting(1.0).tuning.up_every;
    for (holds, since, tried) in
        [(0, every, false), (1, every, true), (1, every - MS, false), (5, every - MS, false)]
    {
        assert_eq!(up(Limit { holds, up_tried: NOW - since, ..resting(100.0) }), tried, "{holds} {since:?}");
    }
}

#[test]
fn a_lower_level_is_tried_when_it_is_due_and_nothing_swings() {
    let down = |limit: Limit, expected: Option<f64>| {
        let base = limit.base;
        let limit = judged(limit, round(base, 1.0));
        let phase = expected.map_or(Phase::Hold, |_| Phase::Down { proposed: false });
        assert!(
            limit.phase == phase && near(limit.level, expected.unwrap_or(base)),
            "{expected:?}: {limit:?}"
        );
    };
    let due = |base| Limit { down_due: NOW, ..resting(base) };
    down(due(100.0), Some(90.0));
    down(Limit { down_due: NOW + MS, ..due(100.0) }, None);
    down(resting(100.0), None);
    // A quiet round makes what is known of noise four fifths.
    down(Limit { noise: 0.062, ..due(100.0) }, Some(90.0));
    down(Limit { noise: 0.063, ..due(100.0) }, None);
    // At least one fewer; and of two only if there is much to be gained.
    down(due(4.0), Some(3.0));
    down(due(2.6), Some(1.6));
    down(due(2.4), None);
    down(Limit { down_step: 0.5, ..due(2.4) }, Some(1.2));
    down(Limit { down_step: 0.9, ..due(100.0) }, Some(40.0));
}

#[test]
fn a_level_that_was_known_another_time_is_not_doubled_where_it_queues_already() {
    let first_round = |fresh, slowdown| {
        let phase = Phase::Grow { back: 40.0, before: None, first: true };
        let limit = Limit { fresh, reference: None, held: None, ..trying(40.0, 40.0, phase) };
        judged(limit, round(40.0, slowdown))
    };
    let limit = first_round(false, 1.6);
    assert!(rests_at(&limit, limit.staffed(25.0)), "{limit:?}");
    assert_eq!((limit.reference, limit.down_due), (None, NOW + limit.down_wait), "{limit:?}");
    // From 1.303 on: so many are needed for a knee of 40 / 1.303.
    assert!(!grows(&first_round(false, 1.31)));
    for (fresh, slowdown) in [(false, 1.29), (false, 1.0), (true, 1.6)] {
        let limit = first_round(fresh, slowdown);
        assert!(grows(&limit) && limit.level == 80.0, "{fresh} {slowdown} {limit:?}");
    }
}
