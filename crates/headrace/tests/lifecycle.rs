//! Mounting and unmounting in every way there is, and what happens to data that is not written out yet.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use headrace_testbed::mount::{daemons_of, force_unmount, mount_options, mount_table_has, wait_for_exit};
use headrace_testbed::process::{kill_group, wait_for, wait_until};
use headrace_testbed::volume::native_only;
use headrace_testbed::{Backing, MountOptions, Run, TestVolume, TreeDigest, headrace, pattern, tree_digest};
use rustix::process::Signal;

const SOON: Duration = Duration::from_secs(60);

/// Data of all sizes, none of it synced: much of it is still in the daemon's memory.
fn dirty(dir: &Path) -> TreeDigest {
    std::fs::create_dir(dir.join("many")).unwrap();
    for n in 0..500 {
        std::fs::write(dir.join(format!("many/{n}")), pattern(n, (n * 37) as usize)).unwrap();
    }
    std::fs::write(dir.join("large"), pattern(99, 40 << 20)).unwrap();
    tree_digest(dir)
}

fn assert_there(volume: &TestVolume, expected: &TreeDigest) {
    let mounted = volume.mount();
    expected.assert_same(&tree_digest(&mounted.path()));
    mounted.unmount();
    volume.assert_clean();
}

#[test]
fn signals_write_everything_out() {
    if native_only() {
        return;
    }
    for signal in [Signal::TERM, Signal::INT] {
        let volume = TestVolume::new(Backing::S3);
        let mounted = volume.mount();
        let expected = dirty(&mounted.path());
        mounted.signal_and_wait(signal);
        mounted.ended();
        assert_there(&volume, &expected);
    }
}

#[test]
fn umount_8_writes_everything_out() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::Local);
    let mounted = volume.mount();
    let expected = dirty(&mounted.path());
    Run::new("umount").arg(mounted.path()).ok();
    mounted.ended();
    assert_there(&volume, &expected);
}

#[test]
fn a_busy_mount_is_not_unmounted() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::Local);
    let mounted = volume.mount();
    let file = File::create(mounted.join("open")).unwrap();
    let finished = volume.command(&["umount"]).arg(mounted.path()).limit(SOON).fails();
    assert!(finished.stderr.contains("in use") || finished.stderr.contains("busy"), "{finished}");
    assert!(mount_table_has(&mounted.path()));
    drop(file);
    mounted.unmount();
}

#[test]
fn open_files_outlive_a_lazy_unmount() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::Local);
    let mounted = volume.mount();
    let path = mounted.join("file");
    let mut file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
    file.write_all(&pattern(1, 3 << 20)).unwrap();
    Run::new("umount").arg("-l").arg(mounted.path()).ok();
    assert!(!mount_table_has(&volume.mount_point()));
    file.write_all(b"more").unwrap();
    file.sync_all().unwrap();
    let mut back = Vec::new();
    file.seek(SeekFrom::Start(0)).unwrap();
    file.read_to_end(&mut back).unwrap();
    let expected = [pattern(1, 3 << 20), b"more".to_vec()].concat();
    assert!(back == expected);
    drop(file);
    mounted.ended();
    let mounted = volume.mount();
    assert!(std::fs::read(&path).unwrap() == expected);
    mounted.unmount();
}

#[test]
fn a_dead_mount_is_replaced_by_the_next_one() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::Local);
    let mounted = volume.mount();
    std::fs::write(mounted.join("file"), b"content").unwrap();
    File::open(mounted.join("file")).unwrap().sync_all().unwrap();
    mounted.kill();
    let error = std::fs::metadata(mounted.join("file")).unwrap_err();
    // A request that was under way when the connection ended gets the second.
    let dead = [rustix::io::Errno::NOTCONN, rustix::io::Errno::CONNABORTED].map(|e| Some(e.raw_os_error()));
    assert!(dead.contains(&error.raw_os_error()), "{error}");
    mounted.abandon();
    let mounted = volume.mount();
    assert_eq!(std::fs::read(mounted.join("file")).unwrap(), b"content");
    mounted.unmount();
    // The dead one is not below it.
    assert!(!mount_table_has(&volume.mount_point()));
    volume.assert_clean();
}

/// `/sbin/mount.fuse.headrace` for the time of a test: mount(8) looks nowhere else. What was there comes back.
struct Helper {
    link: PathBuf,
    aside: Option<PathBuf>,
}

impl Helper {
    fn install() -> Helper {
        let link = PathBuf::from("/sbin/mount.fuse.headrace");
        let aside = link.with_file_name("mount.fuse.headrace.aside-for-a-test");
        let existed = std::fs::rename(&link, &aside).is_ok();
        std::os::unix::fs::symlink(headrace(), &link).unwrap();
        Helper { link, aside: existed.then_some(aside) }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.link);
        if let Some(aside) = &self.aside {
            let _ = std::fs::rename(aside, &self.link);
        }
    }
}

