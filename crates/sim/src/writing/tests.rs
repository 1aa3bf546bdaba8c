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
