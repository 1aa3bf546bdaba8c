//! `headrace profile` for scripts, and access logs.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use headrace_testbed::process::{wait_for, wait_until};
use headrace_testbed::volume::native_only;
use headrace_testbed::{Backing, TestVolume};
use humantime::format_rfc3339_micros;
use serde_json::Value;

use super::load::{Load, Running};

#[test]
fn it_tells_who_does_what_how_often() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::Local);
    let mounted = volume.mount();
    let load = Load::on(&mounted.path());
    let profile = |args: &[&str]| volume.command(&["profile"]).arg(mounted.path()).args(args).ok();
    let told: Value = serde_json::from_str(&profile(&["--for", "5s", "--json"])).unwrap();
    let rows = told["rows"].as_array().unwrap();
    let row = |process: &str, operation: &str| {
        let found = rows.iter().find(|row| row["process"] == process && row["operation"] == operation);
        found.unwrap_or_else(|| panic!("no {operation} by {process}: {told:#}"))
    };
    let read = row("dd", "read");
    assert!(read["bytes"].as_u64().unwrap() >= 65_536 && read["pid"].as_u64().unwrap() > 1, "{read}");
    let seconds = |name: &str| read[name].as_f64().unwrap();
    assert!(0.0 < seconds("p50_seconds") && seconds("p50_seconds") <= seconds("p99_seconds"), "{read}");
    assert!(seconds("max_seconds") <= seconds("time_seconds"), "{read}");
    row("mkdir", "mkdir");
    row("rmdir", "rmdir");
    assert!(told["seconds"].as_f64().unwrap() >= 5.0, "{told:#}");
    let sorted: Vec<f64> = rows.iter().map(|row| row["time_seconds"].as_f64().unwrap()).collect();
    assert!(sorted.iter().rev().is_sorted(), "{sorted:?}");

    let text = profile(&["--for", "3s", "--by", "command", "--sort", "bytes"]);
    let first = text.lines().nth(2).unwrap_or_default();
    assert!(first.starts_with("dd "), "{text}");
    drop(load);
    mounted.unmount();
}

/// A recording that ends by itself after `seconds`.
fn record(volume: &TestVolume, file: &Path, seconds: u32) -> Running {
    let child = Command::new(headrace_testbed::headrace())
        .arg("profile")
        .arg(volume.mount_point())
        .arg("--record")
        .arg(file)
        .args(["--for", &format!("{seconds}s")])
        .envs(volume.env())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap();
    Running(child)
}

fn entries(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let complete = text.rsplit_once('\n').map_or("", |(lines, _)| lines);
    complete.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn an_access_log_has_every_operation_once() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::Local);
    let mounted = volume.mount();
    let log = volume.scratch().join("access.log");
    let mut recording = record(&volume, &log, 8);
    // It listens from when it has heard something.
    let heard = wait_until(Duration::from_secs(8), || {
        let _ = std::fs::create_dir(mounted.join("probe"));
        let _ = std::fs::remove_dir(mounted.join("probe"));
        entries(&log).first().cloned()
    });
    heard.expect("the log tells nothing");
    let created: Vec<_> = (0..5)
        .map(|n| {
            let before = SystemTime::now();
            std::fs::File::create_new(mounted.join(format!("file-{n}"))).unwrap();
            before..=SystemTime::now()
        })
        .collect();
    let mut value = [0; 10];
    rustix::fs::getxattr(mounted.join("file-1"), "user.none", &mut value).unwrap_err();
    assert!(wait_for(&mut recording.0, Duration::from_secs(120)).is_some_and(|status| status.success()));

    let entries = entries(&log);
    let own = |operation: &str| {
        let pid = u64::from(std::process::id());
        entries.iter().filter(|e| e["operation"] == operation && e["pid"] == pid).cloned().collect::<Vec<_>>()
    };
    let creates = own("create");
    assert_eq!(creates.len(), 5, "{creates:#?}");
    for create in &creates {
        assert_eq!(
            (&create["inode"], &create["uid"]),
            (&Value::from(1), &Value::from(rustix::process::getuid().as_raw()))
        );
        assert!(create["duration_ns"].as_u64().unwrap() > 0 && create.get("error").is_none(), "{create}");
    }
    let refused = own("getxattr");
    assert!(refused.iter().any(|entry| entry["error"] == "ENODATA"), "{refused:#?}");
    // Lines of two workers may have changed places, but each says when it was.
    let mut times: Vec<&str> = creates.iter().map(|entry| entry["at"].as_str().unwrap()).collect();
    times.sort_unstable();
    for (at, when) in times.iter().zip(&created) {
        let [after, before] = [when.start(), when.end()].map(|time| format_rfc3339_micros(*time).to_string());
        assert!((&after..=&before).contains(&&at.to_string()), "{times:?}: {at}, made {after} to {before}");
    }
    assert_eq!(std::fs::metadata(&log).unwrap().permissions().mode() & 0o777, 0o600);

    // It is read again, here and on any other machine.
    let told = volume.command(&["profile", "--json", "--by", "operation", "--read"]).arg(&log).ok();
    let told: Value = serde_json::from_str(&told).unwrap();
    let counted = told["rows"].as_array().unwrap().iter().find(|row| row["operation"] == "create").unwrap();
    assert!(counted["count"].as_u64().unwrap() >= 5);
    let sum: u64 = told["rows"].as_array().unwrap().iter().map(|row| row["count"].as_u64().unwrap()).sum();
    assert_eq!(sum, entries.len() as u64);

    let again = volume.command(&["profile"]).arg(mounted.path()).arg("--record").arg(&log).fails();
    assert!(again.stderr.contains("exists") && again.stderr.contains("not overwritten"), "{again}");
    let inside =
        volume.command(&["profile"]).arg(mounted.path()).arg("--record").arg(mounted.join("log")).fails();
    assert!(inside.stderr.contains("on the mount that is watched"), "{inside}");
    mounted.unmount();
}

#[test]
fn only_so_many_watch_at_a_time_and_the_next_is_told() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::Local);
    let mounted = volume.mount();
    let logs: Vec<_> = (0..4).map(|n| volume.scratch().join(format!("log-{n}"))).collect();
    let mut watching: Vec<Running> = logs.iter().map(|log| record(&volume, log, 600)).collect();
    let heard = wait_until(Duration::from_secs(60), || {
        let _ = std::fs::create_dir(mounted.join("probe"));
        let _ = std::fs::remove_dir(mounted.join("probe"));
        logs.iter().all(|log| !entries(log).is_empty()).then_some(())
    });
    heard.expect("the logs tell nothing");
    let refused = volume.command(&["profile"]).arg(mounted.path()).args(["--for", "1s"]).fails();
    assert!(refused.stderr.contains("4 others already watch"), "{refused}");
    // Those who are killed make room.
    drop(watching.remove(0));
    let room = wait_until(Duration::from_secs(30), || {
        let run = volume.command(&["profile"]).arg(mounted.path()).args(["--for", "100ms"]).finish();
        run.status.success().then_some(())
    });
    room.expect("a watcher that was killed still counts");
    // The others are interrupted, and say what they have.
    for mut child in watching {
        let pid = rustix::process::Pid::from_child(&child.0);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        assert!(wait_for(&mut child.0, Duration::from_secs(60)).is_some_and(|status| status.success()));
    }
    mounted.unmount();
}
