//! Reads without a system call: page faults. The time is that of touching each page for the first time.

use super::{Case, Measure, Place, Plan};
use crate::worker::{Access, Order, Work};

/// All cold.
pub const CASES: &[Case] = &[
    Case {
        id: "mmap/sequential",
        title: "a large file from first to last",
        measure: Measure::Throughput,
        plan: |place| mapped(place, Order::Sequential, 1 << 20),
    },
    Case {
        id: "mmap/random",
        title: "4 KiB pages anywhere",
        measure: Measure::Rate("pages"),
        plan: |place| mapped(place, Order::Random { seed: 11, operations: place.scale.random }, 4 << 10),
    },
];

fn mapped(place: &Place, order: Order, block: u64) -> Plan {
    let threads = vec![vec![place.whole(&place.scale.big_file())]];
    Plan::reads(place.measured(Work::Read { threads, order, block, access: Access::Mapped }))
}
