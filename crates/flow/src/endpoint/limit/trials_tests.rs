//! Trials of a higher and of a lower level: when they are made, how far they go, and what follows from what they bring.

use std::time::Duration;

use super::resting::{EACH, LATENCY, MS, NOW, SIZE, faster, known, near, resting, round, trying};
use super::round::Measure;
use super::{Limit, Phase};

/// After a drop of throughput from a round at rest: each fetch streams so many times as slowly, and so much of the throughput is left.
fn slower(level: f64, times: f64, left: f64) -> Measure {
    let before = round(level, 1.0);
    Measure { rate: left * before.rate, streaming: before.streaming * left * times, ..before }
}

#[test]
fn where_fetches_stream_far_more_slowly_than_before_what_comes_needs_fewer() {
    let before = round(100.0, 1.0);
    let enough_of = |mut limit: Limit, before, measure| {
        limit.answer_drop(NOW, before, measure);
        limit.enough
    };
    let enough = |times, left| enough_of(resting(100.0), before, slower(100.0, times, left));
    let limit = resting(100.0);
    // By Little's law, and with slack.
    assert!(enough(3.0, 0.2).is_some_and(|level| near(level, limit.staffed(20.0))));
    assert!(enough(3.0, 0.5).is_some_and(|level| near(level, limit.staffed(50.0))));
    // One and a half times one and a half.
    assert_eq!((enough(2.24, 0.2).is_some(), enough(2.26, 0.2).is_some()), (false, true));
    // No fewer than there are.
    assert_eq!(enough(3.0, 0.9), None);
    // Latency and bytes have their share.
    let slow = || Limit { baseline: known(0.3, 1e-7), ..resting(100.0) };
    let large = Measure { bytes: 2.0 * before.bytes, ..before };
    let level = enough_of(slow(), large, slower(100.0, 3.0, 0.04));
    assert!(
        level.is_some_and(|level| near(level, limit.staffed(4.0 * EACH * 0.5 / (2.0 * SIZE)))),
        "{level:?}"
    );
}

#[test]
fn throughput_of_which_less_than_half_is_left_collapses_though_fewer_are_in_flight() {
    let of = |limit: &Limit, left: f64| limit.collapsed(&Measure { level: 60.0, ..slower(100.0, 3.0, left) });
    let limit = resting(100.0);
    assert!(of(&limit, 0.49).is_some_and(|level| near(level, limit.staffed(49.0))));
    assert_eq!(of(&limit, 0.51), None);
    for phase in [Phase::Up, Phase::Down { proposed: true }] {
        assert_eq!(of(&Limit { phase, ..resting(100.0) }, 0.2), None, "during a trial it is not known why");
    }
    // It rests there.
    let mut limit = limit;
    limit.judge(NOW, Measure { level: 60.0, ..slower(100.0, 3.0, 0.2) }, true);
    assert!(near(limit.base, limit.staffed(20.0)) && limit.reference.is_none());
}

#[test]
fn where_fetches_wait_longer_for_first_bytes_more_are_needed() {
    let before = round(100.0, 1.0);
    // Three times as long; the bodies come as before.
    let now = |took: f64, times: f64, bytes: f64| Measure {
        durations: 100.0 * took,
        bytes: 100.0 * bytes,
        ..slower(100.0, times, 0.4)
    };
    let limit = resting(100.0);
    let needed = |took, times, bytes| limit.needed(&before, &now(took, times, bytes));
    assert!(near(needed(0.12, 1.0, SIZE), limit.staffed(300.0) / 100.0 - 1.0));
    assert!(near(needed(0.12, 1.0, 2.0 * SIZE), limit.staffed(150.0) / 100.0 - 1.0));
    assert_eq!(needed(0.01, 1.0, SIZE), 0.0, "never fewer");
    assert_eq!(needed(10.0, 1.0, SIZE), 15.0, "nor far more at once");
    // If bodies come more slowly, it is the network.
    assert_eq!((needed(0.12, 1.29, SIZE) > 0.0, needed(0.12, 1.31, SIZE)), (true, 0.0));
    // Nor does it matter that they are far smaller.
    assert_eq!((needed(0.12, 1.0, 0.51 * SIZE) > 0.0, needed(0.12, 1.0, 0.49 * SIZE)), (true, 0.0));
    // Nothing is known of what few fetches took.
    assert_eq!(limit.needed(&before, &Measure { finished: 5, ..now(0.12, 1.0, SIZE) }), 0.0);
    assert!(limit.needed(&Measure { finished: 5, ..before }, &now(0.12, 1.0, 0.1 * SIZE)) > 0.0);
}

