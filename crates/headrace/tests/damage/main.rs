//! Damage to what is stored: an error that names the file, never wrong bytes, and the rest of the volume stays usable.
//!
//! Every case damages a copy of one volume, mounts it, reads everything and compares it; on plain volumes and on encrypted
//! ones. `HEADRACE_DAMAGE_CASES` sets the number of cases of each test.

mod bucket;
mod engine;
mod harm;
mod segments;
mod specimen;

use headrace_testbed::volume::native_only;
use headrace_testbed::{Rng, env_number};
use specimen::Specimen;

/// Runs `test` on a plain and on an encrypted volume.
fn on_both(what: &str, test: impl Fn(&Specimen, &mut Rng, u64)) {
    if native_only() {
        return;
    }
    let cases = env_number("HEADRACE_DAMAGE_CASES", 10);
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("clock after 1970");
    let seed = env_number("HEADRACE_DAMAGE_SEED", clock.as_micros() as u64);
    println!("{what}: {cases} cases each; HEADRACE_DAMAGE_SEED={seed}");
    for encrypted in [false, true] {
        let specimen = Specimen::new(encrypted);
        test(&specimen, &mut Rng::new(seed), cases);
    }
}

#[test]
fn damaged_segments_are_errors_of_the_files_in_them() {
    on_both("damaged segments", segments::damage);
}

#[test]
fn damaged_engine_files_are_refused_and_the_bucket_brings_them_back() {
    on_both("damaged engine files", engine::damage);
}

#[test]
fn damaged_log_objects_and_snapshots_are_named_or_made_up_for() {
    on_both("damaged log objects and snapshots", bucket::damage);
}
