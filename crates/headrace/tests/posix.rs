//! pjdfstest, the POSIX conformance suite, as a whole, on both kinds of store.

use std::collections::BTreeMap;
use std::path::Path;

use headrace_testbed::process::install_program;
use headrace_testbed::{Backing, MountOptions, Run, TestVolume, tool, uring};

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

[dummy_auth]
entries = [["nobody", "nogroup"], ["daemon", "daemon"]]
"#;

/// Cases in pjdfstest 0.2.2; fewer means that the suite did not run as a whole.
const CASES: usize = 398;

#[test]
fn pjdfstest_passes_on_the_local_store() {
    run(Backing::Local, &MountOptions::default());
}

#[test]
fn pjdfstest_passes_where_every_write_is_durable() {
    run(Backing::Local, &MountOptions::default().option("sync"));
}

#[test]
fn pjdfstest_passes_where_new_files_are_written_back() {
    run(Backing::Local, &MountOptions::default().option("writeback"));
}

#[test]
fn pjdfstest_passes_with_durability_in_the_bucket() {
    run(Backing::S3, &MountOptions::default().option("durable=bucket"));
}

#[test]
fn pjdfstest_passes_where_requests_come_by_io_uring() {
    let Some(_offered) = uring::offered() else { return };
    run(Backing::Local, &MountOptions::default().option("io-uring"));
}

#[test]
fn pjdfstest_passes_on_s3() {
    run(Backing::S3, &MountOptions::default());
}

fn run(backing: Backing, options: &MountOptions) {
    let volume = TestVolume::new(backing);
    let native = volume.backing() == Backing::Native;
    let excluded = excluded();
    let mounted = volume.mount_with(options);
    let scratch = volume.scratch();
    // mount(8) for the suite: -i asks the kernel rather than a mount helper, as the suite names the mount point only.
    let shims = scratch.join("bin");
    std::fs::create_dir(&shims).unwrap();
    let script = scratch.join("mount.sh");
    std::fs::write(&script, "#!/bin/sh\nPATH=/usr/bin:/bin:/usr/sbin:/sbin exec mount -i \"$@\"\n").unwrap();
    install_program(&script, &shims.join("mount"));

    let suite = |remount: bool, pattern: &[&str]| {
        let config = CONFIG.replace("ALLOW_REMOUNT", &remount.to_string());
        std::fs::write(scratch.join("pjdfstest.toml"), config).unwrap();
        let finished = Run::new(tool("pjdfstest"))
            .arg("-c")
            .arg(scratch.join("pjdfstest.toml"))
            .arg("-p")
            .arg(mounted.path())
            // Cases about two file systems need a second one: any that is not the one under test.
            .arg("-s")
            .arg(if native { Path::new("/dev/shm") } else { &scratch })
            .args(pattern)
            .env("NO_COLOR", "1")
            .env("PATH", format!("{}:{}", shims.display(), std::env::var("PATH").unwrap()))
            .finish();
        assert!(finished.status.success(), "pjdfstest on {backing:?}:\n{}", failures(&finished.stdout));
        finished.stdout
    };
    let mut results = cases(&suite(false, &[]));
    assert_eq!(results.len(), CASES, "the suite did not run as a whole");
    // The cases on a file system that becomes read-only, which the machine's own must be spared. They run by themselves:
    // other cases leave files open for writing until the suite ends, and no file system can become read-only then.
    if !native {
        results.extend(cases(&suite(true, &["erofs"])));
        let skipped: Vec<_> =
            results.iter().filter(|(_, result)| *result == "skipped").map(|(name, _)| name).collect();
        assert_eq!(
            skipped,
            excluded.keys().collect::<Vec<_>>(),
            "skipped cases, against those with a reason"
        );
    }
    let passed = results.values().filter(|result| *result == "ok").count();
    println!("pjdfstest on {backing:?}: {passed} of {CASES} passed, {} do not apply", CASES - passed);
    mounted.unmount();
    volume.assert_clean();
}

/// The result of each case, by name.
fn cases(output: &str) -> BTreeMap<String, String> {
    let lines = output.lines().filter(|line| line.contains("::") && !line.starts_with(['\t', ' ']));
    lines
        .filter_map(|line| line.rsplit_once(' '))
        .map(|(name, result)| (name.trim().to_string(), result.to_string()))
        .collect()
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
    assert!(excluded.len() * 100 < CASES, "{} of {CASES} cases excluded: not under 1%", excluded.len());
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