#[test]
fn after_a_drop_as_many_are_tried_as_are_needed_and_it_is_known_what_is_enough_if_that_fails() {
    let before = round(100.0, 1.0);
    let mut limit = resting(100.0);
    let measure = slower(100.0, 3.0, 0.3);
    limit.answer_drop(NOW, before, measure);
    assert_eq!((limit.phase, limit.level, limit.after_drop), (Phase::Up, 150.0, Some(measure)));
    assert!(limit.enough.is_some_and(|level| near(level, limit.staffed(30.0))));
    let mut limit = resting(100.0);
    let measure = Measure { durations: 12.0, ..slower(100.0, 1.0, 0.4) };
    limit.answer_drop(NOW, before, measure);
    assert!(near(limit.level, limit.staffed(300.0)) && limit.enough.is_none(), "{limit:?}");
}

#[test]
fn a_trial_goes_up_by_a_share_or_by_what_noise_would_hide_but_by_one_at_least() {
    let up = |limit: Limit, step| {
        let mut limit = limit;
        limit.try_up(NOW, step);
        (limit.phase == Phase::Up).then_some(limit.level)
    };
    assert_eq!(up(resting(100.0), 0.25), Some(125.0));
    assert_eq!(up(Limit { noise: 0.05, ..resting(100.0) }, 0.25), Some(130.0));
    assert_eq!(up(Limit { noise: 0.5, ..resting(100.0) }, 0.25), Some(160.0));
    assert_eq!(up(Limit { noise: 0.5, ..resting(100.0) }, 2.0), Some(300.0));
    assert_eq!(up(resting(2.0), 0.25), Some(3.0));
    assert_eq!(up(resting(0.5), 0.25), Some(1.5));
    assert_eq!(up(Limit { most: 110.0, ..resting(100.0) }, 0.25), Some(110.0));
    assert_eq!(up(Limit { most: 100.6, ..resting(100.0) }, 0.25), Some(100.6));
    assert_eq!(up(Limit { most: 100.4, ..resting(100.0) }, 0.25), None, "that would be none");
    let mut limit = Limit { holds: 9, up_tried: Duration::ZERO, ..resting(100.0) };
    limit.try_up(NOW, 0.25);
    assert_eq!((limit.holds, limit.up_tried), (0, NOW));
}

/// The same round, if so much of it were not wanted: each fetch is as fast as before.
fn fewer(measure: Measure, times: f64) -> Measure {
    Measure { streaming: measure.streaming * times, ..faster(measure, times) }
}

/// What is proposed at 100, where the best lately was so much more than comes.
fn proposed(best: f64, measure: Measure, change: impl Fn(&mut Limit)) -> Option<f64> {
    let mut limit = Limit { best: Some((best * EACH, SIZE)), up_wait: 2, ..resting(100.0) };
    change(&mut limit);
    let told = limit.propose_best(NOW, &measure);
    assert_eq!(told, limit.phase == Phase::Up);
    told.then_some(limit.level)
}

#[test]
fn a_level_far_below_what_the_best_lately_needs_is_not_rested_at() {
    let limit = resting(100.0);
    let measure = round(100.0, 1.0);
    let best = |best, measure| proposed(best, measure, |_| {});
    assert!(best(120.0, measure).is_some_and(|level| near(level, limit.staffed(120.0))));
    assert_eq!(best(400.0, measure), Some(200.0), "twice as many at most");
    assert_eq!(proposed(400.0, measure, |limit| limit.most = 150.0), Some(150.0));
    assert_eq!(proposed(120.0, measure, |limit| limit.best = None), None);
    // Below a fifth more it is not worth it.
    let slack = |level: f64| (((level - 1.0) + 0.75f64.powi(2)).sqrt() - 0.75).powi(2);
    assert_eq!(
        (best(slack(119.0), fewer(measure, 0.5)), best(slack(121.0), fewer(measure, 0.5)).is_some()),
        (None, true)
    );
    // Nor if hardly anything is missing.
    let missing = |left: f64| best(120.0, Measure { rate: left * 120.0 * EACH, ..measure }).is_some();
    assert_eq!((missing(0.915), missing(0.925)), (true, false));
    // Nor when trials have failed, or after refusals.
    for (up_wait, made) in [(3, true), (4, false), (8, false)] {
        assert_eq!(proposed(120.0, measure, |limit| limit.up_wait = up_wait).is_some(), made, "{up_wait}");
    }
    let refused = |limit: &mut Limit| {
        limit.cut(NOW, NOW, false);
        *limit = Limit { refused: limit.refused, best: limit.best, up_wait: 2, ..resting(100.0) };
    };
    assert_eq!(proposed(120.0, measure, refused), None);
    // Where few are allowed, one more has to be needed.
    for (needed, made) in [(2.95, false), (3.05, true)] {
        let small = |limit: &mut Limit| *limit = Limit { best: limit.best, up_wait: 2, ..resting(2.0) };
        assert_eq!(proposed(slack(needed), fewer(round(2.0, 1.0), 0.1), small).is_some(), made, "{needed}");
    }
}

