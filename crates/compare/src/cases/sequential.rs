//! Whole files from the first to the last byte.

use super::{Case, Measure, Place, Plan, read};
use crate::worker::{Order, Section};

const MIB: u64 = 1 << 20;
const KIB: u64 = 1 << 10;

/// Each with the kernel's caches dropped and a daemon that has just been started.
pub const CASES: &[Case] = &[
    case("sequential/1-by-1m", "1 reader, 1 MiB", |place| one(place, MIB)),
    case("sequential/1-by-128k", "1 reader, 128 KiB", |place| one(place, 128 * KIB)),
    case("sequential/4-by-1m", "4 readers, 1 MiB", |place| four(place, MIB)),
    case("sequential/4-by-128k", "4 readers, 128 KiB", |place| four(place, 128 * KIB)),
    case("sequential/16-by-1m", "16 readers, 1 MiB", |place| parts(place, 16, MIB)),
    case("sequential/16-by-128k", "16 readers, 128 KiB", |place| parts(place, 16, 128 * KIB)),
    case("sequential/32-by-256k", "32 files at once, 256 KiB", |place| parts(place, 32, 256 * KIB)),
    case("sequential/again", "1 reader, 1 MiB, again", again),
];

const fn case(id: &'static str, title: &'static str, plan: fn(&Place) -> Plan) -> Case {
    Case { id, title, measure: Measure::Throughput, plan }
}

fn one(place: &Place, block: u64) -> Plan {
    sections(place, vec![vec![place.whole(&place.scale.big_file())]], block)
}

fn four(place: &Place, block: u64) -> Plan {
    let files = place.scale.middle_files();
    sections(place, files.iter().map(|file| vec![place.whole(file)]).collect(), block)
}

fn parts(place: &Place, readers: usize, block: u64) -> Plan {
    let files = place.scale.part_files();
    sections(place, files.iter().take(readers).map(|file| vec![place.whole(file)]).collect(), block)
}

/// The same file once more, with all that caches kept of it.
fn again(place: &Place) -> Plan {
    let mut plan = one(place, MIB);
    plan.before = vec![plan.timed.clone()];
    plan
}

fn sections(place: &Place, threads: Vec<Vec<Section>>, block: u64) -> Plan {
    Plan::reads(place.measured(read(threads, Order::Sequential, block)))
}