#[test]
fn mount_8_and_fstab_work_through_the_helper() {
    if native_only() {
        return;
    }
    let _helper = Helper::install();
    let volume = TestVolume::new(Backing::Local);
    let at = volume.mount_point();
    let mount = |args: &[&str]| Run::new("mount").args(args).envs(&volume.env()).limit(SOON).ok();

    let options = format!("allow_other,noatime,log-file={}", volume.log_file().display());
    mount(&["-t", "fuse.headrace", "-o", &options, &volume.url(), &at.display().to_string()]);
    let mounted = mount_options(&at).expect("it is mounted");
    assert!(mounted.starts_with("fuse.headrace ") && mounted.contains("allow_other"), "{mounted}");
    std::fs::write(at.join("file"), b"content").unwrap();
    Run::new("umount").arg(&at).ok();
    wait_until(SOON, || daemons_of(&at).is_empty().then_some(())).expect("the daemon ends after umount(8)");

    let fstab = volume.scratch().join("fstab");
    let line = format!("{} {} fuse.headrace ro,{options},nofail 0 0\n", volume.url(), at.display());
    std::fs::write(&fstab, line).unwrap();
    mount(&["--fstab", &fstab.display().to_string(), &at.display().to_string()]);
    assert_eq!(std::fs::read(at.join("file")).unwrap(), b"content");
    let refused = std::fs::write(at.join("other"), b"x").unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(rustix::io::Errno::ROFS.raw_os_error()));
    Run::new("umount").arg(&at).ok();
    wait_until(SOON, || daemons_of(&at).is_empty().then_some(())).expect("the daemon ends after umount(8)");
    volume.assert_clean();
}

/// A daemon in the foreground; killed, and its mount taken away, on drop.
struct Foreground {
    child: Child,
    at: PathBuf,
}

impl Foreground {
    fn start(volume: &TestVolume, env: &[(&str, &Path)]) -> Foreground {
        let log = File::create(volume.log_file()).unwrap();
        let child = Command::new(headrace())
            .args(["mount", "--foreground", &volume.url()])
            .arg(volume.mount_point())
            .envs(volume.env())
            .envs(env.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::from(log.try_clone().unwrap()))
            .stderr(Stdio::from(log))
            .process_group(0)
            .spawn()
            .unwrap();
        Foreground { child, at: volume.mount_point() }
    }

    fn end(&mut self, signal: Signal) -> std::process::ExitStatus {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal).unwrap();
        wait_for(&mut self.child, SOON).expect("the daemon ends after a signal")
    }
}

impl Drop for Foreground {
    fn drop(&mut self) {
        kill_group(&mut self.child);
        if mount_table_has(&self.at) {
            force_unmount(&self.at);
        }
    }
}

#[test]
fn the_foreground_daemon_ends_cleanly_on_control_c() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::Local);
    let mut daemon = Foreground::start(&volume, &[]);
    wait_until(SOON, || mount_table_has(&volume.mount_point()).then_some(()))
        .unwrap_or_else(|| panic!("it does not mount:\n{}", volume.log()));
    let expected = dirty(&volume.mount_point());
    let status = daemon.end(Signal::INT);
    assert!(status.success(), "{status}\n{}", volume.log());
    assert!(!mount_table_has(&volume.mount_point()));
    assert_there(&volume, &expected);
}

#[test]
fn systemd_is_told_when_it_is_ready_and_when_it_stops() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::Local);
    let path = volume.scratch().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(SOON)).unwrap();
    let told = |word: &str| {
        let mut buffer = [0; 4096];
        loop {
            let n = socket
                .recv(&mut buffer)
                .unwrap_or_else(|error| panic!("no {word}: {error}\n{}", volume.log()));
            if String::from_utf8_lossy(&buffer[..n]).lines().any(|line| line == word) {
                return;
            }
        }
    };
    let mut daemon = Foreground::start(&volume, &[("NOTIFY_SOCKET", &path)]);
    told("READY=1");
    assert!(mount_table_has(&volume.mount_point()), "READY=1 came before the mount");
    std::fs::write(volume.mount_point().join("file"), b"x").unwrap();
    let status = daemon.end(Signal::TERM);
    assert!(status.success(), "{status}\n{}", volume.log());
    told("STOPPING=1");
}

