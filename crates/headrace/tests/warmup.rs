//! The cache on local disks as its user meets it: what `headrace warmup` brings there, keeps there and drops, and what `status` and
//! `info` say of it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use headrace_testbed::process::wait_for;
use headrace_testbed::volume::native_only;
use headrace_testbed::{Backing, MountOptions, Mounted, Run, TestVolume, headrace, pattern};
use rustix::process::{Pid, Signal};
use serde_json::Value;

const MIB: usize = 1 << 20;
const SIZES: [usize; 7] = [0, 1, 4096, 65_537, MIB, 5 * MIB + 3, 40 * MIB];

fn cached(volume: &TestVolume) -> MountOptions {
    MountOptions::default()
        .arg("--cache-free")
        .arg("64M")
        .arg("--cache-dir")
        .arg(&cache_dir(volume).display().to_string())
}

fn cache_dir(volume: &TestVolume) -> PathBuf {
    volume.scratch().join("disk")
}

/// Files of several sizes, with data in the store, in a tree with links; how many files, and their bytes.
fn fill(dir: &Path) -> (u64, u64) {
    let below = dir.join("below/it");
    std::fs::create_dir_all(&below).unwrap();
    for (n, size) in SIZES.into_iter().enumerate() {
        let at = if n % 2 == 0 { dir } else { &below };
        std::fs::write(at.join(format!("file-{size}")), pattern(n as u64, size)).unwrap();
    }
    std::fs::write(dir.join(OsStr::from_bytes(b"new\nline \xff")), pattern(99, 3 * MIB)).unwrap();
    std::fs::hard_link(dir.join("file-0"), below.join("no-bytes-again")).unwrap();
    std::fs::hard_link(below.join("file-5242883"), dir.join("the-same")).unwrap();
    std::os::unix::fs::symlink("below", dir.join("link")).unwrap();
    std::os::unix::fs::symlink(".", below.join("loop")).unwrap();
    let bytes: usize = SIZES.iter().sum();
    (SIZES.len() as u64 + 1, (bytes + 3 * MIB) as u64)
}

fn warmup(mounted: &Mounted<'_>, args: &[&str]) -> Run {
    mounted.volume().command(&["warmup"]).args(args)
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn status(mounted: &Mounted<'_>) -> Value {
    json(&mounted.volume().command(&["status", "--json"]).arg(mounted.path()).ok())
}

/// A figure of all directories of the cache.
fn held(mounted: &Mounted<'_>, name: &str) -> u64 {
    let status = status(mounted);
    let directories = status["cache"]["directories"].as_array().expect("directories").clone();
    directories.iter().map(|directory| directory[name].as_u64().expect("a number")).sum()
}

#[test]
fn files_are_filled_stay_over_a_restart_and_go() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::Local);
    let mounted = volume.mount_with(&cached(&volume));
    let (files, bytes) = fill(&mounted.path());
    let mounted = mounted.remount();
    let root = mounted.path();
    warmup(&mounted, &["--evict"]).arg(&root).ok();
    let cold = warmup(&mounted, &["--check", "--json"]).arg(&root).fails();
    assert_eq!(cold.status.code(), Some(1), "{cold}");
    let cold = json(&cold.stdout);
    assert_eq!((&cold["files"], &cold["bytes"]), (&files.into(), &bytes.into()), "{cold}");
    assert!(cold["cached"].as_u64().unwrap() < MIB as u64, "{cold}");

    let filled = json(&warmup(&mounted, &["--json"]).arg(&root).ok());
    for (name, wanted) in [
        ("work", "fill".into()),
        ("files", files.into()),
        ("complete", files.into()),
        ("bytes", bytes.into()),
    ] {
        let wanted: Value = wanted;
        assert_eq!(filled[name], wanted, "{name}: {filled}");
    }
    assert_eq!((&filled["cached"], &filled["failed"]), (&bytes.into(), &0.into()), "{filled}");
    assert!(held(&mounted, "bytes") >= 45 * MIB as u64 && held(&mounted, "entries") > 0);
    let at = status(&mounted)["cache"]["directories"][0]["path"].as_str().unwrap().to_owned();
    let uuid = status(&mounted)["uuid"].as_str().unwrap().to_owned();
    assert_eq!(PathBuf::from(at), cache_dir(&volume).join(uuid));
    let told = volume.command(&["status"]).arg(&root).ok();
    assert!(told.contains("kept free") && told.contains("passthrough"), "{told}");
    let told = volume.command(&["info"]).arg(root.join(format!("file-{}", 40 * MIB))).ok();
    assert!(told.contains("all of it"), "{told}");

    let mounted = mounted.remount();
    let told = warmup(&mounted, &["--check"]).arg(root.join("below")).arg(&root).ok();
    let shown = |told: &str| told.matches("100 %").count();
    assert_eq!(shown(&told), 3, "{told}");
    for (n, size) in SIZES.into_iter().enumerate() {
        let dir = if n % 2 == 0 { root.clone() } else { root.join("below/it") };
        assert!(
            std::fs::read(dir.join(format!("file-{size}"))).unwrap() == pattern(n as u64, size),
            "{size}"
        );
    }

    let dropped = json(&warmup(&mounted, &["--evict", "--json"]).arg(root.join("below")).ok());
    assert!(dropped["bytes"].as_u64().unwrap() >= 5 * MIB as u64, "{dropped}");
    warmup(&mounted, &["--check"]).arg(root.join("below/it/file-5242883")).fails();
    warmup(&mounted, &["--check"]).arg(root.join(format!("file-{}", 40 * MIB))).ok();
    mounted.unmount();
    volume.assert_clean();
}

