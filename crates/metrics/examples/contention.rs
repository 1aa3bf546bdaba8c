//! What recording costs: alone, and when all threads record the same thing at the same time.
//!
//! `cargo run --release -p headrace-metrics --example contention`

use std::hint::black_box;
use std::time::{Duration, Instant};

use headrace_metrics::Histogram;

const VALUES: u32 = 5_000_000;

fn main() {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    for threads in [1, cores, 4 * cores] {
        let histogram = Histogram::new();
        let began = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    for value in 0..VALUES {
                        histogram.record(black_box(Duration::from_nanos(u64::from(value & 0xf_ffff))));
                    }
                });
            }
        });
        // Of one core: threads beyond the cores take turns.
        let busy = began.elapsed() * threads.min(cores) as u32 / threads as u32;
        println!("{threads:3} threads: {:5.1} ns a value", busy.as_nanos() as f64 / f64::from(VALUES));
    }
}