#[test]
fn where_first_bytes_take_longer_more_make_up_for_it_unless_bodies_queue() {
    let limit = resting(100.0);
    let late = Measure { latencies: 100.0 * 0.03, ..faster(round(100.0, 1.0), 0.9) };
    let needs = |seconds: f64, best: f64| limit.staffed(best * EACH * seconds / SIZE);
    let streams = |measure: Measure, times: f64| Measure {
        streaming: times * LATENCY / SIZE * measure.rate,
        ..measure
    };
    assert!(proposed(110.0, streams(late, 1.0), |_| {}).is_some_and(|level| near(level, needs(0.05, 110.0))));
    assert!(
        proposed(110.0, streams(late, 1.49), |_| {}).is_some_and(|level| near(level, needs(0.05, 110.0)))
    );
    assert!(
        proposed(110.0, streams(late, 1.51), |_| {}).is_some_and(|level| near(level, needs(0.04, 110.0)))
    );
    assert!(
        proposed(110.0, Measure { finished: 0, ..late }, |_| {})
            .is_some_and(|level| near(level, needs(0.04, 110.0)))
    );
    // Of what queues that much, and brings so little, more would only queue.
    let queues = |left: f64, times| {
        let measure = Measure { rate: left * 110.0 * EACH, ..late };
        proposed(110.0, streams(measure, times), |_| {}).is_some()
    };
    assert_eq!([queues(0.59, 1.51), queues(0.61, 1.51), queues(0.59, 1.49)], [false, true, true]);
    // Where it is not known how long a byte takes, it is not known that they queue.
    let unknown = |limit: &mut Limit| limit.baseline.per_byte = None;
    assert!(proposed(300.0, streams(late, 9.0), unknown).is_some());
}

/// A trial of half as much again, or of so much, that brings so many times the throughput.
fn up(level: f64, gain: f64, change: impl Fn(&mut Limit)) -> Limit {
    let mut limit = Limit { up_wait: 2, ..trying(100.0, level, Phase::Up) };
    change(&mut limit);
    limit.judge_up(NOW, Measure { level, ..faster(round(100.0, 1.0), gain) });
    limit
}

#[test]
fn a_trial_upward_is_kept_if_it_brings_a_share_of_itself_and_growing_follows_if_it_brings_most() {
    for (level, gain, kept, grows) in [
        (150.0, 1.059, false, false),
        (150.0, 1.061, true, false),
        (200.0, 1.119, false, false),
        (200.0, 1.121, true, false),
        (150.0, 1.299, true, false),
        (150.0, 1.301, true, true),
        (200.0, 1.599, true, false),
        (200.0, 1.601, true, true),
    ] {
        let limit = up(level, gain, |_| {});
        assert_eq!(limit.base, if kept { level } else { 100.0 }, "{level} {gain}");
        assert_eq!(matches!(limit.phase, Phase::Grow { first: true, .. }), grows, "{level} {gain}");
        assert_eq!(limit.phase == Phase::Hold, !grows);
        assert_eq!(limit.level, if grows { 2.0 * level } else { limit.base });
        assert_eq!(limit.up_wait, if kept { 1 } else { 4 });
        let reference = if kept { 100.0 * EACH * gain } else { 100.0 * EACH };
        assert!(near(limit.reference.expect("known"), reference));
        if grows {
            assert!(near(limit.each, 100.0 * EACH * gain / level));
            assert!(near(limit.baseline.latency.expect("known"), LATENCY), "nothing has become slower");
        }
    }
    // Less and less often after failures; only carefully after refusals.
    assert_eq!(up(150.0, 1.0, |limit| limit.up_wait = 5).up_wait, 8);
    let careful = |limit: &mut Limit| {
        let mut refused = resting(100.0);
        refused.cut(NOW, NOW, false);
        limit.refused = refused.refused;
    };
    let limit = up(150.0, 1.5, careful);
    assert_eq!((limit.phase, limit.base), (Phase::Hold, 150.0));
}

