//! That the level is what Little's law says while processors are the limit, and when that is not believed.

use super::resting::{EACH, LATENCY, MS, NOW, SIZE, arrived, faster, near, resting, rests_at, round, trying};
use super::round::Measure;
use super::{Limit, Phase};

/// Told that processors are the limit.
fn busy(mut limit: Limit) -> Limit {
    limit.flying(SIZE);
    limit.processors(true);
    limit
}

/// A round so many tenths of a second later; what was in flight beyond the level has ended.
fn then(limit: &mut Limit, at: u32, measure: Measure) {
    (limit.skip, limit.above) = (0, 0.0);
    limit.judge(NOW + 100 * at * MS, measure, true);
}

fn judged(mut limit: Limit, measure: Measure) -> Limit {
    then(&mut limit, 0, measure);
    limit
}

/// What is enough for as much as 36 in flight bring unloaded.
fn enough() -> f64 {
    resting(1.0).staffed(36.0)
}

#[test]
fn what_queues_is_lowered_to_what_is_enough_but_not_by_more_than_a_third_at_once() {
    let after = |base: f64| judged(busy(arrived(base)), round(base, base / 36.0));
    for base in [56.0, 60.0, 64.0] {
        assert!(near(after(base).base, enough()), "{base}: {:?}", after(base));
    }
    for base in [80.0, 100.0, 300.0] {
        assert!(near(after(base).base, base * 0.7), "{base}: {:?}", after(base));
    }
    // A little too much is left alone.
    assert!(near(after(50.5).base, 50.5), "{:?}", after(50.5));
}

#[test]
fn what_is_less_than_enough_is_raised() {
    // Each takes 1.4 times as long as it need: that it queues is not what holds it down.
    let after = |base: f64| judged(busy(arrived(base)), round(base, 1.4));
    let raised = after(4.0).base;
    assert!(near(raised, 4.0 * 1.4), "{raised}");
    let mut limit = busy(arrived(4.0));
    for at in 0..20 {
        let base = limit.base;
        then(&mut limit, at, round(base, 1.4));
    }
    // So many are enough for what they bring themselves.
    assert!((11.0..15.0).contains(&limit.base), "{limit:?}");
    // A little too little is left alone: some 65 were enough.
    let near_enough = judged(busy(arrived(60.0)), round(60.0, 1.134)).base;
    assert!(near(near_enough, 60.0), "{near_enough}");
    let refused = {
        let mut limit = busy(arrived(4.0));
        limit.failed(NOW, NOW, crate::backoff::Failure::Throttled);
        let level = limit.base;
        limit.phase = Phase::Hold;
        judged(limit, round(level, 1.4)).base <= level
    };
    assert!(refused, "not after a refusal");
}

#[test]
fn a_trial_of_more_is_judged_as_ever_where_fetches_hardly_queue() {
    let tried =
        |slowdown| judged(busy(trying(100.0, 125.0, Phase::Up)), faster(round(125.0, slowdown), 2.0)).base;
    assert!(near(tried(1.26), 100.0));
    assert!(near(tried(1.24), 125.0), "{}", tried(1.24));
}

#[test]
fn where_processors_have_time_left_a_lower_level_is_only_tried() {
    let mut limit = arrived(100.0);
    limit.flying(SIZE);
    let tried = judged(limit, round(100.0, 100.0 / 36.0));
    assert_eq!(tried.phase, Phase::Down { proposed: true });
    assert!(near(tried.base, 100.0));
    let mut limit = busy(arrived(100.0));
    limit.processors(false);
    assert_eq!(judged(limit, round(100.0, 100.0 / 36.0)).phase, Phase::Down { proposed: true });
}

#[test]
fn what_is_known_of_a_crowd_is_known_for_as_long_as_it_lasts() {
    let mut limit = judged(busy(arrived(100.0)), round(100.0, 100.0 / 36.0));
    limit.processors(true);
    assert!(limit.crowd.is_some());
    limit.processors(false);
    assert!(limit.crowd.is_none());
}

