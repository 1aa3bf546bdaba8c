//! Readers, of whom the file system hears nothing.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::Ordering;

use headrace_testbed::process::install_program;

use super::{Passed, all, pattern};
use crate::mapping::Mapping;
use crate::memory::opens::Way;

const LEN: usize = (3 << 20) + 17;

#[test]
fn reads_come_from_the_disk_alone() {
    let data = pattern(LEN);
    let passed = Passed::with("f", &data);
    assert_eq!(*passed.fs().passing.possible.lock().unwrap(), Some(Ok(())));
    let (reads, flushes) = (passed.reads(), passed.fs().counts.flushes.load(Ordering::Relaxed));
    let file = passed.open("f", Way::Passed).unwrap();
    assert_eq!(file.metadata().unwrap().len(), LEN as u64);
    assert!(all(&file) == data);
    let mut space = [0; 100];
    assert_eq!(file.read_at(&mut space, LEN as u64 - 10).unwrap(), 10);
    assert_eq!(space[..10], data[LEN - 10..]);
    assert_eq!(file.read_at(&mut space, LEN as u64).unwrap(), 0);
    drop(file);
    assert!(fs::read(passed.path("f")).unwrap() == data);
    assert_eq!(passed.reads(), reads);
    assert_eq!(passed.fs().counts.flushes.load(Ordering::Relaxed), flushes, "no flush of a read-only open");
    assert!(passed.fs().passing.refusals.lock().unwrap().is_empty());
}

#[test]
fn mappings_are_of_the_file_on_the_disk() {
    let data = pattern(LEN);
    let passed = Passed::with("f", &data);
    let reads = passed.reads();
    let file = passed.open("f", Way::Passed).unwrap();
    let mappings = [Mapping::shared(&file, LEN).unwrap(), Mapping::private(&file, LEN).unwrap()];
    drop(file);
    for mapping in &mappings {
        assert!(mapping.read(0, LEN) == data);
    }
    assert_eq!(passed.reads(), reads);
}

#[test]
fn programs_run_from_it() {
    let passed = Passed::new();
    install_program("/usr/bin/id".as_ref(), &passed.path("id"));
    passed.left("id", 0);
    let reads = passed.reads();
    drop(passed.open("id", Way::Passed).unwrap());
    let output = std::process::Command::new(passed.path("id")).arg("-u").output().unwrap();
    assert_eq!(output.stdout, b"0\n");
    assert_eq!(passed.reads(), reads);
}

#[test]
fn many_opens_of_a_file_have_one_backing_file() {
    let data = pattern(100_000);
    let passed = Passed::with("f", &data);
    let first = passed.open("f", Way::Passed).unwrap();
    let second = passed.open("f", Way::Passed).unwrap();
    assert!(all(&first) == data && all(&second) == data);
    drop(first);
    // The second still holds what the first was given.
    let third = passed.open("f", Way::Passed).unwrap();
    drop(second);
    assert!(all(&third) == data);
    drop(third);
    assert!(all(&passed.open("f", Way::Passed).unwrap()) == data);
}

/// So nothing needs to tell the kernel to drop pages before a file is passed through, nor after.
#[test]
fn the_first_open_that_is_passed_through_drops_what_was_cached() {
    let data = pattern(100_000);
    let passed = Passed::with("f", &data);
    let cached = |expected: &[u8]| {
        let reads = passed.reads();
        assert!(all(&passed.open("f", Way::Cached).unwrap()) == expected);
        passed.left("f", 0);
        passed.reads() - reads
    };
    cached(&data);
    assert_eq!(cached(&data), 0, "the kernel keeps its pages from one open to the next");
    let file = passed.open("f", Way::Passed).unwrap();
    passed.fs().poke(b"f", &data[1..]);
    assert!(all(&file) == data[1..]);
    drop(file);
    passed.left("f", 0);
    assert!(cached(&data[1..]) > 0);
    assert_eq!(cached(&data[1..]), 0);
}