#[test]
fn a_trial_after_a_drop_that_fails_ends_at_what_is_enough() {
    for (level, gain, enough) in
        [(150.0, 1.149, true), (150.0, 1.151, false), (200.0, 1.299, true), (200.0, 1.301, false)]
    {
        let limit = up(level, gain, |limit| limit.enough = Some(30.0));
        assert_eq!((limit.base, limit.enough), (if enough { 30.0 } else { level }, None), "{level} {gain}");
        assert_eq!(limit.reference.is_none(), enough);
    }
}

#[test]
fn after_a_drop_how_long_fetches_take_tells_what_a_trial_brings() {
    let trial = |slowdown_before: f64, slowdown: f64, gain: f64| {
        let limit =
            Limit { after_drop: Some(round(100.0, slowdown_before)), ..trying(100.0, 150.0, Phase::Up) };
        let mut limit = limit;
        limit.judge_up(NOW, Measure { rate: gain * 100.0 * EACH, ..round(150.0, slowdown) });
        limit
    };
    let kept = |limit: &Limit| limit.base == 150.0;
    // All fetches take twice as long, but no longer than before with more of them: all of it is worth it, whatever was counted.
    let limit = trial(2.0, 2.0, 0.9);
    assert!(kept(&limit) && matches!(limit.phase, Phase::Grow { .. }));
    assert!(near(limit.baseline.latency.expect("known"), LATENCY));
    // With seven tenths of it, it is; with less, throughput decides.
    assert!(kept(&trial(2.0, 2.0 * 1.5 / 1.351, 0.9)));
    assert!(!kept(&trial(2.0, 2.0 * 1.5 / 1.349, 0.9)));
    assert!(kept(&trial(2.0, 2.0 * 1.5 / 1.349, 1.1)));
    // First bytes that take longer are what is usual from now on.
    let mut limit = Limit { after_drop: Some(round(100.0, 2.0)), ..trying(100.0, 150.0, Phase::Up) };
    limit.judge_up(NOW, Measure { latencies: 100.0 * 3.0 * LATENCY, ..round(150.0, 2.0) });
    assert!(near(limit.baseline.latency.expect("known"), 3.0 * LATENCY));
}

#[test]
fn a_trial_downward_is_of_at_least_one_and_far_down_the_first_round_is_passed_over() {
    let down = |limit: Limit, level, proposed| {
        let mut limit = limit;
        limit.try_down(NOW, level, proposed);
        limit
    };
    for (level, skip) in [(69.9, 1), (70.1, 0)] {
        let limit = down(resting(100.0), level, true);
        assert_eq!((limit.phase, limit.level, limit.skip), (Phase::Down { proposed: true }, level, skip));
    }
    let limit = down(resting(100.4), 99.6, false);
    assert_eq!((limit.phase, limit.level, limit.down_due), (Phase::Hold, 100.4, NOW + limit.down_wait));
    assert_eq!(down(resting(100.4), 99.4, false).level, 99.4);
    assert_eq!(down(Limit { least: 60.0, ..resting(100.0) }, 10.0, true).level, 60.0);
}

/// A trial of this level instead of 100 that brings so much of the throughput.
fn down(level: f64, brings: f64, proposed: bool, noise: f64) -> Limit {
    let mut limit = Limit { noise, ..trying(100.0, level, Phase::Down { proposed }) };
    limit.judge_down(NOW, Measure { level, ..faster(round(100.0, 1.0), brings) }, proposed);
    limit
}

#[test]
fn a_trial_downward_that_loses_next_to_nothing_is_kept() {
    // A share of what was taken away, three in a hundred at most, and half of what is noise.
    for (level, noise, least) in
        [(90.0, 0.0, 0.988), (80.0, 0.0, 0.976), (50.0, 0.0, 0.97), (90.0, 0.04, 0.968), (80.0, 0.1, 0.926)]
    {
        for (brings, kept) in [(least + 1e-4, true), (least - 1e-4, false)] {
            let limit = down(level, brings, true, noise);
            assert_eq!(
                (limit.phase, limit.base),
                (Phase::Hold, if kept { level } else { 100.0 }),
                "{level} {noise} {brings}"
            );
        }
    }
    // One that nothing proposed is met halfway, but not far from it.
    assert!(near(down(90.0, 1.0, false, 0.0).base, (90.0f64 * 100.0).sqrt()));
    assert!(near(down(50.0, 1.0, false, 0.0).base, 50.0 * 1.15 + 1.0));
    let limit = down(90.0, 1.0, false, 0.0);
    assert_eq!((limit.down_step, limit.down_due, limit.up_wait), (2.0 * limit.tuning.down, NOW, 4));
    let mut limit = trying(100.0, 60.0, Phase::Down { proposed: false });
    limit.down_step = 0.4;
    limit.judge_down(NOW, round(60.0, 0.6), false);
    assert_eq!(limit.down_step, 0.5);
}

