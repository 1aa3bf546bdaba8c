//! The endpoint's laws in a closed loop with a model: what they reach, how soon, and how steadily.

use proptest::prelude::*;

use super::model::{Loop, World};
use super::*;

const MOST: usize = 1024;
/// As fast as the network: one connection has no limit of its own.
const UNCAPPED: f64 = 1e6;

fn started(world: World, seed: u64) -> Loop {
    Loop::new(Endpoint::new(Tuning::default(), MOST), world, seed)
}

/// What is needed where fetches come back at random: the knee, and slack of the order of its square root.
fn needed(world: &World) -> f64 {
    let knee = world.knee();
    knee + 2.0 * knee.sqrt() + 1.0
}

fn worlds() -> Vec<World> {
    let mut worlds = Vec::new();
    for latency in [1.0, 20.0, 100.0, 200.0] {
        for connection in [20.0, 90.0, UNCAPPED] {
            for (network, size) in [(125.0, 1.0), (1250.0, 4.0), (1250.0, 8.0)] {
                worlds.push(World::new(latency, network, connection, size));
            }
        }
    }
    worlds
}

#[test]
fn it_fills_the_network_within_two_seconds_and_rests_near_the_knee() {
    let (mut bad, mut high) = (Vec::new(), 0);
    for world in worlds() {
        for seed in 0..2 {
            let mut run = started(world, seed);
            run.run(12.0);
            let (used, level, needed) = (run.used(2.0, 12.0), run.level(4.0, 12.0), needed(&world));
            high += u32::from(level > 1.3 * needed + 2.0);
            if used < 0.96 || level > 1.8 * needed + 2.0 || level < 0.8 * world.knee() {
                bad.push(format!(
                    "{world:?} seed {seed}: used {used:.3}, level {level:.1}, needed {needed:.1}"
                ));
            }
        }
    }
    assert!(bad.is_empty(), "{} of {}:\n{}", bad.len(), 2 * worlds().len(), bad.join("\n"));
    assert!(high <= 3, "{high} of {} rest too high", 2 * worlds().len());
}

#[test]
fn throughput_does_not_swing() {
    for world in worlds() {
        let mut run = started(world, 7);
        run.run(16.0);
        for second in 2..16 {
            let used = run.used(f64::from(second), f64::from(second + 1));
            assert!(used > 0.81, "{world:?}: {used:.3} in second {second}");
        }
    }
}

