//! What passing through costs next to the disk itself. Prints figures, claims nothing.

use std::fmt;
use std::fs::{self, File};
use std::hint::black_box;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};

use super::{Passed, pattern};
use crate::memory::opens::Way;

const LARGE: usize = 200 << 20;
const ROUNDS: usize = 7;

/// Microseconds for one call: on the wall, and of processors, those of whoever serves the file among them.
#[derive(Clone, Copy)]
struct Cost {
    wall: f64,
    cpu: f64,
}

impl Cost {
    fn of(count: usize, mut call: impl FnMut()) -> Cost {
        let (begun, cpu) = (Instant::now(), cpu());
        (0..count).for_each(|_| call());
        let each = |seconds: f64| seconds * 1e6 / count as f64;
        Cost { wall: each(begun.elapsed().as_secs_f64()), cpu: each(self::cpu() - cpu) }
    }

    fn better(self, other: Cost) -> Cost {
        Cost { wall: self.wall.min(other.wall), cpu: self.cpu.min(other.cpu) }
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:7.2} wall {:7.2} cpu", self.wall, self.cpu)
    }
}

fn cpu() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn open_read_close(path: &Path) -> Cost {
    let mut space = [0; 4096];
    Cost::of(3000, || File::open(path).unwrap().read_exact_at(&mut space, 0).unwrap())
}

fn random_reads(file: &File) -> Cost {
    let mut space = [0; 4096];
    let mut at = 1_usize;
    Cost::of(200_000, || {
        at = at.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        file.read_exact_at(&mut space, ((at >> 33) % (LARGE / 4096) * 4096) as u64).unwrap();
        black_box(&space);
    })
}

fn sequential(file: &File) -> Cost {
    let mut space = vec![0; 1 << 20];
    let mut at = 0;
    Cost::of(LARGE >> 20, || {
        file.read_exact_at(&mut space, at).unwrap();
        at += 1 << 20;
    })
}

/// The best of several rounds in which all take turns.
fn compare(what: &str, cases: &mut [(&str, &mut dyn FnMut() -> Cost)]) {
    let mut best: Vec<Cost> = cases.iter_mut().map(|(_, case)| case()).collect();
    for _ in 0..ROUNDS {
        for (best, (_, case)) in best.iter_mut().zip(cases.iter_mut()) {
            *best = best.better(case());
        }
    }
    for (best, (name, _)) in best.iter().zip(cases) {
        println!("{what:22} {name:10} {best}");
    }
}

#[test]
#[ignore = "measures"]
fn against_the_disk() {
    let passed = Passed::with("small", &pattern(4096));
    for name in ["large", "kept"] {
        fs::write(passed.path(name), pattern(if name == "large" { LARGE } else { 4096 })).unwrap();
        passed.left(name, 0);
    }
    let native = |name: &str| passed.fs().backing_path(name);
    let (_small, large) =
        (passed.open("small", Way::Passed).unwrap(), passed.open("large", Way::Passed).unwrap());
    let disk = File::open(native("large")).unwrap();
    compare(
        "open+read 4K+close",
        &mut [
            ("native", &mut || open_read_close(&native("small"))),
            ("passed", &mut || open_read_close(&passed.path("small"))),
            ("page cache", &mut || open_read_close(&passed.path("kept"))),
        ],
    );
    compare(
        "random 4K pread",
        &mut [("native", &mut || random_reads(&disk)), ("passed", &mut || random_reads(&large))],
    );
    compare(
        "sequential 1M pread",
        &mut [("native", &mut || sequential(&disk)), ("passed", &mut || sequential(&large))],
    );
}
