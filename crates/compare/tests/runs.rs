//! Whole runs of the program: that one gives figures, and that nothing is left of one that was killed.
//!
//! They mount, so they need root and the program under test: `HEADRACE_BIN`, as `make test` sets it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use headrace_testbed::process::wait_until;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(120);

fn installed() -> bool {
    let there = std::env::var_os("HEADRACE_BIN").is_some();
    if !there {
        println!("not run: HEADRACE_BIN is not set, so nothing is to be mounted");
    }
    there
}

fn run(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headrace-compare"));
    command.args(["run", "--tiny", "--minutes", "5", "--repeat", "1", "--temporary"]).arg(dir);
    command.arg("--out").arg(dir.join("out")).args(args).stdin(Stdio::null());
    command
}

fn mounted_below(dir: &Path) -> Vec<String> {
    let table = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let wanted = dir.display().to_string();
    table.lines().filter(|line| line.contains(&wanted)).map(str::to_owned).collect()
}

/// Directories of runs, and processes that have one of them in their command line.
fn left(dir: &Path) -> (Vec<PathBuf>, Vec<String>) {
    let runs = std::fs::read_dir(dir).unwrap().flatten().map(|entry| entry.path());
    let runs = runs.filter(|path| path.file_name().is_some_and(|name| name != "out")).collect();
    let wanted = dir.display().to_string();
    let processes = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        let command = std::fs::read(entry.path().join("cmdline")).ok()?;
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        command.contains(&wanted).then_some(command)
    });
    (runs, processes.collect())
}

fn assert_nothing_left(dir: &Path) {
    let nothing = || {
        let (runs, processes) = left(dir);
        (mounted_below(dir).is_empty() && runs.is_empty() && processes.is_empty()).then_some(())
    };
    assert!(wait_until(LIMIT, nothing).is_some(), "{:?} {:?}", mounted_below(dir), left(dir));
}