#[test]
fn what_is_pinned_is_so_until_it_is_evicted() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::Local);
    let mounted = volume.mount_with(&cached(&volume));
    std::fs::write(mounted.join("kept"), pattern(1, 8 * MIB)).unwrap();
    std::fs::write(mounted.join("not-kept"), pattern(2, 8 * MIB)).unwrap();
    let mounted = mounted.remount();
    warmup(&mounted, &["--pin"]).arg(mounted.join("kept")).ok();
    warmup(&mounted, &[]).arg(mounted.join("not-kept")).ok();
    let pinned = held(&mounted, "pinned");
    assert!((8 * MIB as u64..16 * MIB as u64).contains(&pinned), "{pinned} bytes are pinned");
    let mounted = mounted.remount();
    assert_eq!(held(&mounted, "pinned"), pinned, "after a restart");
    warmup(&mounted, &["--evict"]).arg(mounted.join("kept")).ok();
    assert_eq!(held(&mounted, "pinned"), 0);
    mounted.unmount();
}

#[test]
fn lists_may_hold_any_names() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::Local);
    let mounted = volume.mount_with(&cached(&volume));
    fill(&mounted.path());
    let mounted = mounted.remount();
    let script = "find . -type f -print0 | \"$PROGRAM\" warmup -0 --files-from - --json";
    let told = Run::new("sh")
        .args(["-c", script])
        .envs(&volume.env())
        .env("PROGRAM", headrace())
        .dir(&mounted.path())
        .ok();
    let told = json(&told);
    // Two files have two names each.
    assert_eq!((&told["files"], &told["failed"]), (&(SIZES.len() as u64 + 1).into(), &0.into()), "{told}");
    let list = volume.scratch().join("list");
    std::fs::write(&list, format!("{0}/file-4096\n\n{0}/missing\n", mounted.path().display())).unwrap();
    let told = warmup(&mounted, &["--json", "--files-from"]).arg(&list).fails();
    assert_eq!(told.status.code(), Some(1), "{told}");
    assert!(told.stderr.contains("missing"), "{told}");
    let told = json(&told.stdout);
    assert_eq!((&told["files"], &told["failed"]), (&1.into(), &1.into()), "{told}");
    mounted.unmount();
}

#[test]
fn what_fails_is_said_and_does_not_stop_the_rest() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::Local);
    let mounted = volume.mount_with(&cached(&volume));
    std::fs::write(mounted.join("fine"), pattern(1, MIB)).unwrap();
    std::os::unix::fs::symlink("fine", mounted.join("link")).unwrap();
    let mounted = mounted.remount();
    let told = warmup(&mounted, &["--json"])
        .arg(mounted.join("missing"))
        .arg("/proc/self/status")
        .arg(mounted.join("link"))
        .arg(mounted.join("fine"))
        .fails();
    assert_eq!(told.status.code(), Some(1), "{told}");
    for part in ["missing", "/proc/self/status", "symbolic link"] {
        assert!(told.stderr.contains(part), "{part:?} is not named: {told}");
    }
    let told = json(&told.stdout);
    assert_eq!((&told["complete"], &told["failed"]), (&1.into(), &3.into()), "{told}");
    assert_eq!(told["failures"].as_array().map(Vec::len), Some(3), "{told}");
    warmup(&mounted, &["--check"]).arg(mounted.join("fine")).ok();
    mounted.unmount();
}

