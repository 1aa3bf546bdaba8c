//! Two daemons for one volume, each with a state directory and a mount point of its own, as on two machines: never two
//! writers, never a lost acknowledged write.
//!
//! `HEADRACE_RACE_ROUNDS` sets the number of rounds for each store; they are spread over several volumes side by side, so
//! that the waiting for leases overlaps.

mod duel;

use duel::{Duel, Tally};
use headrace_testbed::volume::native_only;
use headrace_testbed::{Backing, Rng, env_number};

/// Volumes that are fought over at the same time.
const VOLUMES: u64 = 4;

fn race(backing: Backing, default_rounds: u64) {
    if native_only() {
        return;
    }
    let rounds = env_number("HEADRACE_RACE_ROUNDS", default_rounds);
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("clock after 1970");
    let seed = env_number("HEADRACE_RACE_SEED", clock.as_micros() as u64);
    println!("race on {backing:?}: {rounds} rounds; HEADRACE_RACE_SEED={seed}");
    let volumes = VOLUMES.min(rounds).max(1);
    let mut rng = Rng::new(seed);
    let seeds: Vec<u64> = (0..volumes).map(|_| rng.next_u64()).collect();
    let mut tally = Tally::default();
    std::thread::scope(|scope| {
        let fights: Vec<_> = seeds
            .iter()
            .enumerate()
            .map(|(number, seed)| {
                let share = rounds / volumes + u64::from((number as u64) < rounds % volumes);
                scope.spawn(move || Duel::new(backing, *seed).fight(share))
            })
            .collect();
        for fight in fights {
            match fight.join() {
                Ok(one) => tally.add(&one),
                Err(panic) => {
                    eprintln!("race on {backing:?}: HEADRACE_RACE_SEED={seed}");
                    std::panic::resume_unwind(panic);
                }
            }
        }
    });
    println!("race on {backing:?}: {rounds} rounds, {tally}");
    tally.check(rounds);
}

#[test]
fn two_machines_never_both_write_a_bucket() {
    race(Backing::S3, 6);
}

#[test]
fn two_machines_never_both_write_a_shared_directory() {
    race(Backing::Local, 6);
}
