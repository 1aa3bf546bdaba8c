//! A server that is away, at each level of durability: what it keeps from being acknowledged, and that what was acknowledged is there.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use headrace_testbed::volume::native_only;
use headrace_testbed::{Backing, MountOptions, TestVolume, direct, pattern};
use rustix::io::Errno;

use super::outage::waited_for;
use super::{assert_same, impatient};

const MIB: usize = 1 << 20;
const DEADLINE: Duration = Duration::from_secs(4);

fn with(option: &str) -> impl Fn(MountOptions) -> MountOptions {
    let option = option.to_owned();
    move |options| options.option(&option)
}

#[test]
fn with_sync_a_server_that_stops_for_a_while_is_waited_for() {
    if !native_only() {
        waited_for(&with("sync"), direct::read);
    }
}

#[test]
fn with_durability_in_the_bucket_a_server_that_stops_for_a_while_is_waited_for() {
    if !native_only() {
        waited_for(&with("durable=bucket"), direct::read);
    }
}

#[test]
fn written_back_a_server_that_stops_for_a_while_is_waited_for() {
    if !native_only() {
        // Some of the files, the others as ever. O_DIRECT would have the alignment rules of the local ones.
        let options = |options: MountOptions| options.option("writeback").option("writeback-size=200M");
        waited_for(&options, |path| fs::read(path));
    }
}

fn synced(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(content)?;
    file.sync_all()
}

/// What `gone` has of each size: in the metadata of this machine, and not.
const SIZES: [usize; 3] = [10, 70_000, 3 * MIB];

/// The server goes and does not come back before the mount is killed. `acknowledged`: whether a synced file of each size is while it is away.
fn gone(option: &str, acknowledged: [bool; SIZES.len()]) {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::S3);
    let server = volume.s3().expect("S3");
    let options = with(option)(impatient(DEADLINE, Duration::from_secs(1)));
    let mounted = volume.mount_with(&options);
    for (n, size) in SIZES.into_iter().enumerate() {
        synced(&mounted.join(format!("before-{n}")), &pattern(n as u64, size)).unwrap();
    }
    server.kill();
    for (n, size) in SIZES.into_iter().enumerate() {
        let began = Instant::now();
        let done = synced(&mounted.join(format!("after-{n}")), &pattern(n as u64 + 10, size));
        let took = began.elapsed();
        match done {
            Ok(()) => assert!(acknowledged[n], "after-{n} is said to be safe and cannot be"),
            Err(error) => {
                assert!(!acknowledged[n], "after-{n}: {error}");
                assert_eq!(error.raw_os_error(), Some(Errno::IO.raw_os_error()), "after-{n}: {error}");
            }
        }
        assert!(took < 3 * DEADLINE, "after-{n}: {took:?}");
    }
    mounted.kill();
    mounted.abandon();
    server.restart();
    let mounted = volume.mount_with(&options);
    for (n, size) in SIZES.into_iter().enumerate() {
        let read = |name: &str| fs::read(mounted.join(format!("{name}-{n}")));
        assert_same("before", &read("before").unwrap(), &pattern(n as u64, size));
        if acknowledged[n] {
            assert_same("after", &read("after").unwrap(), &pattern(n as u64 + 10, size));
        }
    }
    let mounted = mounted.remount();
    for (n, size) in SIZES.into_iter().enumerate() {
        assert_same(
            "before",
            &fs::read(mounted.join(format!("before-{n}"))).unwrap(),
            &pattern(n as u64, size),
        );
    }
    mounted.unmount();
    volume.assert_clean();
}

#[test]
fn with_sync_only_what_this_machine_has_is_acknowledged_by_a_mount_whose_server_is_gone() {
    gone("sync", [true, false, false]);
}

#[test]
fn with_durability_in_the_bucket_nothing_is_acknowledged_by_a_mount_whose_server_is_gone() {
    gone("durable=bucket", [false; 3]);
}

#[test]
fn written_back_all_is_acknowledged_by_a_mount_whose_server_is_gone_and_there_after_a_kill() {
    gone("writeback", [true; 3]);
}