#[test]
fn a_trial_downward_that_loses_is_taken_back_and_made_again_later() {
    let mut limit = Limit {
        down_wait: Duration::from_secs(5),
        down_step: 0.4,
        ..trying(100.0, 90.0, Phase::Down { proposed: false })
    };
    let mut waits = Vec::new();
    for _ in 0..5 {
        limit.phase = Phase::Down { proposed: false };
        limit.reference = Some(100.0 * EACH);
        limit.level = 90.0;
        limit.judge_down(NOW, round(90.0, 1.0), false);
        assert_eq!((limit.base, limit.level, limit.reference, limit.up_wait), (100.0, 100.0, None, 2));
        assert_eq!((limit.down_step, limit.proposal_due), (limit.tuning.down, limit.down_due));
        waits.push((limit.down_due - NOW).as_secs());
    }
    assert_eq!(waits, [5, 10, 20, 30, 30]);
    let mut limit =
        Limit { down_wait: Duration::from_secs(5), ..trying(100.0, 90.0, Phase::Down { proposed: false }) };
    limit.not_lower(NOW);
    assert_eq!((limit.base, limit.level, limit.phase), (100.0, 100.0, Phase::Hold));
    assert_eq!(
        (limit.down_due, limit.proposal_due, limit.down_wait),
        (NOW + 5_000 * MS, NOW + 5_000 * MS, 10_000 * MS)
    );
}

#[test]
fn what_was_proposed_and_loses_was_not_loaded() {
    for (proposed, learned) in [(true, true), (false, false)] {
        let limit = Limit { each: 1.0, ..trying(100.0, 80.0, Phase::Down { proposed }) };
        let mut limit = limit;
        limit.judge_down(NOW, Measure { latencies: 100.0 * 2.0 * LATENCY, ..round(80.0, 1.5) }, proposed);
        let latency = limit.baseline.latency.expect("known");
        assert!(near(latency, if learned { 2.0 * LATENCY } else { LATENCY }), "{latency}");
        assert!(near(limit.each, if learned { EACH / 1.5 } else { 1.0 }));
    }
}

#[test]
fn of_what_a_lower_level_cannot_have_lost_the_endpoint_is_the_cause() {
    // At half of it, half would come; less than 84 in a hundred of that is not the level's doing.
    let trial = |level: f64, brings: f64, bodies: f64| {
        let mut limit = trying(100.0, level, Phase::Down { proposed: false });
        let measure = Measure { level, ..faster(round(100.0, 1.0), brings) };
        let streaming = bodies * LATENCY / SIZE * measure.rate;
        limit.judge_down(NOW, Measure { streaming, ..measure }, false);
        limit
    };
    for (level, brings, cause) in
        [(50.0, 0.419, true), (50.0, 0.421, false), (80.0, 0.671, true), (80.0, 0.673, false)]
    {
        let limit = trial(level, brings, 1.0);
        assert_eq!((limit.base, limit.dropped.is_some()), (100.0, cause), "{level} {brings}");
        if let Some(dropped) = limit.dropped {
            assert_eq!(dropped, round(100.0, 1.0));
        }
    }
    let mut other = Limit {
        held: Some(faster(round(100.0, 1.0), 0.5)),
        ..trying(100.0, 50.0, Phase::Down { proposed: false })
    };
    other.judge_down(NOW, faster(round(50.0, 1.0), 0.1), false);
    assert!(other.dropped.is_some_and(|dropped| near(dropped.rate, 100.0 * EACH)), "what was usual counts");
    // Where bodies come more slowly as well, it is the network, and fewer are nearer to what it needs.
    for (brings, bodies, base) in [(0.2, 1.51, 50.0), (0.2, 1.49, 100.0), (0.45, 3.0, 100.0)] {
        assert_eq!(trial(50.0, brings, bodies).base, base, "{brings} {bodies}");
    }
}
