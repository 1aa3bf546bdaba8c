//! What is recorded of one request of the kernel, again and again, for callgrind to count its instructions:
//!
//! ```text
//! cargo build --release -p headrace-metrics --example recording
//! for n in 1000 2000; do
//!     valgrind --tool=callgrind --callgrind-out-file=/dev/null target/release/examples/recording $n
//! done
//! ```
//!
//! The difference, divided by 1000, is the cost of one. Valgrind has no fast clock: each of the two readings of it is a system
//! call there, and counts as some ten instructions.

use std::hint::black_box;
use std::time::Instant;

use headrace_metrics::{Counter, Histogram};

struct Counts {
    begun: Counter,
    operations: Box<[Histogram]>,
    read_bytes: Counter,
}

fn main() {
    let requests: u64 = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(1000);
    let operations = (0..54).map(|_| Histogram::new()).collect();
    let counts = Counts { begun: Counter::new(), operations, read_bytes: Counter::new() };
    for _ in 0..requests {
        let counts = black_box(&counts);
        counts.begun.increment();
        let started = black_box(Instant::now());
        let duration = started.elapsed();
        if let Some(operation) = counts.operations.get(black_box(15)) {
            operation.record(duration);
        }
        counts.read_bytes.add(black_box(4096));
    }
    println!("{}", counts.begun.get());
}
