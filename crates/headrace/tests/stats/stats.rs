//! `headrace stats` for scripts and pipes.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use headrace_testbed::process::wait_for;
use headrace_testbed::volume::native_only;
use headrace_testbed::{Backing, TestVolume, pattern};
use serde_json::Value;

use super::load::{Load, Running};

fn number(value: &Value, path: &str) -> f64 {
    value.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("no number {path} in {value:#}"))
}

#[test]
fn once_tells_what_one_interval_brought() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::S3);
    let mounted = volume.mount();
    std::fs::write(mounted.join("file"), pattern(1, 3 << 20)).unwrap();
    let load = Load::on(&mounted.path());
    let stats = |args: &[&str]| volume.command(&["stats"]).arg(mounted.path()).args(args).ok();
    let told: Value = serde_json::from_str(&stats(&["--once", "--json", "--interval", "5s"])).unwrap();
    drop(load);
    assert!((5.0..60.0).contains(&number(&told, "/seconds")));
    for path in [
        "/fuse/written_bytes_per_second",
        "/fuse/all/per_second",
        "/fuse/all/p50_seconds",
        "/fuse/all/busy",
        "/metadata/operations/1/per_second",
        "/metadata/operations/2/p99_seconds",
        "/metadata/disk_bytes",
        "/store/sent_bytes_per_second",
        "/store/all/p99_seconds",
        "/memory/ceiling_bytes",
        "/memory/pools/0/limit_bytes",
        "/writers/dirty_limit_bytes",
        "/process/cpus",
        "/process/resident_bytes",
    ] {
        assert!(number(&told, path) > 0.0, "{path}: {told:#}");
    }
    let all = number(&told, "/fuse/all/per_second");
    let operations = told["fuse"]["operations"].as_array().unwrap();
    let sum: f64 = operations.iter().map(|o| number(o, "/per_second")).sum();
    assert!((sum - all).abs() <= all * 1e-6, "{sum} of {all}");
    for operation in operations {
        let (p50, p99) = (number(operation, "/p50_seconds"), number(operation, "/p99_seconds"));
        assert!(p50 <= p99, "{operation}");
    }
    assert!(number(&told, "/memory/ceiling_bytes") >= number(&told, "/memory/pools/0/limit_bytes"));

    let text = stats(&["--once", "--interval", "100ms"]);
    for layer in ["FUSE", "Metadata", "Cache", "Store", "Memory", "Writers"] {
        assert!(text.lines().any(|line| line.starts_with(layer)), "{layer}: {text}");
    }
    assert!(!text.contains('\u{1b}'), "no terminal, no escape sequences: {text}");
    mounted.unmount();
}

#[test]
fn without_a_terminal_it_prints_lines_until_told_to_stop() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::Local);
    let mounted = volume.mount();
    for json in [false, true] {
        let mut child = Command::new(headrace_testbed::headrace())
            .arg("stats")
            .arg(mounted.path())
            .args(["--interval", "100ms"])
            .args(json.then_some("--json"))
            .envs(volume.env())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .map(Running)
            .unwrap();
        let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
        let three: Vec<String> = lines.by_ref().take(3).map(Result::unwrap).collect();
        if json {
            let at: Vec<f64> =
                three.iter().map(|line| number(&serde_json::from_str(line).unwrap(), "/at")).collect();
            assert!(at.is_sorted() && at[0] < at[2], "{at:?}");
        } else {
            assert!(three[0].contains("READ/S") && three[1].len() == three[0].len(), "{three:#?}");
            // Its reader goes away.
            drop(lines);
            assert!(wait_for(&mut child.0, Duration::from_secs(60)).is_some_and(|s| s.success()));
            continue;
        }
        let pid = rustix::process::Pid::from_child(&child.0);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        assert!(wait_for(&mut child.0, Duration::from_secs(60)).is_some_and(|s| s.success()));
    }
    mounted.unmount();
    let refused = volume.command(&["stats"]).arg(volume.mount_point()).fails();
    assert!(refused.stderr.contains("neither mounted nor a mount point"), "{refused}");
    assert_eq!(refused.status.code(), Some(5));
}
