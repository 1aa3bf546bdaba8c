//! The disk of the cache is full, read-only, gone, or its owner is killed: programs read on, and what they read is right.
#![allow(missing_docs)]

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use headrace_testbed::process::wait_until;
use headrace_testbed::volume::native_only;
use headrace_testbed::{Backing, MountOptions, Mounted, Run, SmallDisk, TestVolume, pattern};
use rustix::process::Signal;
use serde_json::Value;

const MIB: usize = 1 << 20;
const FILES: u64 = 6;
const SIZE: usize = 5 * MIB + 321;

/// A disk in memory, a little smaller than what is read.
fn small(volume: &TestVolume) -> SmallDisk {
    SmallDisk::mount(volume.scratch().join("disk"), 24)
}

/// One with ext4, on which all of it fits.
fn with_ext4(volume: &TestVolume) -> SmallDisk {
    SmallDisk::ext4(volume.scratch().join("ext4"), &volume.scratch().join("image"), 96)
}

fn run(program: &str, args: &[&str]) {
    Run::new(program).args(args).ok();
}

fn options(disk: &SmallDisk, free: &str) -> MountOptions {
    let cache = disk.path().join("cache").display().to_string();
    let args = ["--cache-dir", &cache, "--cache-free", free];
    args.iter().fold(MountOptions::default(), |options, arg| options.arg(arg))
}

/// Stores files, and mounts again, so that nothing of them is in memory.
fn filled<'v>(volume: &'v TestVolume, disk: &SmallDisk, free: &str) -> Mounted<'v> {
    let mounted = volume.mount_with(&options(disk, free));
    for file in 0..FILES {
        std::fs::write(mounted.join(format!("f{file}")), pattern(file, SIZE)).unwrap();
    }
    mounted.remount()
}

fn read_all(dir: &Path) {
    for file in 0..FILES {
        let bytes =
            std::fs::read(dir.join(format!("f{file}"))).unwrap_or_else(|error| panic!("f{file}: {error}"));
        assert!(bytes == pattern(file, SIZE), "f{file}");
    }
}

fn directories(mounted: &Mounted<'_>) -> Vec<Value> {
    let status = mounted.volume().command(&["status", "--json"]).arg(mounted.path()).ok();
    let status: Value = serde_json::from_str(&status).unwrap();
    status["cache"]["directories"].as_array().unwrap().clone()
}

fn cache(mounted: &Mounted<'_>) -> Value {
    directories(mounted).swap_remove(0)
}

/// The pages that the kernel has, its own and of the disk.
fn drop_caches() {
    std::fs::write("/proc/sys/vm/drop_caches", "3").unwrap();
}

#[test]
fn a_disk_that_others_fill_is_made_room_on_and_done_without() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::Local);
    let disk = small(&volume);
    let mounted = filled(&volume, &disk, "4M");
    // Half of the files fit, then nothing does.
    read_all(&mounted.path());
    // At once there is no more room for others than is left free.
    let room = || {
        let free = || cache(&mounted)["disk_free"].as_u64().unwrap();
        wait_until(Duration::from_secs(30), || (free() >= 3 * MIB as u64).then_some(()))
            .unwrap_or_else(|| panic!("no room is made for others: {}", cache(&mounted)));
    };
    let others = std::fs::File::create(disk.path().join("others")).unwrap();
    for _ in 0..5 {
        room();
        std::io::Write::write_all(&mut &others, &[1; 2 * MIB]).unwrap();
        drop_caches();
        read_all(&mounted.path());
    }
    room();
    drop(others);
    assert_eq!(cache(&mounted)["failed"], Value::Null);
    // To the last byte, and not by us.
    let more = std::fs::File::create(disk.path().join("more")).unwrap();
    while std::io::Write::write_all(&mut &more, &[0; 65_536]).is_ok() {}
    drop_caches();
    read_all(&mounted.path());
    std::fs::remove_file(disk.path().join("others")).unwrap();
    std::fs::remove_file(disk.path().join("more")).unwrap();
    read_all(&mounted.path());
    mounted.unmount();
    volume.assert_clean();
}