#[test]
fn a_read_only_mount_changes_nothing() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::Local);
    let mounted = volume.mount();
    let expected = dirty(&mounted.path());
    mounted.unmount();
    let mounted = volume.mount_with(&MountOptions::default().option("ro"));
    let read_only = Some(rustix::io::Errno::ROFS.raw_os_error());
    let at = mounted.path();
    for error in [
        File::create(at.join("new")).map(drop).unwrap_err(),
        OpenOptions::new().append(true).open(at.join("large")).map(drop).unwrap_err(),
        std::fs::remove_file(at.join("large")).unwrap_err(),
        std::fs::create_dir(at.join("dir")).unwrap_err(),
        std::fs::rename(at.join("large"), at.join("small")).unwrap_err(),
        std::fs::set_permissions(at.join("large"), std::os::unix::fs::PermissionsExt::from_mode(0o600))
            .unwrap_err(),
    ] {
        assert_eq!(error.raw_os_error(), read_only, "{error}");
    }
    expected.assert_same(&tree_digest(&at));
    mounted.unmount();
    assert_there(&volume, &expected);
}

#[test]
fn a_second_mount_is_refused_and_names_the_holder() {
    if native_only() {
        return;
    }
    for backing in [Backing::Local, Backing::S3] {
        let volume = TestVolume::new(backing);
        let mounted = volume.mount();
        let second = volume.scratch().join("second");
        std::fs::create_dir(&second).unwrap();
        let finished = volume.command(&["mount"]).arg(volume.url()).arg(&second).limit(SOON).fails();
        let pid = mounted.daemon().as_raw_nonzero().to_string();
        let at = mounted.path().display().to_string();
        assert!(
            finished.stderr.contains(&pid) && finished.stderr.contains(&at),
            "holder {pid} at {at}: {finished}"
        );
        assert_eq!(finished.status.code(), Some(4), "{finished}");
        assert!(!mount_table_has(&second));
        for command in ["fsck", "destroy"] {
            let finished = volume.command(&[command]).arg(volume.url()).arg(if command == "fsck" {
                "--data"
            } else {
                "--yes"
            });
            let finished = finished.limit(SOON).fails();
            assert!(finished.stderr.contains(&at), "{finished}");
        }
        std::fs::write(mounted.join("still"), b"works").unwrap();
        mounted.unmount();
    }
}

/// The bytes in use according to `statfs`.
fn used_inodes(at: &Path) -> u64 {
    let stat = rustix::fs::statvfs(at).unwrap();
    stat.f_files - stat.f_ffree
}

#[test]
fn an_unlinked_open_file_lives_until_it_is_closed() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::Local);
    let mounted = volume.mount();
    let before = used_inodes(&mounted.path());
    let path = mounted.join("file");
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
    file.write_all_at(&pattern(1, 5 << 20), 0).unwrap();
    std::fs::remove_file(&path).unwrap();
    file.write_all_at(&pattern(2, 5 << 20), 5 << 20).unwrap();
    file.sync_all().unwrap();
    let mut back = vec![0; 10 << 20];
    file.read_exact_at(&mut back, 0).unwrap();
    assert!(back == [pattern(1, 5 << 20), pattern(2, 5 << 20)].concat());
    assert_eq!(used_inodes(&mounted.path()), before + 1);
    drop(file);
    // The kernel tells of the last close a moment later.
    wait_until(SOON, || (used_inodes(&mounted.path()) == before).then_some(()))
        .expect("the inode is given back");

    // And when the daemon dies meanwhile, the next mount gives it back.
    let file = File::create(&path).unwrap();
    file.write_all_at(&pattern(3, 5 << 20), 0).unwrap();
    file.sync_all().unwrap();
    std::fs::remove_file(&path).unwrap();
    File::open(mounted.path()).unwrap().sync_all().unwrap();
    mounted.kill();
    drop(file);
    mounted.abandon();
    let mounted = volume.mount();
    wait_until(SOON, || (used_inodes(&mounted.path()) == before).then_some(()))
        .expect("the orphan is given back");
    mounted.unmount();
    volume.command(&["gc", "--grace", "0s", "--retention", "0"]).arg(volume.url()).ok();
    assert_eq!(volume.segment_files(), Vec::<PathBuf>::new(), "nothing refers to any data any more");
    volume.assert_clean();
}

