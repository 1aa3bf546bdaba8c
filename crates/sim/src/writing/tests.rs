use super::judge::run_program;
use super::*;

#[test]
fn the_same_seed_is_the_same_run() {
    for family in FAMILIES {
        let scenario = family.draw(3);
        let shown = || format!("{:?}", judge(&scenario, &run_program(&scenario)));
        assert_eq!(shown(), shown(), "{}", family.name);
    }
}

/// Seven seeds of each family: nothing that is asked for is broken. What is not asked for of a family is said where it is made.
#[test]
fn the_default_keeps_its_word() {
    for summary in run_all(FAMILIES, 0, 7) {
        assert_eq!(summary.broken, [""; 0], "{}\n{}", Summary::heading(), summary.line());
    }
}

/// A gate whose window is too large, and one that admits everything, are found out.
#[test]
fn the_judge_tells_good_from_bad() {
    let family = FAMILIES.iter().find(|family| family.name == "steady").expect("a known family");
    for seed in 0..7 {
        let scenario = family.draw(seed);
        let outcome = run(&scenario.setup, &mut gate::DelayLaw::new(false));
        let judgement = judge(&scenario, &outcome);
        assert!(judgement.queue > 0.25 || scenario.setup.backend.rate(0.0) > 1.2e9, "{judgement:?}");
        assert_eq!(judgement.lost, 0);
    }
}

/// While the store stands still, what is in flight stays at the window, and the window where it was.
#[test]
fn a_stall_freezes_the_window_and_what_is_in_flight() {
    for name in ["stall-5s", "stall-60s"] {
        let family = FAMILIES.iter().find(|family| family.name == name).expect("a known family");
        for seed in 0..7 {
            let scenario = family.draw(seed);
            let (begin, over) = (scenario.judged[0].1, scenario.judged[1].0);
            let outcome = run_program(&scenario);
            // What the store had finished before it stood still is acknowledged within moments.
            let stalled = outcome.samples.iter().filter(|sample| (begin + 0.1..over).contains(&sample.at));
            let seen: std::collections::BTreeSet<_> = stalled.map(|s| (s.in_flight, s.window)).collect();
            let [(in_flight, Some(window))] = Vec::from_iter(seen)[..] else {
                panic!("{name} {seed}: it moves")
            };
            assert!(
                in_flight <= window && in_flight + (1 << 20) > window,
                "{name} {seed}: {in_flight} of {window}"
            );
        }
    }
}

/// Large parts that share a network are acknowledged in bursts. That is not taken for speed: no more is in flight than what the store takes in a
/// quarter of a second and ten parts (up to eight writers gather one each).
#[test]
fn bursts_of_large_parts_make_no_long_queue() {
    let family = FAMILIES.iter().find(|family| family.name == "shared-link").expect("a known family");
    let mut queues: Vec<f64> = (0..20)
        .map(|seed| {
            let scenario = family.draw(seed);
            let rate = scenario.setup.backend.rate(0.0);
            let judgement = judge(&scenario, &run_program(&scenario));
            let parts = (judgement.queue - 0.25) * rate / scenario.setup.part as f64;
            assert!(parts <= 10.0, "{seed}: {parts} parts at {rate}: {judgement:?}");
            judgement.queue
        })
        .collect();
    assert!(judge::quantile(&mut queues, 0.5) <= 0.8, "{queues:?}");
}
