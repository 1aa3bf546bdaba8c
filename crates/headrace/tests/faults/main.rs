//! Stores that misbehave, on real mounts: what programs see, and that nothing they were told is safe is lost.

mod full;
mod levels;
mod load;
mod outage;

use std::fs::File;
use std::io;
use std::os::fd::IntoRawFd;
use std::time::{Duration, Instant};

use headrace_testbed::process::wait_until;
use headrace_testbed::{MountOptions, Mounted, TestVolume};

/// A mount that gives up soon, so that a test can wait for it.
fn impatient(deadline: Duration, request_timeout: Duration) -> MountOptions {
    MountOptions::default()
        .option("memory=256MiB")
        // What is read is to come from the store, which is what breaks here.
        .option("cache-size=off")
        .option(&format!("deadline={}ms", deadline.as_millis()))
        .option(&format!("request-timeout={}ms", request_timeout.as_millis()))
}

/// Closes a file and gives what `close(2)` says, which dropping it does not.
#[allow(unsafe_code)]
fn close(file: File) -> io::Result<()> {
    // SAFETY: the descriptor was taken out of its owner just now, so nobody else will use or close it.
    unsafe { rustix::io::try_close(file.into_raw_fd()) }.map_err(io::Error::from)
}

/// A number of `headrace status --json`, wherever it is in there.
fn figure(volume: &TestVolume, name: &str) -> u64 {
    let status = volume.command(&["status", "--json"]).arg(volume.mount_point()).ok();
    let json: serde_json::Value = serde_json::from_str(&status).expect("JSON");
    find(&json, name).unwrap_or_else(|| panic!("no {name} in {status}"))
}

fn find(json: &serde_json::Value, name: &str) -> Option<u64> {
    match json {
        serde_json::Value::Object(map) => map
            .get(name)
            .and_then(|value| value.as_u64())
            .or_else(|| map.values().find_map(|v| find(v, name))),
        serde_json::Value::Array(items) => items.iter().find_map(|item| find(item, name)),
        _ => None,
    }
}

/// Waits until everything written is in the store, without touching any file.
fn assert_flushed_by_itself(mounted: &Mounted<'_>, within: Duration) {
    let flushed = wait_until(within, || (figure(mounted.volume(), "dirty_bytes") == 0).then_some(()));
    assert!(
        flushed.is_some(),
        "{} bytes are still not stored\n{}",
        figure(mounted.volume(), "dirty_bytes"),
        mounted.volume().log()
    );
}

/// Runs `call`, which must fail with `expected` and not take longer than `within`.
fn assert_fails(
    what: &str,
    expected: rustix::io::Errno,
    within: Duration,
    call: impl FnOnce() -> io::Result<()>,
) {
    let began = Instant::now();
    let error = call().expect_err(what);
    let took = began.elapsed();
    assert_eq!(error.raw_os_error(), Some(expected.raw_os_error()), "{what}: {error}");
    assert!(took < within, "{what}: {error} only after {took:?}");
    println!("     {what}: {error} after {took:.1?}");
}

/// That what is there is what was written, every byte.
fn assert_same(what: &str, found: &[u8], expected: &[u8]) {
    if found != expected {
        let at = found.iter().zip(expected).position(|(found, expected)| found != expected);
        panic!("{what}: {} bytes, not {}; differs at {at:?}", found.len(), expected.len());
    }
}
