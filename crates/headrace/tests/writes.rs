//! Writes on real mounts: what a close waits for, what a rename promises, what each level of durability keeps, and that files share
//! requests.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::time::{Duration, Instant};

use headrace_testbed::volume::native_only;
use headrace_testbed::{Backing, Fault, FaultProxy, MountOptions, Rng, TestVolume, env_number, pattern};

const KIB: usize = 1 << 10;

/// Each answer of the store takes two seconds: two hundred files, one after the other, would take minutes.
#[test]
fn a_close_waits_for_nothing_and_files_share_requests() {
    if native_only() {
        return;
    }
    const FILES: usize = 200;
    let volume = TestVolume::new(Backing::S3);
    let proxy = FaultProxy::start(volume.s3().expect("S3").address());
    let mounted =
        volume.mount_with(&MountOptions::default().option(&format!("endpoint={}", proxy.endpoint())));
    proxy.always(Fault::Delay(Duration::from_secs(2)));
    let began = Instant::now();
    let content = |n: usize| pattern(n as u64, 65 * KIB + n);
    for n in 0..FILES {
        fs::write(mounted.join(n.to_string()), content(n)).unwrap();
    }
    assert!(began.elapsed() < Duration::from_secs(60), "closed after {:?}", began.elapsed());
    for n in 0..FILES {
        assert!(fs::read(mounted.join(n.to_string())).unwrap() == content(n), "{n}, before it is stored");
    }
    proxy.always(Fault::None);
    let before = volume.segment_files().len();
    volume.command(&["flush"]).arg(mounted.path()).ok();
    let after = volume.segment_files().len();
    assert!(after > 0 && after <= 20, "{before}, then {after} segments for {FILES} files");
    let mounted = mounted.remount();
    for n in 0..FILES {
        assert!(fs::read(mounted.join(n.to_string())).unwrap() == content(n), "{n}, from the store");
    }
    mounted.unmount();
    volume.assert_clean();
}

/// Editors and package managers write a new file, without an fsync, and rename it over the old one.
#[test]
fn a_file_that_took_anothers_place_is_whole_after_a_crash() {
    if native_only() {
        return;
    }
    let mut rng = Rng::new(env_number("HEADRACE_REPLACE_SEED", 1));
    for backing in [Backing::Local, Backing::S3] {
        let volume = TestVolume::new(backing);
        let mut mounted = volume.mount();
        let content = |version: u64| pattern(version, 70 * KIB + 40 * KIB * (version % 7) as usize);
        fs::write(mounted.join("file"), content(0)).unwrap();
        File::open(mounted.join("file")).unwrap().sync_all().unwrap();
        // The newest one written, and the one that the last crash has left.
        let (mut version, mut left) = (0, 0);
        for round in 0..6 {
            for _ in 0..3 {
                version += 1;
                fs::write(mounted.join("new"), content(version)).unwrap();
                fs::rename(mounted.join("new"), mounted.join("file")).unwrap();
            }
            let synced = round % 2 == 1;
            if synced {
                // The name is durable, so the bytes must be.
                File::open(mounted.path()).unwrap().sync_all().unwrap();
                left = version;
            } else {
                // Before, while and after the engine has synced by itself.
                std::thread::sleep(Duration::from_millis(rng.below(1_500)));
            }
            mounted.kill();
            mounted.abandon();
            mounted = volume.mount();
            let found = fs::read(mounted.join("file")).unwrap();
            let which = (left..=version).find(|version| found == content(*version));
            left = which.unwrap_or_else(|| {
                panic!("{backing:?}, round {round}: none of {left} to {version}: {} bytes", found.len())
            });
        }
        mounted.unmount();
        volume.assert_clean();
    }
}

/// With `sync` a write is durable when it returns, closed or not.
#[test]
fn with_sync_nothing_that_was_written_is_lost() {
    if native_only() {
        return;
    }
    let mut rng = Rng::new(env_number("HEADRACE_SYNC_SEED", 1));
    for backing in [Backing::Local, Backing::S3] {
        let volume = TestVolume::new(backing);
        let options = MountOptions::default().option("sync");
        let mut written = Vec::new();
        for round in 0..6_u64 {
            let mounted = volume.mount_with(&options);
            let mut file = OpenOptions::new().create(true).append(true).open(mounted.join("log")).unwrap();
            for n in 0..20 {
                let more = pattern(round * 100 + n, 1 + rng.below(100 * KIB as u64) as usize);
                file.write_all(&more).unwrap();
                written.extend_from_slice(&more);
            }
            mounted.kill();
            drop(file);
            mounted.abandon();
        }
        let mounted = volume.mount();
        assert!(fs::read(mounted.join("log")).unwrap() == written, "{backing:?}");
        mounted.unmount();
        volume.assert_clean();
    }
}