#[test]
fn a_run_measures_all_it_should_and_leaves_only_its_report() {
    if !installed() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let args = [
        "--subjects",
        "native,headrace-local,headrace,headrace-bucket",
        "--cases",
        "sequential/1-by-1m,small/create,write",
    ];
    let output = run(dir.path(), &args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let results = std::fs::read(dir.path().join("out/results.json")).unwrap();
    let results: Value = serde_json::from_slice(&results).unwrap();
    let figures = results["figures"].as_array().unwrap();
    // Five cases: on loopback 3 subjects and a fourth for writes, on the slow network one and a second for writes.
    assert_eq!(figures.len(), (3 + 4 * 4) + (1 + 4 * 2), "{results:#}");
    let mut cpu = 0.0;
    for figure in figures {
        assert!(figure["failed"].is_null(), "{figure:#}");
        assert!(figure["measured"]["value"].as_f64().unwrap() > 0.0, "{figure:#}");
        let remote = !["native", "headrace-local"].contains(&figure["subject"].as_str().unwrap());
        if remote {
            cpu += figure["measured"]["daemon_cpu"].as_f64().unwrap();
        }
        if remote && figure["case"] == "sequential/1-by-1m" {
            let measured = &figure["measured"];
            assert!(
                measured["fetched"].as_u64() >= measured["bytes"].as_u64(),
                "cold means from the store: {figure:#}"
            );
            assert!(measured["peak_memory"].as_u64().unwrap() > 1 << 20, "{figure:#}");
        }
    }
    // Counted in ticks of the clock: so small a case may take less than one.
    assert!(cpu > 0.0, "{results:#}");
    let report = std::fs::read_to_string(dir.path().join("out/report.md")).unwrap();
    assert!(report.contains("| headrace-bucket"), "{report}");
    assert_nothing_left(dir.path());
}

/// What a tiny run of `reads` or `writes` with these arguments records; nothing of it may fail.
fn by_themselves(dir: &Path, args: &[&[&str]]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_headrace-compare"))
        .args(args.concat())
        .args(["--tiny", "--minutes", "5", "--repeat", "1", "--noise", "99"])
        .arg("--temporary")
        .arg(dir)
        .arg("--out")
        .arg(dir.join("out"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let results: Value =
        serde_json::from_slice(&std::fs::read(dir.join("out/results.json")).unwrap()).unwrap();
    for sample in results["samples"].as_array().unwrap() {
        assert!(sample["failed"].is_null(), "{sample:#}");
    }
    results
}

#[test]
fn reads_by_themselves_are_measured_and_leave_only_their_report() {
    if !installed() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let results = by_themselves(
        dir.path(),
        &[
            &["reads", "--parts", "matrix,cpu,one-get,descriptors,faults"],
            &["--rows", "1ms/uncapped,1 stream,loopback,hang/1"],
        ],
    );
    let samples = results["samples"].as_array().unwrap();
    let count = |part| samples.iter().filter(|sample| sample["part"] == part).count();
    // One, four and 32 streams, each with the default and at least three settings by hand.
    assert!(count("matrix") >= 3 * 4, "{results:#}");
    assert_eq!((count("cpu"), count("one-get"), count("descriptors"), count("faults")), (3, 3, 4, 1));
    let hang = samples.iter().find(|sample| sample["part"] == "faults").unwrap();
    assert!(hang["values"]["faults"].as_f64().unwrap() >= 1.0, "a request met its fault: {hang:#}");
    assert_nothing_left(dir.path());
}

#[test]
fn writes_by_themselves_are_measured_and_leave_only_their_report() {
    if !installed() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let results = by_themselves(dir.path(), &[&["writes", "--contenders", "native,headrace,2 PUTs,4 PUTs"]]);
    let samples = results["samples"].as_array().unwrap();
    let of = |part| samples.iter().filter(move |sample| sample["part"] == part);
    // Three networks with one and four streams, three contenders; two networks, of them one with the native file system; two ways to write to
    // this machine's disk first; four ways to make files, also so; seven kinds of reads, idle and not, and what was written meanwhile.
    let count = |part| of(part).count();
    assert_eq!((count("sequential"), count("overwrite")), (6 * 3, 3), "{results:#}");
    assert_eq!((count("small-files"), count("bufferbloat")), (4 * 3, 7 * 2 + 1), "{results:#}");
    assert_eq!(count("write-back"), 2 * 2, "{results:#}");
    let stores = |sample: &&Value| sample["contender"] == "headrace" && sample["part"] != "write-back";
    for sample in samples.iter().filter(stores) {
        let value = |name: &str| sample["values"][name].as_f64();
        // All that was written is in the store, once at least; small files are text, and may be compressed.
        let least = if sample["part"] == "small-files" { 0.1 } else { 0.9 };
        assert!(value("put_bytes").unwrap() > least, "{sample:#}");
        assert!(value("puts").unwrap() > 0.0 && value("memory").unwrap() > f64::from(1 << 20), "{sample:#}");
    }
    let extents = of("overwrite").filter_map(|sample| sample["values"]["extents"].as_f64());
    assert!(
        extents.filter(|extents| *extents > 10.0).count() == 2,
        "200 blocks are in as many places: {results:#}"
    );
    assert_nothing_left(dir.path());
}

/// Starts a run and waits until something is mounted.
fn started(dir: &Path) -> Child {
    let mut child =
        run(dir, &["--subjects", "headrace", "--cases", "small"]).stderr(Stdio::null()).spawn().unwrap();
    let mounted = wait_until(LIMIT, || (!mounted_below(dir).is_empty()).then_some(()));
    assert!(mounted.is_some(), "nothing was mounted: {:?}", child.try_wait());
    child
}

#[test]
fn nothing_is_left_of_a_run_that_was_killed() {
    if !installed() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut child = started(dir.path());
    child.kill().unwrap();
    child.wait().unwrap();
    assert_nothing_left(dir.path());
}

#[test]
fn the_next_run_cleans_up_when_the_guard_was_killed_too() {
    if !installed() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut child = started(dir.path());
    let guard = guard_of(child.id());
    kill_process(guard, Signal::KILL).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!left(dir.path()).0.is_empty(), "the guard was not the one who cleans up");
    let again =
        run(dir.path(), &["--subjects", "native", "--cases", "sequential/1-by-1m", "--profile", "loopback"]);
    let output = { again }.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_nothing_left(dir.path());
}

fn guard_of(run: u32) -> Pid {
    let children = std::fs::read_to_string(format!("/proc/{run}/task/{run}/children")).unwrap();
    let is_guard = |pid: &&str| {
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        command.split(|byte| *byte == 0).nth(1) == Some(b"guard")
    };
    let pid = children.split_whitespace().find(is_guard).expect("a run has a guard");
    Pid::from_raw(pid.parse().unwrap()).unwrap()
}
