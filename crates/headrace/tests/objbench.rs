//! `headrace objbench`: on a directory and on a real server, its forms of output, and that nothing of it is left.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use headrace_testbed::process::{wait_for, wait_until};
use headrace_testbed::volume::native_only;
use headrace_testbed::{Run, S3Server, headrace};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(180);

/// Little enough for a test, but a part of everything.
const LITTLE: [&str; 7] = [
    "--quick",
    "--concurrency=1,6",
    "--for=50ms",
    "--big-size=256K",
    "--block=64K",
    "--big-objects=8",
    "--small-objects=12",
];

fn objbench(url: impl AsRef<std::ffi::OsStr>) -> Run {
    Run::new(headrace()).arg("objbench").arg(url).limit(LIMIT)
}

/// Files below a directory; what the local store keeps for itself does not count.
fn files(directory: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![directory.to_path_buf()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                true => open.push(entry.path()),
                false => found.push(entry.path()),
            }
        }
    }
    found
}

#[test]
fn a_directory_is_measured_told_and_left_empty() {
    if native_only() {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("store");
    std::fs::create_dir(&directory).unwrap();
    for plot in ["plot.svg", "plot.png"] {
        let plot = scratch.path().join(plot);
        let text = objbench(&directory).args(LITTLE).arg("--plot").arg(&plot).ok();
        for line in
            ["What the store does", "Objects of 256 KiB, ranges of 64 KiB", "Objects of 4 KiB", "p99.9"]
        {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert!(!text.contains('\x1b'), "no colours where there is no terminal: {text}");
        assert!(std::fs::metadata(&plot).unwrap().len() > 1000);
        assert_eq!(files(&directory), Vec::<std::path::PathBuf>::new());
    }
}

#[test]
fn a_server_is_measured_in_json() {
    if native_only() {
        return;
    }
    let server = S3Server::start();
    let url = format!("s3://{}/some/prefix", server.bucket());
    let output = objbench(url).args(LITTLE).arg("--json").envs(&server.client_env()).ok();
    let report: Value = serde_json::from_str(&output).unwrap_or_else(|e| panic!("{e}: {output}"));
    assert_eq!(report["schema"], "headrace-objbench-1");
    assert_eq!(report["options"]["seconds_each"], 0.05);
    assert_eq!(report["measurements"].as_array().unwrap().len(), 2 * 9);
    for row in report["measurements"].as_array().unwrap() {
        assert!(row["requests"].as_u64().unwrap() >= row["concurrency"].as_u64().unwrap(), "{row}");
        assert!(row["latency"]["p50"].as_f64().unwrap() <= row["latency"]["max"].as_f64().unwrap(), "{row}");
        assert_eq!(row["errors"], Value::Array(Vec::new()));
    }
    assert!(
        report["checks"]
            .as_array()
            .unwrap()
            .iter()
            .all(|check| check["passed"] == true || check["required"] == false)
    );
    assert!(!output.contains(headrace_testbed::s3::SECRET_KEY));
    assert_eq!(files(&server.bucket_dir()), Vec::<std::path::PathBuf>::new());
}

#[test]
fn an_interrupted_run_removes_what_it_wrote() {
    if native_only() {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let mut child = Command::new(headrace())
        .args(["objbench", "--concurrency=2", "--for=10m"])
        .arg(scratch.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let measuring = || {
        files(scratch.path())
            .iter()
            .any(|path| path.parent().is_some_and(|dir| dir.ends_with("big")))
            .then_some(())
    };
    wait_until(LIMIT, measuring).expect("it begins to measure");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert!(wait_for(&mut child, LIMIT).expect("it ends").success());
    let output = child.wait_with_output().unwrap();
    let (text, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("Stopped early") && said.contains("removing what was written"), "{text}{said}");
    assert_eq!(files(scratch.path()), Vec::<std::path::PathBuf>::new());
}

#[test]
fn what_cannot_be_done_is_refused_before_anything_is_written() {
    if native_only() {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    for (args, why, code) in [
        (&["--block=8M"][..], "8 MiB cannot be measured in objects of 4 MiB", 2),
        (&["--plot=plot.gif"], ".svg or .png", 2),
        (&["--big-size=1G", "--big-objects=1000000"], "has room for", 1),
    ] {
        let finished = objbench(scratch.path()).args(args).finish();
        assert_eq!(finished.status.code(), Some(code), "{}", finished.stderr);
        assert!(finished.stderr.contains(why), "{}", finished.stderr);
    }
    let finished = objbench(scratch.path().join("none")).arg("--quick").finish();
    assert_eq!(finished.status.code(), Some(5), "{}", finished.stderr);
    assert_eq!(files(scratch.path()), Vec::<std::path::PathBuf>::new());
}
