//! Patterns that readahead by the last offset alone does not understand.

use super::{Case, Measure, Place, Plan, read};
use crate::worker::Order;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// All cold.
pub const CASES: &[Case] = &[
    Case {
        id: "streams/4-on-one",
        title: "4 streams in turns on one descriptor, 128 KiB",
        measure: Measure::Throughput,
        plan: |place| of_big(place, Order::Interleaved { streams: 4 }, 128 * KIB),
    },
    Case {
        id: "streams/strided",
        title: "64 KiB of every MiB",
        measure: Measure::Throughput,
        plan: |place| of_big(place, Order::Strided { stride: MIB }, 64 * KIB),
    },
];

fn of_big(place: &Place, order: Order, block: u64) -> Plan {
    Plan::reads(place.measured(read(vec![vec![place.whole(&place.scale.big_file())]], order, block)))
}
