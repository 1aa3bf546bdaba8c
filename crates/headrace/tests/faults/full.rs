//! Disks that are full: under a local store, and under the metadata engine.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use headrace_testbed::process::wait_until;
use headrace_testbed::volume::native_only;
use headrace_testbed::{Backing, Mounted, SmallDisk, TestVolume, pattern};
use rustix::io::Errno;

use super::{assert_flushed_by_itself, assert_same, close, impatient};

const MIB: u64 = 1 << 20;

/// Writes files until there is no room; those that an fsync answered for.
fn fill(dir: &Path, size: usize) -> (Vec<(PathBuf, u64)>, io::Error) {
    let mut safe = Vec::new();
    let began = Instant::now();
    for seed in 0.. {
        assert!(began.elapsed() < Duration::from_secs(100), "the disk does not become full");
        let path = dir.join(format!("file-{seed}"));
        let result = File::create(&path).and_then(|file| {
            file.write_all_at(&pattern(seed, size), 0)?;
            file.sync_all()?;
            close(file)
        });
        match result {
            Ok(()) => safe.push((path, seed)),
            Err(error) => return (safe, error),
        }
    }
    unreachable!("the numbers do not end")
}

fn assert_safe(safe: &[(PathBuf, u64)], size: usize) {
    for (path, seed) in safe {
        let found = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_same(&path.display().to_string(), &found, &pattern(*seed, size));
    }
}

/// From a full disk on: told, kept, and going on when there is room.
fn goes_on(volume: &TestVolume, mounted: Mounted<'_>, size: usize, make_room: impl FnOnce()) {
    let (safe, error) = fill(&mounted.path(), size);
    println!("     {} files, then: {error}", safe.len());
    assert_eq!(error.raw_os_error(), Some(Errno::NOSPC.raw_os_error()), "{error}\n{}", volume.log());
    assert!(!safe.is_empty());
    assert_safe(&safe, size);
    make_room();
    assert_flushed_by_itself(&mounted, Duration::from_secs(60));
    let again = wait_until(Duration::from_secs(30), || {
        let file =
            OpenOptions::new().write(true).create(true).truncate(true).open(mounted.join("again")).ok()?;
        file.write_all_at(&pattern(77, size), 0).ok()?;
        file.sync_all().ok()?;
        close(file).ok()
    });
    assert!(again.is_some(), "there is room, and still nothing can be written\n{}", volume.log());
    let check = || {
        assert_safe(&safe, size);
        assert_same("again", &std::fs::read(volume.mount_point().join("again")).unwrap(), &pattern(77, size));
    };
    check();
    let mounted = mounted.remount();
    check();
    mounted.unmount();
    volume.assert_clean();
}

#[test]
fn a_full_disk_under_a_local_store_is_told_and_survived() {
    if native_only() {
        return;
    }
    let volume = TestVolume::unformatted(Backing::Local);
    let url = PathBuf::from(volume.url());
    let disk = SmallDisk::mount(url.parent().expect("a parent").to_owned(), 160);
    volume.command(&["format"]).arg(volume.url()).ok();
    let ballast = disk.fill(40 * MIB);
    let mounted = volume.mount_with(&impatient(Duration::from_secs(10), Duration::from_secs(2)));
    goes_on(&volume, mounted, 1_500_000, || std::fs::remove_file(&ballast).expect("room"));
}

#[test]
fn a_full_disk_under_the_metadata_engine_is_told_and_survived() {
    if native_only() {
        return;
    }
    let volume = TestVolume::unformatted(Backing::S3);
    let state =
        volume.env().into_iter().find(|(name, _)| name == "HEADRACE_STATE_DIR").expect("a state directory").1;
    let disk = SmallDisk::mount(PathBuf::from(state), 160);
    volume.command(&["format"]).arg(volume.url()).ok();
    let ballast = disk.fill(8 * MIB);
    let mounted = volume.mount_with(&impatient(Duration::from_secs(10), Duration::from_secs(2)));
    // Small files live in the engine.
    goes_on(&volume, mounted, 50_000, || std::fs::remove_file(&ballast).expect("room"));
}
