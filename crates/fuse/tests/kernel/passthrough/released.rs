//! Backing files are given back: nobody, the kernel neither, has them open any longer than needed.

use std::fs::{self, File};
use std::os::fd::AsRawFd as _;
use std::path::Path;

use super::{Passed, all, pattern};
use crate::mapping::Mapping;
use crate::memory::opens::{Choice, Way};
use crate::support::eventually;

/// Whether nobody else has a file open, by whatever way: only then a lease for writing is given.
fn nobody_has(path: &Path) -> bool {
    let file = File::options().read(true).write(true).open(path).unwrap();
    // SAFETY: F_SETLEASE takes an integer and touches no memory.
    #[allow(unsafe_code)]
    let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK) };
    let error = std::io::Error::last_os_error();
    assert!(result == 0 || error.raw_os_error() == Some(libc::EAGAIN), "{error}");
    result == 0
}

#[test]
fn with_the_last_release_of_an_open_that_has_it() {
    let data = pattern(50_000);
    let passed = Passed::with("f", &data);
    let backing = passed.fs().backing_path("f");
    for _ in 0..3 {
        let first = passed.open("f", Way::Passed).unwrap();
        let second = passed.open("f", Way::PassedDirect).unwrap();
        drop(first);
        assert!(all(&second) == data);
        assert_eq!((passed.fs().passing.alive(), nobody_has(&backing)), (1, false));
        drop(second);
        eventually("the daemon closes it", || passed.fs().passing.alive() == 0);
        eventually("the kernel closes it", || nobody_has(&backing));
    }
}

/// A mapping is one of the backing file from the start: it keeps that open, but not the file it was made of, as others do. What is
/// mapped may so be changed by nobody who thinks that it is no longer in use, and who wants to know asks for a lease.
#[test]
fn with_the_last_close_though_it_is_mapped() {
    let data = pattern(50_000);
    let passed = Passed::with("f", &data);
    let backing = passed.fs().backing_path("f");
    let file = passed.open("f", Way::Passed).unwrap();
    let mapping = Mapping::shared(&file, data.len()).unwrap();
    drop(file);
    eventually("it is released", || passed.fs().passing.alive() == 0);
    passed.fs().choose("f", Choice::ByName);
    fs::write(passed.path("f"), b"something else").unwrap();
    assert!(mapping.read(0, data.len()) == data);
    assert!(!nobody_has(&backing));
    drop(mapping);
    eventually("the kernel closes it", || nobody_has(&backing));
}

#[test]
fn with_the_end_of_the_connection() {
    let passed = Passed::with("f", &pattern(50_000));
    let backing = passed.fs().backing_path("f");
    let file = passed.open("f", Way::Passed).unwrap();
    assert!(all(&file) == pattern(50_000));
    passed.mounted.session.abort().unwrap();
    passed.mounted.session.wait();
    // Its release is never heard of, as those of other files are not. Whoever has it open goes on reading it.
    assert!(all(&file) == pattern(50_000));
    assert!(!nobody_has(&backing));
    drop(file);
    passed.fs().close_all();
    assert_eq!(passed.fs().passing.alive(), 0);
    eventually("the kernel closes it", || nobody_has(&backing));
}