#[test]
fn a_rate_is_kept_and_whoever_goes_away_ends_the_work() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::Local);
    let mounted = volume.mount_with(&cached(&volume));
    std::fs::write(mounted.join("small"), pattern(1, 8 * MIB)).unwrap();
    std::fs::write(mounted.join("large"), pattern(2, 64 * MIB)).unwrap();
    let mounted = mounted.remount();
    warmup(&mounted, &["--evict"]).arg(mounted.path()).ok();
    let began = Instant::now();
    warmup(&mounted, &["--rate", "4M"]).arg(mounted.join("small")).ok();
    assert!(began.elapsed() >= Duration::from_millis(1400), "it took {:?}", began.elapsed());

    let mut command = Command::new(headrace());
    command.args(["warmup", "--json", "--rate", "1M"]).arg(mounted.join("large")).envs(volume.env());
    let mut child = command.stdout(Stdio::piped()).process_group(0).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(500));
    rustix::process::kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let ended = wait_for(&mut child, Duration::from_secs(20)).expect("it ends when it is asked to");
    assert_eq!(ended.code(), Some(1));
    let mut told = String::new();
    std::io::Read::read_to_string(&mut child.stdout.take().unwrap(), &mut told).unwrap();
    assert_eq!(json(&told)["interrupted"], true, "{told}");
    // Nobody goes on with what would take a minute.
    std::thread::sleep(Duration::from_secs(1));
    let before = held(&mounted, "bytes");
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(held(&mounted, "bytes"), before, "the daemon goes on for nobody");
    mounted.unmount();
}

#[test]
fn without_a_cache_it_is_said_how_to_have_one() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::Local);
    for options in [MountOptions::default(), cached(&volume).arg("--cache-size").arg("off")] {
        let mounted = volume.mount_with(&options);
        std::fs::write(mounted.join("file"), pattern(1, MIB)).unwrap();
        let told = warmup(&mounted, &[]).arg(mounted.join("file")).fails();
        assert_eq!(told.status.code(), Some(1), "{told}");
        for part in [&mounted.path().display().to_string(), "no cache", "--cache-dir"] {
            assert!(told.stderr.contains(part), "{part:?} is missing: {told}");
        }
        assert_eq!(status(&mounted)["cache"], Value::Null);
        mounted.unmount();
        assert!(!cache_dir(&volume).exists(), "a cache is there that nobody asked for");
    }
}

#[test]
fn cache_settings_that_cannot_be_are_refused() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::Local);
    let file = volume.scratch().join("a-file");
    std::fs::write(&file, b"").unwrap();
    let within = volume.mount_point().join("cache");
    for (setting, value, says) in [
        ("--cache-dir", file.display().to_string(), "a-file"),
        ("--cache-dir", volume.url(), "volume's own directory"),
        ("--cache-dir", within.display().to_string(), "mount point"),
        ("--cache-size", "lots".into(), "lots"),
        ("--cache-free", "101%".into(), "101%"),
        ("--cache-expire", "0".into(), "never"),
    ] {
        let mount = volume.command(&["mount", setting, &value]).arg(volume.url()).arg(volume.mount_point());
        let refused = mount.fails();
        assert_eq!(refused.status.code(), Some(2), "{setting} {value}: {refused}");
        assert!(refused.stderr.contains(says), "{says:?} is missing: {refused}");
    }
}

/// Each cached file takes a descriptor while it is used; connections to the store must not go without.
#[test]
fn more_files_than_descriptors_are_read() {
    if native_only() {
        return;
    }
    const FILES: u64 = 400;
    let volume = TestVolume::new(Backing::Local);
    let mounted = volume.mount_with(&cached(&volume));
    for n in 0..FILES {
        std::fs::write(mounted.join(format!("f{n}")), pattern(n, 80_000)).unwrap();
    }
    mounted.unmount();
    let script = "ulimit -n 300; exec \"$PROGRAM\" mount \"$@\"";
    let cache = cache_dir(&volume).display().to_string();
    let at = volume.mount_point();
    let mount = Run::new("sh").args(["-c", script, "sh", &volume.url()]).arg(&at);
    let mount = mount.args(["--cache-dir", &cache, "--cache-free", "64M"]).env("PROGRAM", headrace());
    mount.envs(&volume.env()).ok();
    for _ in 0..2 {
        for n in 0..FILES {
            assert!(std::fs::read(at.join(format!("f{n}"))).unwrap() == pattern(n, 80_000), "f{n}");
        }
    }
    volume.command(&["umount"]).arg(&at).ok();
    volume.assert_clean();
}