/// Rounds at one level that differ by two and three times, as where who reads takes the time of what brings it: each of them would have been
/// a reason to search again, or to try more.
#[test]
fn rounds_that_differ_by_three_times_do_not_lead_it_away() {
    let mut limit = busy(Limit { reference: Some(36.0 * EACH), ..resting(60.0) });
    let (mut highest, mut tried) = (0.0f64, 0);
    for at in 0..600u32 {
        let level = limit.level;
        let times = [0.5, 1.5, 0.7, 1.4, 0.9, 1.0][at as usize % 6];
        let rate = 36.0 * EACH * times;
        then(&mut limit, at, Measure { rate, seconds: 0.1, ..round(level, level / 36.0) });
        assert!(matches!(limit.phase, Phase::Hold | Phase::Up), "{at}: {limit:?}");
        let bounds = enough() * 0.85..enough() * 1.25;
        assert!(at < 10 || bounds.contains(&limit.base), "{at}: {} of {}", limit.base, enough());
        highest = highest.max(limit.level);
        tried += u32::from(limit.phase == Phase::Up);
    }
    // For 0.7 s each, four times in a minute: at first after two seconds, then later and later.
    assert!(highest < enough() * 2.0 && (20..40).contains(&tried), "{highest}, {tried} rounds");
}

#[test]
fn a_search_ends_at_what_is_enough() {
    let growing = |held| {
        let phase = Phase::Grow { back: 8.0, before: Some(round(32.0, 1.0)), first: false };
        busy(Limit { reference: None, held, ..trying(8.0, 64.0, phase) })
    };
    for held in [None, Some(round(30.0, 1.0))] {
        let found = judged(growing(held), round(64.0, 64.0 / 36.0));
        assert!(rests_at(&found, enough()), "{found:?}");
        assert!(!found.fresh);
    }
    let all = judged(growing(None), round(64.0, 64.0 / 50.0));
    assert!(rests_at(&all, all.staffed(50.0)), "{all:?}");
    let on = judged(growing(None), round(64.0, 1.0));
    assert!(matches!(on.phase, Phase::Grow { .. }) && on.level > 64.0, "{on:?}");
    // The first round of a search has nothing to be compared with.
    let phase = Phase::Grow { back: 8.0, before: None, first: true };
    let first = judged(busy(Limit { held: None, ..trying(8.0, 8.0, phase) }), round(8.0, 1.3));
    assert!(matches!(first.phase, Phase::Grow { before: Some(_), .. }), "{first:?}");
}

#[test]
fn a_higher_level_is_given_up_and_a_lower_one_kept() {
    let mut up = trying(50.0, 75.0, Phase::Up);
    (up.enough, up.after_drop) = (Some(3.0), Some(round(50.0, 1.0)));
    let up = judged(busy(up), faster(round(75.0, 75.0 / 36.0), 2.0));
    assert!(up.phase == Phase::Hold && near(up.base, 50.0), "{up:?}");
    assert!(up.enough.is_none() && up.after_drop.is_none(), "what it was tried for is over: {up:?}");
    let down = judged(busy(trying(100.0, 80.0, Phase::Down { proposed: true })), round(80.0, 80.0 / 36.0));
    assert!(down.phase == Phase::Hold && near(down.base, 80.0), "{down:?}");
}

/// Others keep the processors busy, and the connections became slower: to take that for a queue would take ever more from it.
#[test]
fn a_lower_level_that_costs_throughput_is_taken_back_and_what_is_unloaded_is_known_anew() {
    let mut limit = busy(arrived(60.0));
    let slower = |level| round(level, 3.0);
    let mut lowest = 60.0f64;
    for at in 0..6 {
        let base = limit.base;
        then(&mut limit, at, slower(base));
        lowest = lowest.min(limit.base);
        if at > 0 && near(limit.base, 60.0) {
            break;
        }
    }
    assert!(near(limit.base, 60.0) && lowest > 20.0 && lowest < 45.0, "{lowest}, {limit:?}");
    let slowdown = limit.slowdown(&slower(60.0)).expect("it is known");
    assert!(near(slowdown, 1.0), "{slowdown}");
}

/// Throughput that falls long after is not the lower level's doing.
#[test]
fn a_lower_level_that_kept_it_for_some_seconds_stays() {
    let fallen = |pause: u32| {
        let mut limit = busy(arrived(60.0));
        then(&mut limit, 0, round(60.0, 60.0 / 36.0));
        assert!(near(limit.base, enough()));
        let base = limit.base;
        then(&mut limit, pause, faster(round(base, base / 36.0), 0.2));
        limit.base
    };
    assert!(near(fallen(28), 60.0));
    assert!(fallen(29) < enough(), "it follows that");
}

