//! A local store on a disk that is full. The disk is a tiny tmpfs in a mount namespace of a child process, gone with it.

use std::process::Command;

use bytes::Bytes;
use futures::{FutureExt, TryStreamExt};
use headrace_store::{ErrorKind, LocalStore, ObjectStore};

const DIRECTORY: &str = "HEADRACE_TEST_FULL_DISK";

#[test]
fn a_full_disk_is_said_to_be_full() {
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        return on_tiny_disk(std::path::Path::new(&directory));
    }
    let directory = tempfile::tempdir().unwrap();
    let output = Command::new("unshare")
        .args([
            "--mount",
            "sh",
            "-c",
            "mount -t tmpfs -o size=1m tmpfs \"$0\" && exec \"$1\" --exact a_full_disk_is_said_to_be_full",
        ])
        .arg(directory.path())
        .arg(std::env::current_exe().unwrap())
        .env(DIRECTORY, directory.path())
        .output()
        .expect("unshare (of util-linux) starts");
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "needs root: {text}");
    assert!(text.contains("1 passed"), "{text}");
}

fn on_tiny_disk(directory: &std::path::Path) {
    let store = LocalStore::open(directory).unwrap();
    store.put("small", Bytes::from(vec![1; 1000])).now_or_never().unwrap().unwrap();
    for _ in 0..3 {
        let error = store.put("large", Bytes::from(vec![2; 4 << 20])).now_or_never().unwrap().unwrap_err();
        assert_eq!(error.kind, ErrorKind::Full, "{error}");
        assert!(error.to_string().contains("No space left"), "{error}");
    }
    // Nothing half-written is seen, or left to hold the space.
    let objects: Vec<_> = store.list("").try_collect().now_or_never().unwrap().unwrap();
    assert_eq!(objects.len(), 1);
    let space = store.space().unwrap();
    assert!(space.total == 1 << 20 && space.free > 900 << 10, "{space:?}");
    store.put("medium", Bytes::from(vec![3; 500_000])).now_or_never().unwrap().unwrap();
}
