//! `headrace bench`: on a plain directory and on a mount, its forms of output, and that nothing of it is left.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use headrace_testbed::process::{install_program, wait_for, wait_until};
use headrace_testbed::volume::native_only;
use headrace_testbed::{Backing, Run, TestVolume, headrace};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(120);

/// Little enough for a test, but a part of everything.
const LITTLE: [&str; 8] = [
    "--threads=2",
    "--big-size=2M",
    "--block-size=256K",
    "--small-size=3000",
    "--small-count=40",
    "--random-time=100ms",
    "--repeat=2",
    "--keep-caches",
];

fn bench(directory: &Path) -> Run {
    Run::new(headrace()).arg("bench").arg(directory).limit(LIMIT)
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

#[track_caller]
fn assert_empty(directory: &Path) {
    let left: Vec<_> = std::fs::read_dir(directory).unwrap().flatten().map(|entry| entry.path()).collect();
    assert!(left.is_empty(), "{left:?}");
}

fn phases(directory: &Value) -> Vec<&str> {
    directory["phases"].as_array().unwrap().iter().map(|figures| figures["phase"].as_str().unwrap()).collect()
}

#[test]
fn json_and_plot_hold_every_phase() {
    if native_only() {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("here");
    std::fs::create_dir(&directory).unwrap();
    let plot = scratch.path().join("figures.svg");
    let report = json(&bench(&directory).args(LITTLE).arg("--json").arg("--plot").arg(&plot).ok());
    assert_empty(&directory);
    assert_eq!(report["schema"], "headrace-bench-1");
    assert_eq!(report["options"]["random_seconds"], 0.1);
    let [found] = report["directories"].as_array().unwrap().as_slice() else { panic!("{report}") };
    assert_eq!(
        phases(found),
        [
            "big-write",
            "big-read",
            "big-reread",
            "random-read",
            "random-write",
            "small-write",
            "list",
            "stat",
            "small-read",
            "rename",
            "delete"
        ]
    );
    for figures in found["phases"].as_array().unwrap() {
        assert_eq!(figures["runs"].as_array().unwrap().len(), 2, "{figures}");
        assert!(figures["rate"]["median"].as_f64().unwrap() > 0.0, "{figures}");
        assert!(figures["latency"]["p99"].as_f64() <= figures["latency"]["max"].as_f64(), "{figures}");
    }
    let stat = &found["phases"][7]["runs"][1];
    assert_eq!(stat["operations"], 80, "{stat}");
    let picture = std::fs::read_to_string(&plot).unwrap();
    for words in ["read large files", "stat small files", "delete one file", "4 KiB"] {
        assert!(picture.contains(words), "the plot lacks {words:?}");
    }
}

#[test]
fn a_mount_is_compared_with_a_native_directory() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::S3);
    let mounted = volume.mount();
    let native = tempfile::tempdir().unwrap();
    let text = bench(&mounted.path()).arg("--against").arg(native.path()).args(LITTLE).ok();
    for words in ["fuse", "A/B", "write large files", "delete small files", "MiB/s", "files/s", "±"] {
        assert!(text.contains(words), "{words:?} is not in {text}");
    }
    assert!(!text.contains('\x1b'), "colours, but no terminal: {text}");
    assert_empty(&mounted.path());
    assert_empty(native.path());
    mounted.unmount();
    volume.assert_clean();
}

#[test]
fn interrupted_it_leaves_nothing_behind() {
    if native_only() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut child = Command::new(headrace())
        .arg("bench")
        .arg(directory.path())
        .args(["--threads=2", "--big-size=1M", "--small-size=1", "--small-count=200000"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    // Hundreds of thousands of small files are to be written: it is in the midst of that.
    let small = || {
        let space = std::fs::read_dir(directory.path()).ok()?.next()?.ok()?.path();
        space.join("t001/d00001").exists().then_some(())
    };
    wait_until(LIMIT, small).expect("small files are written");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let status = wait_for(&mut child, LIMIT).expect("it ends");
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("stopped before the end") && said.contains("deleted"), "{said}");
    assert_empty(directory.path());
}

#[test]
fn an_ordinary_user_is_told_what_was_not_dropped() {
    if native_only() || !rustix::process::geteuid().is_root() {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let open = |path: &Path| std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
    open(scratch.path());
    let directory = scratch.path().join("here");
    std::fs::create_dir(&directory).unwrap();
    open(&directory);
    // Where the program was built, others may not be let in.
    let program = scratch.path().join("headrace");
    install_program(&headrace(), &program);
    let dropping = &LITTLE[..LITTLE.len() - 1];
    let run = Run::new(&program).arg("bench").arg(&directory).args(dropping).arg("--json").limit(LIMIT);
    let report = json(&run.env("HOME", scratch.path()).as_user(65534, 65534).ok());
    let caches = |phase: usize| report["directories"][0]["phases"][phase]["caches"].clone();
    assert_eq!(caches(1), "contents-dropped");
    assert_eq!(caches(6), "refused");
    assert_eq!(caches(0), Value::Null);
    let notes = report["notes"].to_string();
    assert!(notes.contains("takes root"), "{notes}");
    assert_empty(&directory);
}

#[test]
fn what_cannot_be_done_is_said_and_nothing_is_made() {
    if native_only() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing");
    let cases: [(Run, i32, &str); 6] = [
        (bench(&missing), 5, "missing"),
        (bench(directory.path()).arg("--plot=figures.pdf"), 2, "pdf"),
        (bench(directory.path()).arg("--threads=0"), 2, "threads"),
        (bench(directory.path()).arg("--block-size=5000"), 2, "multiple of 4 KiB"),
        (bench(directory.path()).args(["--big-size=1T", "--threads=256"]), 1, "has room for"),
        (bench(Path::new("/proc")).arg("--quick"), 5, "/proc"),
    ];
    for (run, code, words) in cases {
        let finished = run.fails();
        assert_eq!(finished.status.code(), Some(code), "{finished}");
        assert!(finished.stderr.contains(words), "{words:?}: {finished}");
        assert_empty(directory.path());
    }
}
