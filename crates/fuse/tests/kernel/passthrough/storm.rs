//! Opens, reads, mappings, writes and truncations at random, by many threads, of files whose opens are answered in every way that the
//! kernel allows: nothing fails, and every byte is right.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::RwLock;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::Passed;
use crate::mapping::Mapping;
use crate::memory::opens::{Choice, Way};
use crate::support::{Process, eventually};

const THREADS: u64 = 8;
const LARGEST: usize = 150_000;

/// xorshift64*
struct Random(u64);

impl Random {
    fn next(&mut self) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize
    }

    fn below(&mut self, limit: usize) -> usize {
        self.next() % limit
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        let first = self.next();
        (0..len).map(|i| (first ^ i.wrapping_mul(37) ^ (i >> 7)) as u8).collect()
    }
}

/// A file, and what must be in it. Who changes it excludes those who look; opening and closing go on meanwhile.
struct Subject {
    name: String,
    expected: RwLock<Vec<u8>>,
}

struct Open<'a> {
    subject: &'a Subject,
    file: File,
    writable: bool,
    mapping: Option<Mapping>,
}

impl Open<'_> {
    /// A part of the file as it is read, or as it is mapped.
    fn check(&self, random: &mut Random) {
        let expected = self.subject.expected.read().unwrap();
        let at = random.below(expected.len() + 10);
        let len = random.below(40_000);
        let mut bytes = vec![0; len];
        let mut got = 0;
        while got < len {
            match self.file.read_at(&mut bytes[got..], (at + got) as u64).unwrap() {
                0 => break,
                more => got += more,
            }
        }
        let wanted = &expected[at.min(expected.len())..(at + len).min(expected.len())];
        let differing =
            || bytes[..got].iter().zip(wanted).enumerate().filter(|(_, (got, wanted))| got != wanted);
        assert!(
            bytes[..got] == *wanted,
            "{}: {got} of {} bytes at {at} of {}; {} differ, {} of them are 0, from {:?} to {:?}",
            self.subject.name,
            wanted.len(),
            expected.len(),
            differing().count(),
            differing().filter(|(_, (got, _))| **got == 0).count(),
            differing().next().map(|(index, _)| at + index),
            differing().next_back().map(|(index, _)| at + index),
        );
        if let Some(mapping) = &self.mapping {
            let end = expected.len().min(mapping.len());
            let at = random.below(end + 1);
            let len = random.below(end - at + 1);
            assert!(
                mapping.read(at, len) == expected[at..at + len],
                "{}: mapped {len} at {at}",
                self.subject.name
            );
        }
    }

    fn map(&mut self, random: &mut Random) {
        let map = if random.below(2) == 0 { Mapping::shared } else { Mapping::private };
        self.mapping = Some(map(&self.file, 1 + random.below(LARGEST)).unwrap());
    }

    fn change(&self, random: &mut Random) {
        let mut expected = self.subject.expected.write().unwrap();
        if random.below(4) == 0 {
            let len = random.below(LARGEST);
            expected.resize(len, 0);
            self.file.set_len(len as u64).unwrap();
        } else {
            let at = random.below(LARGEST - 20_000);
            let len = 1 + random.below(20_000);
            let piece = random.bytes(len);
            if expected.len() < at + len {
                expected.resize(at + len, 0);
            }
            expected[at..at + len].copy_from_slice(&piece);
            self.file.write_all_at(&piece, at as u64).unwrap();
        }
    }
}

fn one_thread(root: &Path, subjects: &[Subject], seed: u64, operations: usize) {
    let mut random = Random(seed);
    let mut open: Vec<Open<'_>> = Vec::new();
    for _ in 0..operations {
        let which = random.below(open.len().max(1));
        match random.below(12) {
            0..=3 if open.len() < 5 => {
                let subject = &subjects[random.below(subjects.len())];
                let writable = random.below(3) == 0;
                let file = File::options().read(true).write(writable).open(root.join(&subject.name));
                let file = file.unwrap_or_else(|error| panic!("{}: {error}", subject.name));
                open.push(Open { subject, file, writable, mapping: None });
            }
            0..=3 => drop(open.swap_remove(which)),
            _ if open.is_empty() => {}
            4 => open[which].map(&mut random),
            5 => open[which].mapping = None,
            6 | 7 if open[which].writable => open[which].change(&mut random),
            8 | 9 => drop(open.swap_remove(which)),
            _ => open[which].check(&mut random),
        }
    }
}

/// The files, as they are at first.
fn subjects(seed: u64) -> Vec<Subject> {
    (0..8)
        .map(|index| Subject {
            name: format!("f{index}"),
            expected: RwLock::new(Random(seed + index).bytes(10_000 * index as usize)),
        })
        .collect()
}

const PLACE: &str = "HEADRACE_TEST_STORM";

/// Not a test of its own: those who use the files. A process that maps them must not be the one that serves them, for the kernel
/// may wait for pages while it holds the lock of the process's memory, which whoever serves them may need.
#[test]
#[ignore = "run by nothing_fails_and_every_byte_is_right"]
fn everybody() {
    let Some(place) = std::env::var_os(PLACE) else { return };
    let number = |name: &str| std::env::var(name).unwrap().parse::<u64>().unwrap();
    let (operations, seed) = (number("OPERATIONS") as usize, number("SEED"));
    let (root, subjects) = (Path::new(&place), subjects(seed));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let subjects = &subjects;
            scope.spawn(move || {
                let seed = (seed ^ (thread + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)) | 1;
                one_thread(root, subjects, seed, operations / THREADS as usize);
            });
        }
    });
    for subject in &subjects {
        assert!(fs::read(root.join(&subject.name)).unwrap() == *subject.expected.read().unwrap());
    }
}

/// With `operations` in all.
fn storm(operations: usize, seed: u64) {
    let passed = Passed::new();
    for (index, subject) in (0..).zip(subjects(seed)) {
        fs::write(passed.path(&subject.name), &*subject.expected.read().unwrap()).unwrap();
        passed.fs().choose(&subject.name, Choice::Any { random: (seed + index) | 1 });
    }
    let mut everybody = Process::spawn(
        Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture", "passthrough::storm::everybody"])
            .env(PLACE, passed.mounted.root())
            .env("OPERATIONS", operations.to_string())
            .env("SEED", seed.to_string())
            .stdout(Stdio::null()),
    );
    let deadline = Instant::now() + Duration::from_secs(100 + operations as u64 / 100);
    let status = loop {
        match everybody.0.try_wait().unwrap() {
            Some(status) => break status,
            None => std::thread::sleep(Duration::from_millis(10)),
        }
        assert!(Instant::now() < deadline, "they are stuck");
    };
    assert!(status.success(), "seed {seed}: {status}");
    let passing = &passed.fs().passing;
    assert!(passing.refusals.lock().unwrap().is_empty());
    let ways = Way::ALL.map(|way| passing.ways[way as usize].load(Ordering::Relaxed));
    println!("opens: {:?} {ways:?}", Way::ALL);
    assert!(ways.iter().all(|opens| *opens > operations / 400), "{ways:?}");
    eventually("every backing file is closed", || passing.alive() == 0);
}

#[test]
fn nothing_fails_and_every_byte_is_right() {
    storm(20_000, 8);
}

#[test]
#[ignore = "minutes; the same for longer"]
fn nothing_fails_for_long() {
    for seed in 1..=20 {
        storm(100_000, seed);
    }
}