#[test]
fn steps_of_ten_are_followed_within_two_seconds() {
    let base = World::new(20.0, 300.0, 90.0, 4.0);
    let mut bad = Vec::new();
    type Step = fn(&mut World, bool);
    let steps: [(&str, Step); 3] = [
        ("network", |world, up| world.network *= if up { 10.0 } else { 0.1 }),
        ("latency", |world, up| world.latency *= if up { 10.0 } else { 0.1 }),
        ("connection", |world, up| world.connection *= if up { 0.1 } else { 10.0 }),
    ];
    for (name, step) in steps {
        for seed in 0..2 {
            let mut run = started(base, seed);
            for (index, up) in [true, false, true, false].into_iter().enumerate() {
                let at = 15.0 * (index + 1) as f64;
                run.run(at);
                step(&mut run.world, up);
                run.run(at + 15.0);
                let (used, level) = (run.used(at + 2.0, at + 6.0), run.level(at + 11.0, at + 15.0));
                let needed = needed(&run.world);
                let enough = if name == "connection" { 0.9 } else { 0.94 };
                if used < enough || level > 2.0 * needed {
                    bad.push(format!(
                        "{name} up {up} seed {seed}: used {used:.3}, level {level:.1}, needed {needed:.1}"
                    ));
                }
            }
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

#[test]
fn a_heavy_tail_does_not_make_it_collapse() {
    for seed in 0..3 {
        for latency in [5.0, 50.0] {
            let mut world = World::new(latency, 1250.0, 90.0, 4.0);
            (world.sigma, world.tail) = (0.6, 0.02);
            let mut run = started(world, seed);
            run.run(20.0);
            let used = run.used(2.0, 20.0);
            assert!(used > 0.95, "{latency} ms, seed {seed}: {used:.3}, level {}", run.level(2.0, 20.0));
            for second in 2..20 {
                let used = run.used(f64::from(second), f64::from(second + 1));
                assert!(used > 0.8, "{latency} ms, seed {seed}: {used:.3} in second {second}");
            }
        }
    }
}

#[test]
fn a_server_that_works_on_few_at_once_is_not_flooded() {
    let mut world = World::new(50.0, 10_000.0, 1_000.0, 1.0);
    world.slots = 32;
    for seed in 0..3 {
        let mut run = started(world, seed);
        run.run(20.0);
        let best = 32.0 * world.size / (world.latency * 1.046 + world.size / world.connection);
        let (reached, level) = (run.mean(2.0, 20.0) / best, run.level(4.0, 20.0));
        assert!(reached > 0.95, "seed {seed}: {reached:.3}");
        assert!(level < 96.0, "seed {seed}: {level:.1}");
    }
}

#[test]
fn refusals_cut_it_and_it_comes_back() {
    // The network would carry four times what the server grants.
    let mut world = World::new(50.0, 1250.0, 90.0, 1.0);
    world.requests = 300.0;
    for seed in 0..3 {
        let mut run = started(world, seed);
        run.run(30.0);
        let reached = run.mean(2.0, 30.0) / (300.0 * world.size);
        let refused = run.refusals as f64 / run.fetches as f64;
        assert!(
            reached > 0.8,
            "seed {seed}: {reached:.3} of what is granted, level {}",
            run.level(2.0, 30.0)
        );
        assert!(refused < 0.15, "seed {seed}: {refused:.3} refused");
    }
}

#[test]
fn a_burst_of_refusals_is_over_two_seconds_after_its_end() {
    let world = World::new(50.0, 1250.0, 90.0, 4.0);
    for seed in 0..3 {
        let mut run = started(world, seed);
        run.run(5.0);
        run.world.requests = 1.0;
        run.run(8.0);
        run.world.requests = f64::INFINITY;
        run.run(14.0);
        let used = run.used(10.0, 14.0);
        assert!(used > 0.95, "seed {seed}: {used:.3}, level {}", run.level(10.0, 14.0));
    }
}

#[test]
fn a_stall_freezes_it() {
    for stall in [5.0, 60.0] {
        let mut run = started(World::new(20.0, 1250.0, 90.0, 4.0), 3);
        run.run(5.0);
        run.world.stalled = true;
        run.run(5.0 + stall);
        run.world.stalled = false;
        run.run(11.0 + stall);
        let (before, during) = (run.level(4.0, 5.0), run.level(5.0, 5.0 + stall));
        assert!(during > 0.7 * before && during < 1.5 * before, "{before} {during}");
        let used = run.used(6.0 + stall, 11.0 + stall);
        assert!(used > 0.95, "{used:.3} after a stall of {stall} s");
    }
}

#[test]
fn it_does_not_grow_while_readers_want_less() {
    let mut run = started(World::new(20.0, 10_000.0, 90.0, 4.0), 1);
    run.wanted = 3;
    run.run(20.0);
    assert!(run.endpoint.allowed() <= 16, "{}", run.endpoint.allowed());
    let best = 3.0 * run.world.size / (0.0209 + run.world.size / run.world.connection);
    let bandwidth = run.endpoint.bandwidth().expect("known") as f64;
    assert!((0.9..1.6).contains(&(bandwidth / best)), "{bandwidth} {best}");
    let duration = run.endpoint.duration(run.world.size as u64).expect("known").as_secs_f64();
    assert!((0.05..0.09).contains(&duration), "{duration}");
}

#[test]
fn hedging_stays_within_its_budget_and_does_not_disturb() {
    let mut world = World::new(20.0, 1250.0, UNCAPPED, 1.0);
    world.tail = 0.02;
    for seed in 0..3 {
        let mut run = started(world, seed);
        run.hedging = true;
        run.run(20.0);
        let share = run.hedges as f64 / run.fetches as f64;
        assert!(run.hedges > 50 && run.hedges as f64 <= 0.02 * run.fetches as f64 + 5.0, "{share:.4}");
        assert!(run.used(2.0, 20.0) > 0.95, "{:.3}", run.used(2.0, 20.0));
    }
}

/// What the network brings differs by four times from one twentieth of a second to the next, as where those who read take the processors' time.
/// What it brings on average, of what it could, and the mean level.
fn swinging(told: bool, seed: u64) -> (f64, f64) {
    let mut run = started(World::new(1.0, 900.0, 20.0, 1.0), seed);
    run.endpoint.processors(told);
    let mut could = 0.0;
    for step in 1..=200 {
        let carried = [0.4, 1.6, 1.2, 0.7, 1.5, 0.6][run.random.uniform_below(6)] * 900e6;
        run.world.network = carried;
        run.run(f64::from(step) * 0.05);
        could += if step > 40 { carried * 0.05 } else { 0.0 };
    }
    (run.mean(2.0, 10.0) * 8.0 / could, run.level(2.0, 10.0))
}

#[test]
fn where_processors_are_the_limit_swings_do_not_lead_it_away() {
    for seed in 0..4 {
        let ((used, level), (_, untold)) = (swinging(true, seed), swinging(false, seed));
        // The mean of it needs 48, the most of it 77.
        assert!(
            (45.0..80.0).contains(&level) && used > 0.75,
            "seed {seed}: used {used:.3}, level {level:.1}"
        );
        assert!(
            untold > 1.4 * level,
            "seed {seed}: {level:.1}, and {untold:.1} where each round is believed"
        );
    }
}

#[test]
fn that_processors_are_busy_with_other_things_costs_nothing_when_fetches_become_slower() {
    type Step = fn(&mut World);
    let steps: [(&str, Step); 3] = [
        ("latency", |world| world.latency *= 10.0),
        ("connection", |world| world.connection *= 0.25),
        ("network", |world| world.network *= 0.25),
    ];
    for (name, step) in steps {
        for seed in 0..3 {
            let mut run = started(World::new(20.0, 300.0, 90.0, 4.0), seed);
            run.endpoint.processors(true);
            run.run(10.0);
            step(&mut run.world);
            run.run(25.0);
            let (before, soon, later) = (run.used(2.0, 10.0), run.used(14.0, 18.0), run.used(18.0, 25.0));
            let level = run.level(15.0, 25.0);
            let all = format!("{name}, seed {seed}: {before:.3}, {soon:.3}, {later:.3}, level {level:.1}");
            assert!(before > 0.97 && soon > 0.75 && later > 0.87, "{all}");
            assert!(name != "network" || level < 20.0, "{all}");
        }
    }
}

/// Every constant of the limit, four times larger and smaller.
fn scaled() -> Vec<(&'static str, limit::Tuning)> {
    let mut all = Vec::new();
    let by = |duration: Duration, factor: f64| Duration::from_secs_f64(duration.as_secs_f64() * factor);
    for factor in [0.25, 4.0] {
        let default = limit::Tuning::default();
        let mut add = |name, change: fn(&mut limit::Tuning, f64)| {
            let mut tuning = default;
            change(&mut tuning, factor);
            all.push((name, tuning));
        };
        add("first", |t, f| t.first *= f);
        add("grow", |t, f| t.grow *= f);
        add("grow_worth", |t, f| t.grow_worth *= f);
        add("burst_worth", |t, f| t.burst_worth *= f);
        add("burst_keeps", |t, f| t.burst_keeps *= f);
        add("up", |t, f| t.up *= f);
        add("up_after_drop", |t, f| t.up_after_drop *= f);
        add("down", |t, f| t.down *= f);
        add("worth", |t, f| t.worth *= f);
        add("slack", |t, f| t.slack *= f);
        add("excess", |t, f| t.excess *= f);
        add("rise", |t, f| t.rise *= f);
        add("drop", |t, f| t.drop *= f);
        add("cut", |t, f| t.cut *= f);
        add("cut_most", |t, f| t.cut_most *= f);
        for (name, change) in [
            (
                "round_least",
                (|t: &mut limit::Tuning| &mut t.round_least) as fn(&mut limit::Tuning) -> &mut Duration,
            ),
            ("burst_least", |t| &mut t.burst_least),
            ("round_most", |t| &mut t.round_most),
            ("up_every", |t| &mut t.up_every),
            ("down_every", |t| &mut t.down_every),
            ("down_rarest", |t| &mut t.down_rarest),
            ("stall", |t| &mut t.stall),
            ("calm", |t| &mut t.calm),
            ("memory", |t| &mut t.memory),
        ] {
            let mut tuning = default;
            *change(&mut tuning) = by(*change(&mut tuning), factor);
            all.push((name, tuning));
        }
    }
    all
}

#[test]
fn no_constant_matters_much() {
    let worlds = [
        World::new(1.0, 1250.0, 90.0, 4.0),
        World::new(20.0, 1250.0, 90.0, 4.0),
        World::new(20.0, 300.0, UNCAPPED, 1.0),
        World::new(100.0, 1250.0, UNCAPPED, 4.0),
        World::new(100.0, 300.0, 20.0, 1.0),
    ];
    let median = |tuning: limit::Tuning| {
        let mut used: Vec<f64> = worlds
            .iter()
            .map(|world| {
                let tuning = Tuning { limit: tuning, ..Tuning::default() };
                let mut run = Loop::new(Endpoint::new(tuning, MOST), *world, 5);
                run.run(9.0);
                run.used(2.0, 9.0)
            })
            .collect();
        used.sort_by(f64::total_cmp);
        used[used.len() / 2]
    };
    let default = median(limit::Tuning::default());
    for (name, tuning) in scaled() {
        let got = median(tuning);
        assert!((got / default - 1.0).abs() < 0.05, "{name}: {got:.3}, default {default:.3}; {tuning:?}");
    }
}

#[derive(Debug, Clone)]
enum Event {
    Start(u64, bool),
    Progress(usize, u64),
    Finish(usize),
    Fail(usize, Failure),
    Cancel(usize),
    Hedge,
    Streams(usize),
}

fn events() -> impl Strategy<Value = Vec<(u64, Event)>> {
    let step =
        prop_oneof![4 => Just(0u64), 4 => 0u64..50_000_000, 1 => 0u64..100_000_000_000, 1 => any::<u64>()];
    let bytes = prop_oneof![Just(0u64), 1u64..10_000_000, Just(u64::MAX)];
    let how = prop_oneof![Just(Failure::Transient), Just(Failure::Throttled), Just(Failure::Permanent)];
    let event = prop_oneof![
        4 => (bytes.clone(), any::<bool>()).prop_map(|(bytes, hedge)| Event::Start(bytes, hedge)),
        4 => (any::<usize>(), bytes).prop_map(|(at, bytes)| Event::Progress(at, bytes)),
        4 => any::<usize>().prop_map(Event::Finish),
        1 => (any::<usize>(), how).prop_map(|(at, how)| Event::Fail(at, how)),
        1 => any::<usize>().prop_map(Event::Cancel),
        1 => Just(Event::Hedge),
        1 => any::<usize>().prop_map(Event::Streams),
    ];
    proptest::collection::vec((step, event), 1..300)
}

proptest! {
    /// Any events, in any order, at any time, of fetches that are or are not in flight: no panic, bounds hold, counts are right.
    #[test]
    fn any_events_are_taken(most in 0usize..300, events in events()) {
        let mut endpoint = Endpoint::new(Tuning::default(), most);
        let mut now = Duration::ZERO;
        let mut flying: Vec<FetchId> = Vec::new();
        for (number, (step, event)) in events.into_iter().enumerate() {
            now = now.saturating_add(Duration::from_nanos(step));
            let pick = |at: usize| FetchId(flying.get(at % (flying.len() + 1)).map_or(u64::MAX, |fetch| fetch.0));
            let gone = match event {
                Event::Start(bytes, hedge) => {
                    let fetch = FetchId(number as u64);
                    endpoint.started(now, fetch, bytes, hedge);
                    endpoint.started(now, fetch, bytes, hedge);
                    flying.push(fetch);
                    None
                }
                Event::Progress(at, bytes) => { endpoint.progress(now, pick(at), bytes); None }
                Event::Finish(at) => { endpoint.finished(now, pick(at)); Some(pick(at)) }
                Event::Fail(at, how) => { endpoint.failed(now, pick(at), how); Some(pick(at)) }
                Event::Cancel(at) => { endpoint.cancelled(now, pick(at)); Some(pick(at)) }
                Event::Hedge => {
                    let named = endpoint.hedge(now);
                    prop_assert!(named.is_none_or(|fetch| flying.contains(&fetch) && endpoint.hedge_due(fetch).is_none()));
                    None
                }
                Event::Streams(count) => { endpoint.streams(count); None }
            };
            flying.retain(|fetch| Some(*fetch) != gone);
            prop_assert!((1..=most.max(1)).contains(&endpoint.allowed()));
            prop_assert_eq!(endpoint.in_flight(), flying.len());
            prop_assert_eq!(endpoint.flights.len(), flying.len());
            let _ = (endpoint.bandwidth(), endpoint.latency(), endpoint.duration(u64::MAX), endpoint.alone(u64::MAX), endpoint.hedge_at());
        }
    }
}

#[test]
fn two_streams_get_two_fetches_even_after_refusals() {
    let mut endpoint = Endpoint::new(Tuning::default(), 8);
    endpoint.streams(2);
    for number in 0..1_000u64 {
        let now = Duration::from_secs(number * 3);
        endpoint.started(now, FetchId(number), 1, false);
        endpoint.failed(now + Duration::from_millis(1), FetchId(number), Failure::Throttled);
        assert!(endpoint.allowed() >= 2);
    }
    assert_eq!(endpoint.allowed(), 2);
}

#[test]
fn a_hung_fetch_is_named_once() {
    let mut endpoint = Endpoint::new(Tuning::default(), 8);
    let ms = Duration::from_millis;
    for number in 0..200 {
        endpoint.started(ms(number * 30), FetchId(number), 1, false);
        endpoint.progress(ms(number * 30 + 20), FetchId(number), 1);
        endpoint.finished(ms(number * 30 + 20), FetchId(number));
    }
    endpoint.started(ms(6_000), FetchId(200), 1, false);
    let due = endpoint.hedge_due(FetchId(200)).expect("known");
    assert!(due > ms(6_020) && due < ms(6_040), "{due:?}");
    assert!(endpoint.hedge_at().is_some_and(|at| at <= due));
    assert_eq!(endpoint.hedge(due - ms(1)), None);
    assert_eq!(endpoint.hedge(due), Some(FetchId(200)));
    assert_eq!(endpoint.hedge(due), None);
    assert_eq!(endpoint.hedge_at(), None, "until another one is sent");
}
