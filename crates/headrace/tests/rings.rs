//! Requests that come by io_uring in place of /dev/fuse (`-o io-uring`): the same file system, and a mount all the same where the kernel
//! does not offer it. Where the kernel does not have it at all, that is what is tested.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use headrace_testbed::mapping::SharedMapping;
use headrace_testbed::process::{wait_for, wait_until};
use headrace_testbed::volume::native_only;
use headrace_testbed::{Backing, MountOptions, Mounted, TestVolume, direct, pattern, tree_digest, uring};
use rustix::process::Signal;
use serde_json::Value;

const MIB: usize = 1 << 20;
const SOON: Duration = Duration::from_secs(60);

fn by_rings() -> MountOptions {
    MountOptions::default().option("io-uring")
}

/// `None` where there is nothing to test.
fn offered() -> Option<uring::Offered> {
    if native_only() { None } else { uring::offered() }
}

/// What `status` says of how requests come.
fn requests(mounted: &Mounted<'_>) -> Value {
    let told = mounted.volume().command(&["status", "--json"]).arg(mounted.path()).ok();
    let status: Value = serde_json::from_str(&told).expect("JSON");
    status["requests"].clone()
}

/// A mount whose requests do come so.
fn mounted(volume: &TestVolume) -> Mounted<'_> {
    let mounted = volume.mount_with(&by_rings());
    assert_eq!(requests(&mounted)["by"], "io_uring", "{}", volume.log());
    mounted
}

#[test]
fn status_says_how_requests_come() {
    let Some(_offered) = offered() else { return };
    let volume = TestVolume::new(Backing::Local);
    let by_device = volume.mount_with(&MountOptions { options: Vec::new(), args: Vec::new() });
    assert_eq!(requests(&by_device), serde_json::json!({ "by": "device" }), "nobody asked for more");
    by_device.unmount();
    let by_ring = mounted(&volume);
    let shown = volume.command(&["status"]).arg(by_ring.path()).ok();
    assert!(shown.contains("by io_uring"), "{shown}");
    by_ring.unmount();
}

#[test]
fn a_kernel_that_does_not_offer_it_is_used_as_ever_and_the_reason_is_told() {
    if native_only() {
        return;
    }
    let _withheld = uring::withheld();
    let volume = TestVolume::new(Backing::Local);
    let mounted = volume.mount_with(&by_rings());
    let requests = requests(&mounted);
    let why = requests["why"].as_str().unwrap_or_else(|| panic!("{requests}"));
    let advice = if uring::known() { "enable_uring" } else { "Linux 6.14" };
    assert!(requests["by"] == "device" && why.contains(advice), "{requests}");
    assert_eq!(volume.log().matches(why).count(), 1, "{}", volume.log());
    fs::write(mounted.join("file"), pattern(1, 3 * MIB)).unwrap();
    assert!(direct::read(&mounted.join("file")).unwrap() == pattern(1, 3 * MIB));
    mounted.unmount();
}

#[test]
fn a_ceiling_that_has_no_room_for_it_is_kept_and_the_reason_is_told() {
    let Some(_offered) = offered() else { return };
    let volume = TestVolume::new(Backing::Local);
    let mounted = volume.mount_with(&by_rings().option("memory=64M"));
    let requests = requests(&mounted);
    assert!(
        requests["by"] == "device" && requests["why"].as_str().unwrap().contains("--memory"),
        "{requests}"
    );
    mounted.unmount();
}

/// Files of all sizes that requests and their buffers have, by several writers, in all ways to write.
#[test]
fn what_is_written_is_read_by_whoever_and_after_a_remount() {
    let Some(_offered) = offered() else { return };
    let volume = TestVolume::new(Backing::S3);
    let at = mounted(&volume);
    let sizes = [0, 1, 4095, 65_536, 200_001, MIB - 1, MIB, MIB + 1, 9 * MIB + 5];
    std::thread::scope(|scope| {
        for writer in 0..6_u64 {
            let dir = at.join(format!("{writer}"));
            scope.spawn(move || {
                fs::create_dir(&dir).unwrap();
                for (n, size) in (0..).zip(sizes) {
                    let (path, data) = (dir.join(format!("{n}")), pattern(100 * writer + n, size));
                    let file = File::create(&path).unwrap();
                    let step = [1000 + 7 * n as usize, 128 << 10, 3 * MIB][writer as usize % 3];
                    for (chunk, at) in data.chunks(step).zip((0..).step_by(step)) {
                        file.write_all_at(chunk, at).unwrap();
                    }
                    drop(file);
                    assert!(direct::read(&path).unwrap() == data, "{}", path.display());
                }
                for n in 0..300 {
                    fs::write(dir.join(format!("small-{n}")), pattern(1000 * writer + n, n as usize))
                        .unwrap();
                }
                for n in (0..300).step_by(3) {
                    fs::rename(dir.join(format!("small-{n}")), dir.join(format!("moved-{n}"))).unwrap();
                    fs::remove_file(dir.join(format!("small-{}", n + 1))).unwrap();
                }
            });
        }
    });
    let mapped = OpenOptions::new().read(true).write(true).open(at.join("0/8")).unwrap();
    let mapping = SharedMapping::new(&mapped, 9 * MIB).unwrap();
    mapping.write(5 * MIB - 3, b"across pages");
    mapping.sync().unwrap();
    drop((mapping, mapped));
    let name = "n".repeat(255);
    fs::write(at.join(&name), b"the longest name").unwrap();
    let value = pattern(5, 64 << 10);
    rustix::fs::setxattr(at.join(&name), "user.large", &value, rustix::fs::XattrFlags::empty()).unwrap();
    let before = tree_digest(&at.path());
    let at = at.remount();
    assert_eq!(requests(&at)["by"], "io_uring");
    before.assert_same(&tree_digest(&at.path()));
    let mut there = vec![0; 12];
    File::open(at.join("0/8")).unwrap().read_exact_at(&mut there, 5 * MIB as u64 - 3).unwrap();
    assert_eq!(there, b"across pages");
    at.unmount();
    volume.assert_clean();
}