/// What came while nobody had time to take it is taken at once, so that bodies look fast.
#[test]
fn while_fetches_queue_they_say_nothing_of_unloaded_ones() {
    let quick_bodies = |slowdown: f64| {
        let took = 2.0 * LATENCY * slowdown;
        let measure = round(40.0, slowdown);
        Measure { latencies: measure.durations - 100.0 * took * 0.01, ..measure }
    };
    let per_byte =
        |limit: Limit, slowdown| judged(limit, quick_bodies(slowdown)).unloaded().expect("known").1;
    let known = LATENCY / SIZE;
    assert!(near(per_byte(busy(resting(40.0)), 1.2), known));
    assert!(per_byte(resting(40.0), 1.2) < known / 2.0, "otherwise they do");
    assert!(per_byte(busy(resting(40.0)), 0.9) < known / 2.0, "and when they take less than was known");
}

/// The throughput that counts is that of the last second or so, however long its rounds are.
#[test]
fn it_follows_throughput_within_a_second() {
    let of = |seconds: f64, rounds: u32| {
        let mut limit = busy(arrived(90.0));
        then(&mut limit, 0, Measure { seconds, ..round(90.0, 90.0 / 72.0) });
        for at in 1..=rounds {
            let base = limit.base;
            then(&mut limit, at, Measure { seconds, rate: 60.0 * EACH, ..round(base, 1.5) });
        }
        limit.crowd.expect("it is crowded").rate / EACH
    };
    for (seconds, rounds) in [(0.07, 10), (0.14, 5), (0.35, 2)] {
        let rate = of(seconds, rounds);
        assert!((62.9..64.5).contains(&rate), "{rounds} of {seconds} s: {rate}");
    }
    assert!(near(of(60.0, 1), 72.0 - 0.6 * 12.0), "one round is not believed altogether");
}

/// At rest and crowded for two seconds, with so many times what 36 bring; then a higher level is tried, with so many times that.
fn tried(times: f64) -> Limit {
    let mut limit = busy(Limit { reference: Some(36.0 * EACH), ..resting(46.0) });
    let of = |limit: &Limit, rate| Measure {
        rate: rate * EACH,
        seconds: 0.1,
        ..round(limit.level, limit.level / 36.0)
    };
    for at in 0..=20 {
        assert!(at == 0 || limit.phase == Phase::Hold, "{at}");
        let measure = of(&limit, 36.0);
        then(&mut limit, at, measure);
    }
    assert!(limit.phase == Phase::Up && near(limit.level, 69.0), "{limit:?}");
    for at in 21..28 {
        assert_eq!(limit.phase, Phase::Up, "{at}");
        // However it differs from one round to the next.
        let rate = 36.0 * times * if at % 2 == 0 { 1.0 + 0.4 * 4.0 / 3.0 } else { 0.6 };
        let measure = of(&limit, rate);
        then(&mut limit, at, measure);
    }
    limit
}

#[test]
fn a_higher_level_is_tried_for_as_long_as_throughput_is_a_mean_over() {
    let paid = tried(1.3);
    assert!(matches!(paid.phase, Phase::Grow { .. }) && near(paid.base, 69.0), "{paid:?}");
    assert!(paid.crowd.is_none(), "fetches do not queue: {paid:?}");
    let vain = tried(1.2);
    assert!(rests_at(&Limit { reference: None, ..vain.clone() }, 46.0), "{vain:?}");
}

#[test]
fn it_is_tried_more_rarely_each_time_and_soon_when_throughput_falls() {
    let mut limit = busy(Limit { reference: Some(36.0 * EACH), ..resting(46.0) });
    let mut began = Vec::new();
    for at in 0..1_800 {
        let was = limit.phase;
        // It falls after two and a half minutes, and little more is needed for what it was.
        let times = if at < 1_500 { 1.0 } else { 0.7 };
        let level = limit.level;
        let measure =
            Measure { rate: times * 36.0 * EACH, seconds: 0.1, ..round(level, level / 36.0 / times) };
        then(&mut limit, at, measure);
        if was == Phase::Hold && limit.phase == Phase::Up {
            began.push(at);
        }
    }
    let apart: Vec<u32> = began.windows(2).map(|pair| (pair[1] - pair[0]) / 10).collect();
    assert_eq!((began[0], apart[..5].to_vec()), (20, vec![2, 4, 8, 16, 30]), "{began:?}");
    let soon = began.iter().find(|at| **at >= 1_500).expect("it fell");
    assert!((1_505..1_530).contains(soon), "{began:?}");
}

#[test]
fn nothing_is_tried_beyond_the_most() {
    let mut limit = busy(Limit { reference: Some(36.0 * EACH), most: 46.0, ..resting(46.0) });
    for at in 0..100 {
        let measure = Measure { seconds: 0.1, ..round(46.0, 46.0 / 36.0) };
        then(&mut limit, at, measure);
        assert_eq!(limit.phase, Phase::Hold, "{at}");
    }
}
