//! The power goes: what was acknowledged as durable is there afterwards, and what is there is consistent.
//!
//! Everything runs on a disk in memory behind a real mount, which forgets at random what was not synced: see
//! `headrace_testbed::power` for what it may forget. Each round goes on from what the last one left, so that recovery after
//! recovery is tested too.
//!
//! `HEADRACE_POWERCUT_ROUNDS` sets the number of power cuts for the engine, and a tenth of it for whole volumes.

mod engine;
mod mounted_disk;
mod volume;

use headrace_testbed::env_number;
use headrace_testbed::volume::native_only;

/// The seed of a test, printed so that a failure can be repeated as far as threads allow.
fn seed(what: &str, rounds: u64) -> u64 {
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("clock after 1970");
    let seed = env_number("HEADRACE_POWERCUT_SEED", clock.as_micros() as u64);
    println!("power cuts under {what}: {rounds} rounds; HEADRACE_POWERCUT_SEED={seed}");
    seed
}

fn rounds(default: u64) -> u64 {
    env_number("HEADRACE_POWERCUT_ROUNDS", default)
}

#[test]
fn the_engine_keeps_what_it_said_is_durable() {
    if native_only() {
        return;
    }
    let rounds = rounds(60);
    engine::power_cuts(rounds, seed("the embedded engine", rounds));
}

#[test]
fn a_volume_keeps_what_it_acknowledged() {
    if native_only() {
        return;
    }
    let rounds = rounds(60).div_ceil(10);
    volume::power_cuts(rounds, seed("a volume in a directory", rounds));
}

/// Not a test: the process that uses the engine, started by the first test.
#[test]
fn engine_process() {
    engine::process();
}