/// Each request that waits keeps its entry of the ring, so these are more than the kernel can hand over at one time.
#[test]
fn more_wait_for_a_store_than_there_are_entries_and_all_get_their_bytes() {
    let Some(_offered) = offered() else { return };
    let volume = TestVolume::new(Backing::S3);
    let server = volume.s3().expect("S3");
    let at = mounted(&volume);
    const READERS: u64 = 300;
    for n in 0..READERS {
        fs::write(at.join(format!("{n}")), pattern(n, 70_000)).unwrap();
    }
    let at = at.remount();
    for n in 0..READERS {
        fs::metadata(at.join(format!("{n}"))).unwrap();
    }
    server.freeze();
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS)
            .map(|n| {
                let path = at.join(format!("{n}"));
                scope.spawn(move || assert!(direct::read(&path).unwrap() == pattern(n, 70_000), "{n}"))
            })
            .collect();
        std::thread::sleep(Duration::from_millis(500));
        assert!(readers.iter().filter(|reader| !reader.is_finished()).count() > 250, "the server is frozen");
        server.thaw();
        for reader in readers {
            reader.join().unwrap();
        }
    });
    at.unmount();
    volume.assert_clean();
}

#[test]
fn who_waits_for_a_store_that_hangs_can_be_killed() {
    let Some(_offered) = offered() else { return };
    let volume = TestVolume::new(Backing::S3);
    let server = volume.s3().expect("S3");
    let at = mounted(&volume);
    fs::write(at.join("file"), pattern(1, MIB)).unwrap();
    let at = at.remount();
    server.freeze();
    for signal in [Signal::KILL, Signal::INT, Signal::TERM] {
        let mut reader = Command::new("cat").arg(at.join("file")).stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(200));
        let begun = Instant::now();
        rustix::process::kill_process(rustix::process::Pid::from_child(&reader), signal).unwrap();
        let status = wait_for(&mut reader, SOON).expect("it ends");
        assert_eq!(status.signal(), Some(signal.as_raw()), "{status}");
        assert!(begun.elapsed() < Duration::from_secs(3), "{signal:?}: {:?}", begun.elapsed());
    }
    server.thaw();
    assert!(fs::read(at.join("file")).unwrap() == pattern(1, MIB));
    at.unmount();
}

#[test]
fn what_was_synced_outlives_the_process_and_nobody_hangs_on_its_rings() {
    let Some(_offered) = offered() else { return };
    let volume = TestVolume::new(Backing::S3);
    let at = mounted(&volume);
    let mut file = File::create(at.join("synced")).unwrap();
    file.write_all(&pattern(1, 3 * MIB)).unwrap();
    file.sync_all().unwrap();
    drop(file);
    fs::write(at.join("cold"), pattern(2, MIB)).unwrap();
    let at = at.remount();
    let server = volume.s3().expect("S3");
    server.freeze();
    // Some wait, and some have not been taken from the kernel, when the process goes.
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..100).map(|_| scope.spawn(|| direct::read(&at.join("cold")))).collect();
        std::thread::sleep(Duration::from_millis(300));
        at.kill();
        let done = || readers.iter().all(|reader| reader.is_finished()).then_some(());
        wait_until(SOON, done).expect("everybody is told that the mount is gone");
        for reader in readers {
            let error = reader.join().unwrap().expect_err("the store never answered").raw_os_error();
            assert!(matches!(error, Some(libc::ENOTCONN | libc::ECONNABORTED)), "{error:?}");
        }
    });
    server.thaw();
    at.abandon();
    let again = mounted(&volume);
    assert!(fs::read(again.join("synced")).unwrap() == pattern(1, 3 * MIB));
    again.unmount();
    volume.assert_clean();
}
