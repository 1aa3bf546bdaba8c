//! pjdfstest, the POSIX conformance suite, as a whole, on both kinds of store.

use std::collections::BTreeMap;
use std::path::Path;

use headrace_testbed::{Backing, Run, TestVolume, tool};

/// Every feature of the suite that exists on Linux, so that nothing is skipped.
const CONFIG: &str = r#"
[features]
posix_fallocate = {}
rename_ctime = {}
stat_st_birthtime = {}
utime_now = {}
utimensat = {}

[settings]
naptime = 0.01
allow_remount = ALLOW_REMOUNT
expected_failures = EXPECTED

[dummy_auth]
entries = [["nobody", "nogroup"], ["daemon", "daemon"]]
"#;

/// Cases in pjdfstest 0.2.2; fewer means that the suite did not run as a whole.
const CASES: u32 = 398;

#[test]
fn pjdfstest_passes_on_the_local_store() {
    run(Backing::Local);
}

#[test]
fn pjdfstest_passes_on_s3() {
    run(Backing::S3);
}

fn run(backing: Backing) {
    let volume = TestVolume::new(backing);
    let native = volume.backing() == Backing::Native;
    let excluded = excluded();
    let mounted = volume.mount();
    let scratch = volume.scratch();

    // Cases about two file systems need a second one: any that is not the one under test.
    let second = if native { Path::new("/dev/shm") } else { scratch.as_path() };
    // The read-only cases remount the whole file system, which the machine's own must be spared. They call `mount` with
    // the target only; without -i it would look for a helper of the suite's environment instead of asking the kernel.
    let shims = scratch.join("bin");
    std::fs::create_dir(&shims).unwrap();
    let mount = shims.join("mount");
    std::fs::write(&mount, "#!/bin/sh\nPATH=/usr/bin:/bin:/usr/sbin:/sbin exec mount -i \"$@\"\n").unwrap();
    std::fs::set_permissions(&mount, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", shims.display(), std::env::var("PATH").unwrap());

    let expected = if native { Vec::new() } else { excluded.keys().collect::<Vec<_>>() };
    let config = CONFIG
        .replace("ALLOW_REMOUNT", if native { "false" } else { "true" })
        .replace("EXPECTED", &format!("{expected:?}"));
    std::fs::write(scratch.join("pjdfstest.toml"), config).unwrap();

    let finished = Run::new(tool("pjdfstest"))
        .arg("-c")
        .arg(scratch.join("pjdfstest.toml"))
        .arg("-p")
        .arg(mounted.path())
        .arg("-s")
        .arg(second)
        .env("NO_COLOR", "1")
        .env("PATH", path)
        .finish();
    let summary =
        finished.stdout.lines().rev().find(|line| line.starts_with("Summary")).unwrap_or("no summary");
    println!("pjdfstest on {backing:?}: {summary}");
    let count = |what: &str| -> u32 {
        let before = summary.split(what).next().unwrap_or_default().trim_end();
        before
            .rsplit(' ')
            .next()
            .and_then(|n| n.parse().ok())
            .unwrap_or_else(|| panic!("no count of {what}: {finished}"))
    };

    assert!(finished.status.success(), "{}", failures(&finished.stdout));
    assert_eq!(count(" total"), CASES, "{finished}");
    assert_eq!(count(" expected failures") as usize, expected.len());
    // On the native file system the 13 read-only cases are skipped; on a mount, none.
    let skipped = if native { 13 } else { 0 };
    assert_eq!(count(" skipped"), skipped, "{finished}");
    mounted.unmount();
    volume.assert_clean();
}

/// The excluded cases with their reasons.
fn excluded() -> BTreeMap<String, String> {
    let text = include_str!("pjdfstest-excluded.txt");
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let excluded: BTreeMap<_, _> = lines
        .map(|line| {
            let (name, reason) = line.split_once(": ").unwrap_or((line, ""));
            assert!(reason.trim().len() > 10, "pjdfstest-excluded.txt: {name} has no reason");
            (name.to_string(), reason.to_string())
        })
        .collect();
    for (name, reason) in &excluded {
        println!("excluded: {name}: {reason}");
    }
    assert!(
        excluded.len() * 100 < CASES as usize,
        "{} of {CASES} cases excluded: not under 1%",
        excluded.len()
    );
    excluded
}

/// The failed cases, each with the lines that explain it.
fn failures(output: &str) -> String {
    let mut shown = String::new();
    let mut inside = false;
    for line in output.lines() {
        inside = if line.starts_with(['\t', ' ']) || line.is_empty() { inside } else { false };
        inside |= line.ends_with("FAILED") || line.contains("UNEXPECTEDLY") || line.starts_with("Summary");
        if inside {
            shown.push_str(line);
            shown.push('\n');
        }
    }
    shown
}
