//! Which opens of a file the kernel allows side by side. Why a file system has to count them.

use std::os::unix::fs::FileExt as _;
use std::sync::atomic::Ordering;

use super::{Passed, all, pattern};
use crate::mapping::Mapping;
use crate::memory::opens::Way;
use crate::support::eventually;

fn error<T>(result: std::io::Result<T>) -> Option<i32> {
    result.err().and_then(|error| error.raw_os_error())
}

#[test]
fn a_cached_open_keeps_a_file_from_being_passed_through() {
    let data = pattern(50_000);
    let passed = Passed::with("f", &data);
    let cached = passed.open("f", Way::Cached).unwrap();
    assert_eq!(error(passed.open("f", Way::Passed)), Some(libc::EIO));
    assert_eq!(error(passed.open("f", Way::PassedDirect)), Some(libc::EIO));
    // While it is mapped too.
    let mapping = Mapping::shared(&cached, data.len()).unwrap();
    drop(cached);
    assert_eq!(error(passed.open("f", Way::Passed)), Some(libc::EIO));
    assert!(mapping.read(0, data.len()) == data);
    drop(mapping);
    passed.left("f", 0);
    assert!(all(&passed.open("f", Way::Passed).unwrap()) == data);
    // The kernel released the opens it had refused, so that none is counted for ever.
    eventually("every open is released", || {
        let opens: usize = passed.fs().passing.ways.iter().map(|ways| ways.load(Ordering::SeqCst)).sum();
        passed.fs().counts.releases.load(Ordering::SeqCst) == opens
    });
    eventually("the backing file is closed", || passed.fs().passing.alive() == 0);
}

#[test]
fn a_file_that_is_passed_through_is_not_opened_otherwise() {
    let data = pattern(50_000);
    let passed = Passed::with("f", &data);
    let file = passed.open("f", Way::Passed).unwrap();
    assert_eq!(error(passed.open("f", Way::Cached)), Some(libc::EIO));
    assert_eq!(error(passed.open("f", Way::Direct)), Some(libc::EIO));
    drop(passed.open("f", Way::PassedDirect).unwrap());
    assert!(all(&file) == data);
    drop(file);
    passed.left("f", 0);
    // One that reads and writes here counts as well.
    let file = passed.open("f", Way::PassedDirect).unwrap();
    assert_eq!(error(passed.open("f", Way::Cached)), Some(libc::EIO));
    assert!(all(&passed.open("f", Way::Passed).unwrap()) == data);
    assert!(all(&file) == data);
    drop(file);
    passed.left("f", 0);
    assert!(all(&passed.open("f", Way::Cached).unwrap()) == data);
}

#[test]
fn a_file_open_in_direct_mode_can_be_passed_through_to_others() {
    let mut data = pattern(50_000);
    let passed = Passed::with("f", &data);
    let direct = passed.open_writable("f", Way::Direct).unwrap();
    let file = passed.open("f", Way::Passed).unwrap();
    assert!(all(&direct) == data && all(&file) == data);
    direct.write_all_at(b"to all", 4000).unwrap();
    data[4000..4006].copy_from_slice(b"to all");
    assert!(all(&direct) == data && all(&file) == data);
    // It came before and knows of no backing file.
    assert_eq!(error(Mapping::shared(&direct, 100)), Some(libc::ENODEV));
    assert_eq!(error(Mapping::private(&direct, 100)), Some(libc::ENODEV));
    drop(file);
    passed.left("f", 1);
    // And mapped first, it keeps the file from being passed through, as a cached open does.
    let mapping = Mapping::shared(&direct, data.len()).unwrap();
    assert_eq!(error(passed.open("f", Way::Passed)), Some(libc::EIO));
    assert!(mapping.read(0, data.len()) == data);
    drop(mapping);
    assert_eq!(error(passed.open("f", Way::Passed)), Some(libc::EIO), "until it is closed");
    drop(direct);
    passed.left("f", 0);
    assert!(all(&passed.open("f", Way::Passed).unwrap()) == data);
}
