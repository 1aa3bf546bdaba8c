//! Writing back on real mounts: new files that are on this machine's disk first and stored behind that.

mod behaviour;
mod cached;
mod leftover;
mod limits;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use headrace_testbed::process::wait_until;
use headrace_testbed::{MountOptions, TestVolume};

/// A mount that writes back.
fn writing_back() -> MountOptions {
    MountOptions::default().option("writeback")
}

/// What `headrace status` says of files to be written back.
fn writeback(volume: &TestVolume) -> serde_json::Value {
    let status = volume.command(&["status", "--json"]).arg(volume.mount_point()).ok();
    let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
    let mount = if status.is_array() { &status[0] } else { &status };
    mount["figures"]["writeback"].clone()
}

fn figure(volume: &TestVolume, name: &str) -> u64 {
    let writeback = writeback(volume);
    writeback[name].as_u64().unwrap_or_else(|| panic!("no {name} in {writeback}"))
}

/// Waits until everything is stored, without asking for it.
fn assert_stored_by_itself(volume: &TestVolume) {
    let stored = wait_until(Duration::from_secs(60), || (figure(volume, "files") == 0).then_some(()));
    assert!(stored.is_some(), "{}\n{}", writeback(volume), volume.log());
}

/// Everything `stat(2)` says that must not change by storing.
fn facts(path: &Path) -> (u64, i64, i64, i64, i64, u32, u64) {
    let meta = fs::metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    (meta.size(), meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec(), meta.mode(), meta.nlink())
}
