use super::*;
use crate::drive::fixed::{Fixed, Settings};

const MIB: u64 = 1 << 20;

fn fixed(window: u64, concurrency: usize) -> impl Fn(Limits) -> Box<dyn Controller> {
    move |limits| Box::new(Fixed::new(Settings { window, concurrency, part: MIB, memory: limits.memory }))
}

fn family(name: &str) -> Family {
    *FAMILIES.iter().find(|family| family.name == name).expect("a known family")
}

#[test]
fn every_family_draws_the_same_from_the_same_seed_and_can_be_judged() {
    for family in FAMILIES {
        for seed in 0..20 {
            let scenario = family.draw(seed);
            assert_eq!(format!("{scenario:?}"), format!("{:?}", family.draw(seed)), "{}", family.name);
            assert!(!scenario.judged.is_empty());
            for &judged in &scenario.judged {
                assert!(
                    judged.until > judged.from + assess::CONVERGE && judged.until <= scenario.setup.duration
                );
                let best = scenario.best(judged);
                assert_eq!(best.len(), scenario.present(judged).len());
                assert!(
                    !best.is_empty() && best.iter().all(|rate| *rate > 0.0),
                    "{} {seed}: {best:?}",
                    family.name
                );
            }
        }
    }
}

/// A window that is far too small is found out, one that is large enough is not.
#[test]
fn the_judge_tells_good_from_bad() {
    let family = [family("one-stream")];
    let bad = run_all(&family, 0, 4, &fixed(2 * MIB, 2));
    assert!(bad[0].broken.contains(&"median") && bad[0].broken.contains(&"converged"), "{:?}", bad[0]);
    let good = run_all(&family, 0, 4, &fixed(200 * MIB, 256));
    assert!(good[0].median > 0.97 && good[0].violations.is_empty(), "{:?}", good[0]);
}

/// Nobody beats the oracle where nothing was laid in before, by more than what the edges of a measurement give.
#[test]
fn the_oracle_is_a_bound() {
    for name in ["one-stream", "many-streams", "hangs", "slow-reader", "random", "strided", "slow-endpoint"] {
        let scenario = family(name).draw(3);
        let judgement = judge(&scenario, &scenario.run(&fixed(128 * MIB, 256)));
        assert!(judgement.ratio < 1.05, "{name}: {judgement:?}");
        assert!(judgement.violations.is_empty(), "{name}: {judgement:?}");
    }
}
