//! How long a refusal is remembered, where a burst of them ends, and the way back from it.

use super::resting::{LATENCY, MS, NOW, SIZE, faster, near, resting, round, trying};
use super::round::Baseline;
use super::{Limit, Phase};
use crate::backoff::Failure;

/// Refused, or broken, just now; back at rest since.
fn refused(broken: bool) -> Limit {
    let mut limit = resting(50.0);
    limit.cut(NOW, NOW, broken);
    Limit { refused: limit.refused, ..resting(50.0) }
}

#[test]
fn for_some_seconds_after_a_refusal_the_level_only_creeps_up() {
    let Limit { tuning, .. } = resting(50.0);
    for (broken, memory) in [(false, tuning.memory), (true, tuning.calm)] {
        for (later, careful) in [(MS, true), (memory - MS, true), (memory, false), (2 * memory, false)] {
            let now = NOW + later;
            let mut limit = refused(broken);
            assert_eq!(limit.careful(now), careful, "{broken} {later:?}");
            // What is tried is half as much more, whatever is known.
            limit.try_up(now, 0.6);
            assert!(
                near(limit.level, if careful { 50.0 * (1.0 + tuning.up / 2.0) } else { 80.0 }),
                "{limit:?}"
            );
            // A jump of throughput does not start the search again.
            let mut limit = refused(broken);
            limit.judge(now, faster(round(50.0, 1.0), 1.2), true);
            assert_eq!(matches!(limit.phase, Phase::Grow { .. }), !careful);
            // A trial that brings all of itself is kept, and nothing more.
            let mut limit = Limit { refused: limit.refused, ..trying(50.0, 60.0, Phase::Up) };
            limit.judge_up(now, round(60.0, 1.0));
            assert_eq!((limit.base, limit.phase == Phase::Hold), (60.0, careful));
        }
    }
    assert!(!resting(50.0).careful(NOW));
}

#[test]
fn who_is_refused_before_anything_was_measured_measures_what_is_not_refused() {
    let unloaded = |limit: Limit| {
        let mut limit = Limit { baseline: Baseline::default(), ..limit };
        limit.judge(NOW, round(50.0, 1.0), true);
        limit.unloaded()
    };
    let (latency, per_byte) = unloaded(refused(false)).expect("a round has ended");
    assert!(near(latency, LATENCY) && near(per_byte, LATENCY / SIZE), "{latency} {per_byte}");
    assert_eq!(unloaded(resting(50.0)), None, "of a level that was found otherwise it may be too long");
}

#[test]
fn a_refusal_leaves_seven_tenths_of_what_was_good() {
    let cut = |mut limit: Limit| {
        limit.cut(NOW, NOW, false);
        assert_eq!((limit.phase, limit.skip, limit.up_wait, limit.reference), (Phase::Hold, 0, 2, None));
        limit.base
    };
    assert!(near(cut(resting(50.0)), 35.0));
    // During a trial it is of where it rests; while growing, of the level before.
    assert!(near(cut(trying(50.0, 70.0, Phase::Up)), 35.0));
    let before = Some(round(30.0, 1.0));
    assert!(near(cut(trying(20.0, 60.0, Phase::Grow { back: 20.0, before, first: false })), 21.0));
    assert!(near(cut(trying(20.0, 60.0, Phase::Grow { back: 20.0, before: None, first: true })), 14.0));
}

#[test]
fn a_burst_goes_on_until_it_was_calm_and_enough_was_answered() {
    let calm = resting(1.0).tuning.calm;
    // The level when the burst began is what it comes back to, and what it is a quarter of at the least.
    for (later, answered, ended) in [(calm, 70, true), (calm, 69, false), (calm - MS, 100, false)] {
        let mut limit = resting(100.0);
        limit.cut(NOW, NOW, false);
        assert!(near(limit.base, 70.0));
        limit.since_refused = answered;
        limit.cut(NOW + later, NOW + MS, false);
        assert!(near(limit.base, 49.0));
        for _ in 0..20 {
            limit.cut(NOW + later, NOW + later, false);
        }
        assert!(
            near(limit.base, if ended { 70.0 / 4.0 } else { 25.0 }),
            "{later:?} {answered}: {}",
            limit.base
        );
    }
}

#[test]
fn what_was_sent_before_the_last_cut_does_not_cut_again_but_is_waited_for() {
    let mut limit = resting(100.0);
    limit.cut(NOW, NOW - MS, false);
    assert!(near(limit.base, 70.0), "the first cuts, whenever it was sent");
    limit.cut(NOW + 10 * MS, NOW - MS, false);
    assert!(near(limit.base, 70.0));
    limit.cut(NOW + 20 * MS, NOW, false);
    assert!(near(limit.base, 49.0), "it was sent at the new level");
    // It has to be calm after the last of them, though it did not cut.
    limit.cut(NOW + 30 * MS, NOW - MS, false);
    let due = NOW + 30 * MS + limit.tuning.calm;
    assert!(!limit.recover(due - MS));
    assert!(limit.recover(due));
}

#[test]
fn the_way_back_is_in_doublings_each_as_long_as_a_fetch_and_up_to_nine_tenths() {
    let mut limit = resting(100.0);
    for _ in 0..20 {
        limit.cut(NOW, NOW, false);
    }
    limit.duration = Some(0.1);
    let mut now = NOW + limit.tuning.calm;
    for level in [50.0, 90.0] {
        assert!(limit.recover(now));
        assert!(near(limit.base, level) && limit.skip == 0 && limit.reference.is_none(), "{limit:?}");
        assert!(!limit.recover(now + 99 * MS), "each has to show whether it brings refusals");
        now += 100 * MS;
    }
    assert!(!limit.recover(now + 100 * limit.tuning.calm), "it has come back");
    // Quick fetches say nothing within two of the shortest rounds.
    let mut limit = resting(100.0);
    for _ in 0..20 {
        limit.cut(NOW, NOW, false);
    }
    let now = NOW + limit.tuning.calm;
    assert!(limit.recover(now) && !limit.recover(now + 39 * MS) && limit.recover(now + 40 * MS));
    // One that has found a higher level meanwhile is not lowered.
    let mut limit = resting(100.0);
    limit.cut(NOW, NOW, false);
    limit.base = 95.0;
    assert!(limit.recover(NOW + limit.tuning.calm));
    assert_eq!(limit.base, 95.0);
    assert!(!resting(100.0).recover(now));
}

#[test]
fn connections_break_in_masses_when_as_many_do_as_half_of_what_is_allowed_and_more_than_end_well() {
    let broken = |limit: &mut Limit| limit.failed(NOW, NOW, Failure::Transient);
    for (allowed, well, mass) in
        [(20.0, 0, 10), (9.0, 0, 4), (2.0, 0, 4), (20.0, 4, 10), (20.0, 5, 11), (20.0, 20, 41)]
    {
        let mut limit = resting(allowed);
        for _ in 0..well {
            let fetch = super::Finished { started: NOW, bytes: 1, latency: MS, duration: MS };
            limit.round.finished(&fetch, 0.001);
        }
        for failed in 1..=mass {
            assert_eq!(limit.base, allowed, "{failed} of {allowed}");
            broken(&mut limit);
        }
        assert!(near(limit.base, (0.7 * allowed).max(1.0)), "{allowed} {well}: {limit:?}");
    }
}