#[test]
fn a_disk_that_is_read_only_or_gone_is_done_without() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::Local);
    let disk = small(&volume);
    let mounted = filled(&volume, &disk, "1M");
    read_all(&mounted.path());
    std::fs::write(mounted.join("new"), pattern(99, SIZE)).unwrap();
    mounted.unmount();
    run("mount", &["-o", "remount,ro", disk.path().to_str().unwrap()]);
    let mounted = volume.mount_with(&options(&disk, "1M"));
    assert!(cache(&mounted)["failed"].is_string(), "{}", cache(&mounted));
    read_all(&mounted.path());
    assert!(std::fs::read(mounted.join("new")).unwrap() == pattern(99, SIZE));
    mounted.unmount();
    run("mount", &["-o", "remount,rw", disk.path().to_str().unwrap()]);
    let mounted = volume.mount_with(&options(&disk, "1M"));
    read_all(&mounted.path());
    assert_eq!(cache(&mounted)["failed"], Value::Null);
    // Everything below it, while it is used.
    std::fs::remove_dir_all(disk.path().join("cache")).unwrap();
    for _ in 0..2 {
        drop_caches();
        read_all(&mounted.path());
        std::fs::write(mounted.join("f0"), pattern(0, SIZE)).unwrap();
    }
    run("umount", &["-l", disk.path().to_str().unwrap()]);
    drop_caches();
    read_all(&mounted.path());
    mounted.unmount();
    volume.assert_clean();
}

