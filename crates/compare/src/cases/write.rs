//! Large files are written, synced, and read back in a later mount.

use super::{Case, Measure, Place, Plan, check, unmeasured};
use crate::worker::{Fsync, Order, Section, Work};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// Of the choice of blocks.
const SEED: u64 = 13;
/// What the content of overwritten blocks is a function of.
const BY: u64 = 0x2000;

/// What fsync promises differs between subjects: the report says what.
pub const CASES: &[Case] = &[
    Case {
        id: "write/sequential",
        title: "a new file, 1 MiB, fsync at the end",
        measure: Measure::Throughput,
        plan: sequential,
    },
    Case {
        id: "write/random",
        title: "4 KiB anywhere in a file, fsync at the end",
        measure: Measure::Rate("writes"),
        plan: random,
    },
    Case {
        id: "write/fsync",
        title: "4 KiB appended, fsync each time",
        measure: Measure::Rate("writes"),
        plan: fsync,
    },
];

fn sequential(place: &Place) -> Plan {
    written(place, place.fresh(place.scale.written), MIB, Fsync::End)
}

fn fsync(place: &Place) -> Plan {
    written(place, place.fresh(place.scale.random * 4 * KIB), 4 * KIB, Fsync::Each)
}

fn written(place: &Place, file: Section, block: u64, sync: Fsync) -> Plan {
    let work = Work::Write { file: file.clone(), order: Order::Sequential, block, sync };
    let path = file.path.clone();
    let mut plan = Plan::writes(place.measured(work), move |outcome| {
        vec![check(Section { len: outcome.bytes, ..file.clone() })]
    });
    plan.remove = vec![path];
    plan
}

fn random(place: &Place) -> Plan {
    let file = place.fresh(place.scale.rewritten);
    let block = 4 * KIB;
    let operations = place.scale.random;
    let timed = Work::Overwrite { file: file.clone(), by: BY, seed: SEED, operations, block };
    let whole = Work::Write { file: file.clone(), order: Order::Sequential, block: MIB, sync: Fsync::End };
    let remove = vec![file.path.clone()];
    let check =
        move |operations| Work::Rewritten { file: file.clone(), by: BY, seed: SEED, operations, block };
    let mut plan =
        Plan::writes(place.measured(timed), move |outcome| vec![unmeasured(check(outcome.operations))]);
    plan.setup = vec![unmeasured(whole)];
    plan.remove = remove;
    plan
}