#[test]
fn mount_creates_and_destroy_deletes() {
    if native_only() {
        return;
    }
    for backing in [Backing::Local, Backing::S3] {
        let volume = TestVolume::unformatted(backing);
        // A cache of its own, beside another volume's.
        let (cache, other) = (volume.scratch().join("cache"), volume.scratch().join("cache/another/data"));
        let cache = cache.display().to_string();
        std::fs::create_dir_all(&other).unwrap();
        std::fs::write(other.join("entry"), b"another's").unwrap();
        let options = MountOptions::default().arg("--create").arg("--cache-dir").arg(&cache);
        let mounted = volume.mount_with(&options);
        std::fs::write(mounted.join("file"), pattern(1, 1 << 20)).unwrap();
        for (command, path) in
            [("info", mounted.join("file")), ("status", mounted.path()), ("du", mounted.path())]
        {
            let plain = volume.command(&[command]).arg(&path).ok();
            assert!(!plain.trim().is_empty(), "{command} prints nothing");
            let json = volume.command(&[command, "--json"]).arg(&path).ok();
            serde_json::from_str::<serde_json::Value>(&json)
                .unwrap_or_else(|error| panic!("{command} --json: {error}: {json}"));
        }
        let mounted = mounted.remount();
        volume.command(&["warmup"]).arg(mounted.path()).ok();
        mounted.unmount();

        // A volume is not formatted over.
        volume.command(&["format"]).arg(volume.url()).fails();
        // Without a terminal to ask on, and without --yes, nothing is deleted.
        volume.command(&["destroy"]).arg(volume.url()).fails();
        assert!(volume.object_files().len() > 1);
        volume.assert_clean();
        assert_eq!(std::fs::read_dir(&cache).unwrap().count(), 2);
        let done =
            volume.command(&["destroy", "--yes", "--json", "--cache-dir", &cache]).arg(volume.url()).ok();
        let done: serde_json::Value = serde_json::from_str(&done).unwrap();
        assert!(done["cache"][0]["bytes"].as_u64().unwrap() >= 1 << 20, "{done}");
        assert_eq!(done["cache"][0]["left"], serde_json::Value::Null);
        assert_eq!(volume.object_files(), Vec::<PathBuf>::new());
        let left: Vec<_> =
            std::fs::read_dir(&cache).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["another"], "of its own cache nothing is left, and of another's all");
        assert_eq!(std::fs::read(other.join("entry")).unwrap(), b"another's");
        volume.command(&["mount"]).arg(volume.url()).arg(volume.mount_point()).limit(SOON).fails();
    }
}

/// The store is gone when the volume is to be unmounted: what is durable here may be left for the next mount.
#[test]
fn a_store_that_is_gone_at_the_end_loses_nothing() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::S3);
    let mounted =
        volume.mount_with(&MountOptions::default().arg("--deadline").arg("2s").arg("--lease").arg("3s"));
    let daemon = mounted.daemon();
    let server = volume.s3().expect("a server");
    server.kill();
    std::fs::write(mounted.join("small"), b"only here so far").unwrap();
    let umount = || volume.command(&["umount"]).arg(volume.mount_point()).limit(Duration::from_secs(60));
    let refused = umount().fails();
    assert!(refused.stderr.contains("nothing is lost") && refused.stderr.contains("--lazy"), "{refused}");
    assert!(mount_table_has(&volume.mount_point()), "it should still be mounted");
    let left = umount().arg("--lazy").fails();
    assert!(left.stderr.contains("only on this machine"), "{left}");
    assert!(wait_for_exit(daemon, Duration::from_secs(60)), "{}", volume.log());
    mounted.ended();

    server.restart();
    let mounted = volume.mount();
    assert_eq!(std::fs::read(mounted.join("small")).unwrap(), b"only here so far");
    mounted.unmount();
    volume.assert_clean();
}

/// A daemon that was paused for longer than its lease, and whose volume somebody has taken: it says so and ends.
#[test]
fn a_daemon_that_was_put_out_ends_by_itself() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::S3);
    let mounted = volume.mount_with(&MountOptions::default().arg("--lease").arg("2s"));
    std::fs::write(mounted.join("f"), b"shipped").unwrap();
    volume.command(&["flush"]).arg(mounted.path()).ok();
    let old = mounted.daemon();
    rustix::process::kill_process(old, Signal::STOP).unwrap();
    let elsewhere = volume.scratch().join("mnt");
    std::fs::create_dir(&elsewhere).unwrap();
    let there = |args: &[&str]| {
        let run = volume.command(args).limit(Duration::from_secs(60));
        let run = run.env("HEADRACE_STATE_DIR", volume.scratch().join("state"));
        run.env("HEADRACE_RUNTIME_DIR", volume.scratch().join("run"))
    };
    there(&["mount", "--takeover", "--lease", "2s"]).arg(volume.url()).arg(&elsewhere).ok();
    std::fs::write(elsewhere.join("g"), b"by the new owner").unwrap();
    rustix::process::kill_process(old, Signal::CONT).unwrap();
    assert!(wait_for_exit(old, Duration::from_secs(60)), "{}", volume.log());
    assert!(volume.log().contains("taken over"), "{}", volume.log());
    mounted.ended();
    assert_eq!(std::fs::read(elsewhere.join("f")).unwrap(), b"shipped");
    there(&["umount"]).arg(&elsewhere).ok();
    volume.assert_clean();
}