#[test]
fn one_of_two_disks_fails_while_it_is_used() {
    if native_only() {
        return;
    }
    // So many that none of the disks gets them all.
    const FILES: u64 = 24;
    const SIZE: usize = MIB + 321;
    let volume = TestVolume::new(Backing::Local);
    let (image, second) = (volume.scratch().join("image"), volume.scratch().join("second"));
    let ext4 = with_ext4(&volume);
    let options = || {
        let first = ext4.path().join("cache").display().to_string();
        let (second, free) = (second.display().to_string(), "1M");
        let args = ["--cache-dir", &first, "--cache-dir", &second, "--cache-free", free];
        args.iter().fold(MountOptions::default(), |options, arg| options.arg(arg))
    };
    let bytes = |directory: &Value| directory["bytes"].as_u64().unwrap();
    let warm = |mounted: &Mounted<'_>| volume.command(&["warmup"]).arg(mounted.path()).ok();
    let mounted = volume.mount_with(&options());
    for file in 0..FILES {
        std::fs::write(mounted.join(format!("f{file}")), pattern(file, SIZE)).unwrap();
    }
    mounted.unmount();
    let mounted = volume.mount_with(&options());
    warm(&mounted);
    let before = directories(&mounted);
    assert_eq!(before.len(), 2, "{before:?}");
    assert!(before.iter().all(|directory| bytes(directory) >= SIZE as u64), "both are used: {before:?}");
    // Open and read by the kernel itself, from either disk, while one fails.
    let open: Vec<_> =
        (0..FILES).map(|file| std::fs::File::open(mounted.join(format!("f{file}"))).unwrap()).collect();
    ext4.abort();
    for file in FILES..3 * FILES {
        std::fs::write(mounted.join(format!("f{file}")), pattern(file, SIZE)).unwrap();
    }
    let check = |dir: &Path| {
        for file in 0..3 * FILES {
            let bytes =
                std::fs::read(dir.join(format!("f{file}"))).unwrap_or_else(|e| panic!("f{file}: {e}"));
            assert!(bytes == pattern(file, SIZE), "f{file}");
        }
    };
    check(&mounted.path());
    let wait = Instant::now();
    let after = loop {
        let after = directories(&mounted);
        if after[0]["failed"].is_string() {
            break after;
        }
        assert!(wait.elapsed() < Duration::from_secs(30), "nobody notices: {after:?}");
        check(&mounted.path());
        std::thread::sleep(Duration::from_millis(100));
    };
    let why = after[0]["failed"].as_str().unwrap();
    assert!(why.contains("Read-only file system"), "{why}");
    assert_eq!(after[1]["failed"], Value::Null);
    // The other one takes over.
    warm(&mounted);
    assert!(bytes(&directories(&mounted)[1]) >= 3 * FILES * SIZE as u64, "{:?}", directories(&mounted));
    for (file, open) in open.iter().enumerate() {
        let mut bytes = vec![0; SIZE];
        match std::os::unix::fs::FileExt::read_exact_at(open, &mut bytes, 0) {
            Ok(()) => assert!(bytes == pattern(file as u64, SIZE), "f{file}"),
            // Whoever had it open then has the disk's own answer.
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EIO), "f{file}: {error}"),
        }
    }
    drop(open);
    drop_caches();
    check(&mounted.path());
    // Until the kernel has told that nobody reads it there any more, the broken disk refuses what is written to it.
    let wait = Instant::now();
    while let Err(error) = std::fs::write(mounted.join("f0"), pattern(100, SIZE)) {
        assert!(
            error.raw_os_error() == Some(libc::EIO) && wait.elapsed() < Duration::from_secs(10),
            "{error}"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(std::fs::read(mounted.join("f0")).unwrap() == pattern(100, SIZE));
    std::fs::write(mounted.join("f0"), pattern(0, SIZE)).unwrap();
    mounted.unmount();
    // Mended: it is used again, and nothing on it is believed that has changed meanwhile.
    run("umount", &[ext4.path().to_str().unwrap()]);
    let repaired = Command::new("fsck.ext4").args(["-f", "-y"]).arg(&image).output().unwrap();
    assert!(repaired.status.code().is_some_and(|code| code < 4), "{repaired:?}");
    ext4.mount_image(&image);
    let mounted = volume.mount_with(&options());
    check(&mounted.path());
    warm(&mounted);
    let again = directories(&mounted);
    assert!(again.iter().all(|directory| directory["failed"].is_null() && bytes(directory) > 0), "{again:?}");
    check(&mounted.path());
    mounted.unmount();
    volume.assert_clean();
}

/// What the daemon meets comes from the store; what only the kernel meets is its reader's error, until that copy is dropped.
#[test]
fn a_block_that_cannot_be_read() {
    if native_only() {
        return;
    }
    const BLOCK: usize = 4096;
    let volume = TestVolume::new(Backing::Local);
    let image = volume.scratch().join("image");
    let disk = SmallDisk::btrfs(volume.scratch().join("disk"), &image, 256);
    let mounted = volume.mount_with(&options(&disk, "1M"));
    let (whole, part) = (mounted.join("whole"), mounted.join("part"));
    let (content, long) = (pattern(7, SIZE), pattern(8, 70 * MIB));
    std::fs::write(&whole, &content).unwrap();
    std::fs::write(&part, &long).unwrap();
    let mounted = mounted.remount();

    volume.command(&["warmup"]).arg(&whole).ok();
    let open = std::fs::File::open(&whole).unwrap();
    let bad = 3 * MIB..3 * MIB + BLOCK;
    disk.spoil(&image, &content[bad.clone()]);
    drop_caches();
    let read = |range: std::ops::Range<usize>| {
        let mut found = vec![0; range.len()];
        open.read_exact_at(&mut found, range.start as u64).map(|()| found == content[range])
    };
    assert_eq!(read(bad).expect_err("read by the kernel").raw_os_error(), Some(libc::EIO));
    assert!(read(0..MIB).unwrap() && read(4 * MIB..SIZE).unwrap(), "all else is read");
    drop(open);
    // Until the kernel has let go of it the copy counts as mapped, which is looked at each second, and stays.
    let wait = Instant::now();
    let found = loop {
        volume.command(&["warmup", "--evict"]).arg(&whole).ok();
        match std::fs::read(&whole) {
            Ok(found) => break found,
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EIO), "{error}"),
        }
        assert!(wait.elapsed() < Duration::from_secs(30), "it is never evicted");
        std::thread::sleep(Duration::from_millis(1500));
    };
    assert!(found == content);
    assert_eq!(cache(&mounted)["failed"], Value::Null);

    let bytes = || cache(&mounted)["bytes"].as_u64().unwrap();
    let (before, wait) = (bytes(), Instant::now());
    let read = || {
        let mut found = vec![0; 8 * MIB];
        std::fs::File::open(&part).unwrap().read_exact_at(&mut found, 0).unwrap();
        found == long[..8 * MIB]
    };
    assert!(read());
    while bytes() < before + 8 * MIB as u64 {
        assert!(wait.elapsed() < Duration::from_secs(30), "{} of {before} and 8 MiB are cached", bytes());
        std::thread::sleep(Duration::from_millis(50));
    }
    disk.spoil(&image, &long[2 * MIB..2 * MIB + BLOCK]);
    drop_caches();
    assert!(read(), "what the disk cannot read comes from the store");
    drop_caches();
    assert!(read());
    mounted.unmount();
    volume.assert_clean();
}

