//! Where writing back ends: limits, full disks, stores that are away.

use std::fs::{self, File};
use std::io::Write;
use std::time::{Duration, Instant};

use headrace_testbed::volume::native_only;
use headrace_testbed::{Backing, Fault, FaultProxy, SmallDisk, TestVolume, pattern};
use rustix::io::Errno;

use super::{assert_stored_by_itself, figure, writeback, writing_back};

const MIB: usize = 1 << 20;

#[test]
fn beyond_the_limit_new_files_go_to_the_store_directly() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::S3);
    let options = writing_back().option("writeback-size=4M").option("upload-rate=64K");
    let mounted = volume.mount_with(&options);
    let content = |n: u64| pattern(n, 3 * MIB);
    for n in 0..6 {
        fs::write(mounted.join(n.to_string()), content(n)).unwrap();
    }
    let files = figure(&volume, "files");
    assert!((1..=2).contains(&files), "{}", writeback(&volume));
    assert_eq!(writeback(&volume)["has_room"], false);
    let check = |at: &std::path::Path| {
        for n in 0..6 {
            assert!(fs::read(at.join(n.to_string())).unwrap() == content(n), "{n}");
        }
    };
    check(&mounted.path());
    // Not at that rate.
    volume.command(&["umount", "--leave"]).arg(mounted.path()).ok();
    mounted.ended();
    let mounted = volume.mount_with(&writing_back());
    check(&mounted.path());
    assert_stored_by_itself(&volume);
    mounted.unmount();
    let mounted = volume.mount();
    check(&mounted.path());
    mounted.unmount();
    volume.assert_clean();
}

#[test]
fn no_more_is_stored_in_a_second_than_was_allowed() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::S3);
    let mounted = volume.mount_with(&writing_back().option("upload-rate=1M"));
    let began = Instant::now();
    fs::write(mounted.join("file"), pattern(1, 6 * MIB)).unwrap();
    while figure(&volume, "files") > 0 {
        let stored = figure(&volume, "stored");
        let allowed = (began.elapsed().as_secs_f64() + 1.5) * MIB as f64;
        assert!((stored as f64) < allowed, "{stored} bytes after {:?}", began.elapsed());
        std::thread::sleep(Duration::from_millis(300));
    }
    assert!(began.elapsed() > Duration::from_secs(4));
    mounted.unmount();
    volume.assert_clean();
}

/// A file that does not fit the disk is refused as on that disk; what fitted is there, and everything goes on.
#[test]
fn a_full_disk_is_told_and_survived() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::S3);
    let disk = SmallDisk::mount(volume.scratch().join("small disk"), 128);
    let state = format!("state-dir={}", disk.path().display());
    let options = writing_back().option(&state).option("upload-rate=8M").option("cache-size=off");
    let mounted = volume.mount_with(&options);
    fs::write(mounted.join("before"), pattern(1, MIB)).unwrap();
    let mut large = File::create(mounted.join("large")).unwrap();
    let piece = pattern(2, MIB);
    let mut written = 0;
    let error = loop {
        match large.write(&piece) {
            Ok(MIB) => written += 1,
            // The disk has become full in the middle of it.
            Ok(_) => {}
            Err(error) => break error,
        }
        assert!(written < 200, "the disk does not become full");
    };
    assert_eq!(error.raw_os_error(), Some(Errno::NOSPC.raw_os_error()), "{error}");
    assert!(written > 50);
    let found = fs::read(mounted.join("large")).unwrap();
    for (n, found) in found.chunks(MIB).take(written).enumerate() {
        assert!(found == piece, "piece {n} of {written}");
    }
    drop(large);
    // Others, now directly, and what there was.
    fs::remove_file(mounted.join("large")).unwrap();
    assert!(fs::read(mounted.join("before")).unwrap() == pattern(1, MIB));
    let mut after = File::create(mounted.join("after")).unwrap();
    after.write_all(&pattern(3, 2 * MIB)).unwrap();
    after.sync_all().unwrap();
    drop(after);
    assert_stored_by_itself(&volume);
    let mounted = mounted.remount();
    assert!(fs::read(mounted.join("before")).unwrap() == pattern(1, MIB));
    assert!(fs::read(mounted.join("after")).unwrap() == pattern(3, 2 * MIB));
    mounted.unmount();
}

/// While the store is away nothing is refused that this machine's disk can keep, and who asks for the store hears of it.
#[test]
fn a_store_that_is_away_keeps_nobody_from_writing() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::S3);
    let proxy = FaultProxy::start(volume.s3().expect("S3").address());
    let options = writing_back()
        .option(&format!("endpoint={}", proxy.endpoint()))
        .option("deadline=3s")
        .option("lease=60s");
    let mounted = volume.mount_with(&options);
    proxy.always(Fault::Reset);
    let content = |n: u64| pattern(n, 400_000 + n as usize);
    for n in 0..20 {
        let mut file = File::create(mounted.join(n.to_string())).unwrap();
        file.write_all(&content(n)).unwrap();
        file.sync_all().unwrap();
    }
    let refused = volume.command(&["flush"]).arg(mounted.path()).limit(Duration::from_secs(60)).fails();
    assert!(refused.stderr.contains("cannot write out"), "{refused}");
    assert_eq!(figure(&volume, "files"), 20);
    for n in 0..20 {
        assert!(fs::read(mounted.join(n.to_string())).unwrap() == content(n), "{n}");
    }
    proxy.always(Fault::None);
    assert_stored_by_itself(&volume);
    let mounted = mounted.remount();
    for n in 0..20 {
        assert!(fs::read(mounted.join(n.to_string())).unwrap() == content(n), "{n}");
    }
    mounted.unmount();
    volume.assert_clean();
}

/// `headrace flush` stores files that are open as well: the loss of the local copies afterwards takes nothing.
#[test]
fn a_flush_stores_what_is_open() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::Local);
    let mounted = volume.mount_with(&writing_back());
    let mut file = File::create(mounted.join("log")).unwrap();
    file.write_all(&pattern(1, 200_000)).unwrap();
    volume.command(&["flush"]).arg(mounted.path()).ok();
    assert_eq!(figure(&volume, "files"), 1, "it is open");
    file.write_all(&pattern(2, 50_000)).unwrap();
    volume.command(&["flush"]).arg(mounted.path()).ok();
    let directory = writeback(&volume)["path"].as_str().expect("a path").to_owned();
    mounted.kill();
    drop(file);
    mounted.abandon();
    assert!(fs::read_dir(&directory).unwrap().count() >= 1);
    fs::remove_dir_all(&directory).unwrap();
    let mounted = volume.mount();
    let expected = [pattern(1, 200_000), pattern(2, 50_000)].concat();
    assert!(fs::read(mounted.join("log")).unwrap() == expected);
    mounted.unmount();
    volume.assert_clean();
}
