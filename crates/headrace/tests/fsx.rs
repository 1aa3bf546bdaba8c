//! fsx: random reads, writes, mappings, truncations, holes and copies of one file, checked against a copy in memory.
//!
//! `HEADRACE_FSX_OPERATIONS` sets the operations per seed; `make fsx` makes it a million.

use std::time::Duration;

use headrace_testbed::{Backing, MountOptions, Run, TestVolume, env_number, tool, uring};

const CONFIG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fsx.toml");

#[test]
fn fsx_finds_no_difference_seed_1() {
    fsx(1, Backing::Local, &[], &MountOptions::default(), 1);
}

#[test]
fn fsx_finds_no_difference_seed_2() {
    fsx(2, Backing::S3, &[], &MountOptions::default(), 1);
}

/// On a compressed volume, where frames have different lengths.
#[test]
fn fsx_finds_no_difference_seed_3_compressed() {
    fsx(3, Backing::Local, &["--compression", "lz4"], &MountOptions::default(), 1);
}

/// Where every write is durable before it is answered; a twentieth as many, as each waits for a disk.
#[test]
fn fsx_finds_no_difference_seed_4_with_sync() {
    fsx(4, Backing::Local, &[], &MountOptions::default().option("sync"), 20);
}

/// Where the kernel writes a new file to this machine's disk by itself; half as many.
#[test]
fn fsx_finds_no_difference_seed_5_written_back() {
    fsx(5, Backing::S3, &[], &MountOptions::default().option("writeback"), 2);
}

/// Where an fsync waits for the store; a twentieth as many.
#[test]
fn fsx_finds_no_difference_seed_6_durable_in_the_bucket() {
    fsx(6, Backing::S3, &[], &MountOptions::default().option("durable=bucket"), 20);
}

/// Where requests come by io_uring; half as many.
#[test]
fn fsx_finds_no_difference_seed_7_by_io_uring() {
    let Some(_offered) = uring::offered() else { return };
    fsx(7, Backing::S3, &[], &MountOptions::default().option("io-uring"), 2);
}

fn fsx(seed: u64, backing: Backing, format: &[&str], options: &MountOptions, fewer: u64) {
    let operations = env_number("HEADRACE_FSX_OPERATIONS", 40_000) / fewer;
    let volume = TestVolume::with_format(backing, format);
    let mounted = volume.mount_with(options);
    let file = mounted.join("file");
    let finished = Run::new(tool("fsx"))
        .args(["-q", "-S", &seed.to_string(), "-N", &operations.to_string(), "-f", CONFIG, "-P"])
        .arg(volume.scratch())
        .arg(&file)
        .env("RUST_BACKTRACE", "0")
        .limit(Duration::from_secs(4 * 3600))
        .finish();
    if !finished.status.success() {
        // Keep what is needed to see the difference.
        let good = volume.scratch().join("file.fsxgood");
        let differing = Run::new("cmp").arg("-l").arg(&file).arg(&good).finish();
        let bytes: Vec<_> = differing.stdout.lines().take(20).collect();
        panic!("fsx -S {seed} -N {operations}: {finished}\nfirst differing bytes:\n{}", bytes.join("\n"));
    }
    println!("fsx on {backing:?} {format:?}: {operations} operations, seed {seed}: no difference");

    let before = std::fs::read(&file).unwrap();
    let mounted = mounted.remount();
    assert!(
        std::fs::read(mounted.join("file")).unwrap() == before,
        "content changed by a remount (seed {seed})"
    );
    mounted.unmount();
    volume.assert_clean();
}
