//! Where the kernel does not take a backing file, the file is read all the same.

use std::fs::{self, File};

use super::{Passed, all, pattern};
use crate::memory::MemFs;
use crate::memory::opens::{Choice, Way};
use crate::support::Mounted;

fn refusals(fs: &MemFs) -> Vec<Option<i32>> {
    fs.passing.refusals.lock().unwrap().iter().map(|errno| Some(errno.raw())).collect()
}

#[test]
fn without_the_privilege_files_are_read_here() {
    let data = pattern(50_000);
    let passed = Passed::with("f", &data);
    passed.fs().choose("f", Choice::Unprivileged);
    let first = File::open(passed.path("f")).unwrap();
    assert!(all(&first) == data);
    // More of them, side by side.
    assert!(fs::read(passed.path("f")).unwrap() == data);
    assert_eq!(refusals(passed.fs()), [Some(libc::EPERM); 2]);
    assert!(passed.reads() > 0);
    drop(first);
    let made = passed.path("made");
    fs::write(&made, &data).unwrap();
    assert!(fs::read(&made).unwrap() == data);
}

#[test]
fn a_file_on_a_stacked_file_system_is_read_here() {
    // Which a mount that passes files through is.
    let below = Passed::new();
    fs::create_dir(below.path("cache")).unwrap();
    let fs = MemFs::with_backing(&below.path("cache"));
    let mounted = Mounted::with(fs, "");
    let data = pattern(50_000);
    fs::write(mounted.path("f"), &data).unwrap();
    mounted.fs.choose("f", Choice::Always(Way::Passed));
    assert!(fs::read(mounted.path("f")).unwrap() == data);
    assert_eq!(refusals(&mounted.fs), [Some(libc::ELOOP)]);
}