#[test]
fn on_ext4_what_is_cached_takes_its_own_room_and_no_more() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::Local);
    let disk = with_ext4(&volume);
    let mounted = filled(&volume, &disk, "1M");
    let on_disk = || {
        rustix::fs::sync();
        let used = Run::new("du").args(["-s", "--block-size=1"]).arg(disk.path().join("cache")).ok();
        used.split_whitespace().next().unwrap().parse::<u64>().unwrap()
    };
    let (before, size) = (on_disk(), FILES * SIZE as u64);
    // A little of each anywhere, and then all of it.
    for file in 0..FILES {
        let opened = std::fs::File::open(mounted.join(format!("f{file}"))).unwrap();
        let mut bytes = [0; 4096];
        opened.read_exact_at(&mut bytes, 3 << 20).unwrap();
        assert!(bytes[..] == pattern(file, SIZE)[3 << 20..][..4096], "f{file}");
    }
    let little = on_disk() - before;
    assert!(little < size / 4, "{little} bytes for {FILES} reads of 4 KiB");
    read_all(&mounted.path());
    let cached = || cache(&mounted)["bytes"].as_u64().unwrap();
    wait_until(Duration::from_secs(30), || (cached() >= size).then_some(())).expect("all of it is cached");
    let all = on_disk() - before;
    assert!((size..size + size / 8).contains(&all), "{all} bytes for {size}");
    mounted.unmount();
    volume.assert_clean();
}

#[test]
fn a_mount_that_is_killed_while_it_caches_never_reads_what_is_wrong() {
    if native_only() {
        return;
    }
    for disk in [small, with_ext4] {
        let volume = TestVolume::new(Backing::Local);
        let disk = disk(&volume);
        killed_while_it_caches(&volume, &disk);
    }
}

fn killed_while_it_caches(volume: &TestVolume, disk: &SmallDisk) {
    let mut mounted = filled(volume, disk, "1M");
    for round in 0..6u64 {
        let dir = mounted.path();
        let reader = std::thread::spawn(move || {
            for file in 0..FILES {
                // Until the mount is gone.
                if std::fs::read(dir.join(format!("f{file}"))).is_err() {
                    return;
                }
            }
        });
        // Some of it changes, and it is not said that it is durable.
        let _ = std::fs::write(mounted.join("changing"), pattern(100 + round, SIZE));
        let _ = std::fs::read(mounted.join("changing"));
        std::thread::sleep(Duration::from_millis(40 * round));
        mounted.signal_and_wait(Signal::KILL);
        reader.join().unwrap();
        mounted.abandon();
        mounted = volume.mount_with(&options(disk, "1M"));
        read_all(&mounted.path());
        if let Ok(found) = std::fs::read(mounted.join("changing")) {
            let whole = (0..=round).any(|round| found == pattern(100 + round, SIZE));
            let shorter = (0..=round).any(|round| pattern(100 + round, SIZE).starts_with(&found));
            let zeros = found.iter().all(|byte| *byte == 0);
            assert!(whole || shorter || zeros, "what is read of it was never written");
        }
    }
    mounted.unmount();
    volume.assert_clean();
}
