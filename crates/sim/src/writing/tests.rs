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
