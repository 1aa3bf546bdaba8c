//! Decisions about flow: a thousand of each.
#![allow(missing_docs, unsafe_code, reason = "what the macros of gungraun write")]

#[path = "common/measure.rs"]
mod common;

use std::hint::black_box;
use std::time::Duration;

use common::{DECISIONS, config};
use gungraun::main;
use gungraun::prelude::*;
use headrace_flow::admission::{Admit, Budget};
use headrace_flow::backoff::{Backoff, Failure, Policy};
use headrace_flow::memory::MemoryPlan;
use headrace_flow::pause::Pause;

const MIB: u64 = 1 << 20;

fn half_full() -> Budget {
    let mut budget = Budget::new(64 * MIB);
    budget.force(32 * MIB);
    budget
}

fn full() -> Budget {
    let mut budget = Budget::new(64 * MIB);
    budget.force(64 * MIB);
    budget
}

// There is room: what every write and read pays.
#[library_benchmark]
#[bench::at_once(half_full())]
fn admission_granted(mut budget: Budget) -> Budget {
    for _ in 0..DECISIONS {
        assert_eq!(black_box(&mut budget).request(black_box(4096)), Admit::Granted);
        black_box(budget.release(4096));
    }
    budget
}

// There is no room: each waits, and is let in by what another gives back.
#[library_benchmark]
#[bench::in_turn(full())]
fn admission_queued(mut budget: Budget) -> Budget {
    for _ in 0..DECISIONS {
        black_box(black_box(&mut budget).request(black_box(4096)));
    }
    for _ in 0..DECISIONS {
        black_box(budget.release(black_box(4096)));
    }
    budget
}

#[library_benchmark]
#[bench::transient(Failure::Transient)]
#[bench::throttled(Failure::Throttled)]
fn backoff(failure: Failure) -> Backoff {
    let mut state = Backoff::new(Policy::default(), 7);
    for n in 0..DECISIONS {
        black_box(state.failed(Duration::from_millis(n), black_box(failure), None));
    }
    state
}

#[library_benchmark]
#[bench::asked_and_lifted(Pause::new(Duration::from_secs(30)))]
fn pause(mut pause: Pause) -> Pause {
    for n in 0..DECISIONS {
        let now = Duration::from_millis(10 * n);
        black_box(&mut pause).throttled(now, black_box(None));
        black_box(pause.remaining(now));
        pause.succeeded();
    }
    pause
}

#[library_benchmark]
#[bench::of_a_gibibyte(1 << 30)]
fn memory_plan(ceiling: u64) -> u64 {
    (0..DECISIONS).map(|n| black_box(MemoryPlan::new(black_box(ceiling + n), 16 * MIB)).dirty).sum()
}

library_benchmark_group!(
    name = decisions,
    benchmarks = [admission_granted, admission_queued, backoff, pause, memory_plan]
);
main!(config = config(), library_benchmark_groups = decisions);
