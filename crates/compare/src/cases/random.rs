//! Blocks anywhere in a large file: one after the other with `pread`, and 64 at once with libaio.

use super::{Case, Measure, Place, Plan, check, read};
use crate::worker::{Order, Work};

const KIB: u64 = 1 << 10;
/// Of the choice of blocks.
const SEED: u64 = 7;
/// Reads in flight.
const DEPTH: u32 = 64;

/// Cold, unless they say otherwise. A warm read is of a block that was read before in the same mount.
pub const CASES: &[Case] = &[
    case("random/4k", "4 KiB, one at a time", |place| one_at_a_time(place, 4 * KIB)),
    case("random/4k-warm", "4 KiB, one at a time, warm", |place| warm(one_at_a_time(place, 4 * KIB))),
    case("random/128k", "128 KiB, one at a time", |place| one_at_a_time(place, 128 * KIB)),
    case("random/128k-warm", "128 KiB, one at a time, warm", |place| warm(one_at_a_time(place, 128 * KIB))),
    case("random/4k-libaio", "4 KiB, libaio, 64 at once", |place| many_at_once(place, 4 * KIB)),
    case("random/4k-libaio-warm", "4 KiB, libaio, 64 at once, warm", |place| {
        warm(many_at_once(place, 4 * KIB))
    }),
    case("random/128k-libaio", "128 KiB, libaio, 64 at once", |place| many_at_once(place, 128 * KIB)),
];

const fn case(id: &'static str, title: &'static str, plan: fn(&Place) -> Plan) -> Case {
    Case { id, title, measure: Measure::Rate("reads"), plan }
}

fn one_at_a_time(place: &Place, block: u64) -> Plan {
    let order = Order::Random { seed: SEED, operations: place.scale.random };
    Plan::reads(place.measured(read(vec![vec![place.whole(&place.scale.big_file())]], order, block)))
}

/// fio does not check what it reads: our own reader reads the whole file in the next mount.
fn many_at_once(place: &Place, block: u64) -> Plan {
    let file = place.whole(&place.scale.big_file());
    let operations = place.scale.random * 2;
    let timed = place.measured(Work::Fio { file: file.path.clone(), block, depth: DEPTH, operations });
    let mut plan = Plan::reads(timed);
    plan.after = Box::new(move |_| vec![check(file.clone())]);
    plan
}

fn warm(mut plan: Plan) -> Plan {
    plan.before = vec![plan.timed.clone()];
    plan
}
