//! A server that is away for a while, and one that does not come back.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use headrace_testbed::process::{kill_group, wait_for, wait_until};
use headrace_testbed::volume::native_only;
use headrace_testbed::writer::own_descriptors;
use headrace_testbed::{Backing, MountOptions, Mounted, TestVolume, direct, env_number, pattern};
use rustix::io::Errno;
use rustix::process::{Pid, Signal};

use super::{assert_fails, assert_flushed_by_itself, assert_same, close, impatient};

const MIB: usize = 1 << 20;

/// Writes files of all sizes, some synced, until told to stop; gives what was written. No call may fail.
fn writer(dir: &Path, number: u64, stop: &AtomicBool) -> Vec<(PathBuf, u64, usize)> {
    // The server is started again meanwhile: it must not wait for these files.
    own_descriptors();
    let mut written = Vec::new();
    for round in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let seed = number * 1_000_000 + round;
        let size = [3_000, 90_000, 2 * MIB + 17, 9 * MIB][(round % 4) as usize];
        let path = dir.join(format!("{number}-{round}"));
        let began = Instant::now();
        let result = (|| {
            let mut file = File::create(&path)?;
            for chunk in pattern(seed, size).chunks(300_000) {
                file.write_all(chunk)?;
            }
            if round % 3 == 0 {
                file.sync_all()?;
            }
            close(file)
        })();
        result.unwrap_or_else(|error| panic!("{}: {error} after {:?}", path.display(), began.elapsed()));
        written.push((path, seed, size));
    }
    written
}

#[test]
fn a_server_that_stops_for_a_while_is_waited_for() {
    if native_only() {
        return;
    }
    waited_for(&|options| options, direct::read);
}

/// Writers go on through a server that hangs and one that is gone, with what `level` adds to the mount; `read` gives a file's content.
pub(super) fn waited_for(
    level: &dyn Fn(MountOptions) -> MountOptions,
    read: fn(&Path) -> io::Result<Vec<u8>>,
) {
    let away = Duration::from_secs(env_number("HEADRACE_OUTAGE_SECONDS", 3));
    let volume = TestVolume::new(Backing::S3);
    let server = volume.s3().expect("S3");
    let patience = impatient(4 * away + Duration::from_secs(10), Duration::from_millis(1500));
    let mounted = volume.mount_with(&level(patience));
    let stop = AtomicBool::new(false);
    let dir = mounted.path();
    let written: Vec<_> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|number| {
                let (dir, stop) = (&dir, &stop);
                scope.spawn(move || writer(dir, number, stop))
            })
            .collect();
        let pause = || std::thread::sleep(Duration::from_millis(700));
        pause();
        server.freeze();
        std::thread::sleep(away);
        server.thaw();
        pause();
        server.kill();
        std::thread::sleep(away);
        server.restart();
        pause();
        stop.store(true, Ordering::Relaxed);
        writers.into_iter().flat_map(|writer| writer.join().expect("no call fails")).collect()
    });
    println!("     {} files were written", written.len());
    let verify = |mounted: &Mounted<'_>| {
        for (path, seed, size) in &written {
            let found =
                read(path).unwrap_or_else(|e| panic!("{}: {e}\n{}", path.display(), mounted.volume().log()));
            assert_same(&path.display().to_string(), &found, &pattern(*seed, *size));
        }
    };
    verify(&mounted);
    let mounted = mounted.remount();
    verify(&mounted);
    mounted.unmount();
    volume.assert_clean();
}

/// Everything that a program can see of a server that is gone, and that it goes on when it is back.
#[test]
fn a_server_that_is_gone_makes_errors_and_loses_nothing() {
    if native_only() {
        return;
    }
    let deadline = Duration::from_secs(4);
    let soon = deadline + Duration::from_secs(4);
    let volume = TestVolume::new(Backing::S3);
    let server = volume.s3().expect("S3");
    let options = impatient(deadline, Duration::from_secs(1));
    let mounted = volume.mount_with(&options);
    let cold = pattern(1, 3 * MIB);
    std::fs::write(mounted.join("cold"), &cold).unwrap();
    let mounted = mounted.remount();

    let open = |name: &str| {
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(mounted.join(name))
    };
    // Two open files of one file that have written before the store went away, and will not be used until it is back.
    let (quiet, quiet_too) = (open("quiet").unwrap(), open("quiet").unwrap());
    let kept = pattern(2, 2 * MIB);
    quiet.write_all_at(&kept[..MIB], 0).unwrap();
    quiet_too.write_all_at(&kept[MIB..], MIB as u64).unwrap();
    let file = open("file").unwrap();
    let data = pattern(3, 6 * MIB);
    server.kill();

    file.write_all_at(&data, 0).expect("there is memory");
    assert_fails("fsync", Errno::IO, soon, || file.sync_all());
    assert_fails("fsync again", Errno::IO, soon, || file.sync_all());
    let second = open("file").unwrap();
    second.write_all_at(&data[..10], 0).expect("there is memory");
    let closed = close(second).expect_err("close says that nothing is stored");
    assert_eq!(closed.raw_os_error(), Some(Errno::IO.raw_os_error()));
    assert_same("what is not stored", &direct::read(&mounted.join("file")).unwrap(), &data);
    assert_fails("a cold read", Errno::IO, soon, || direct::read(&mounted.join("cold")).map(drop));

    // Names go on, and so does what fits into metadata.
    let began = Instant::now();
    std::fs::create_dir(mounted.join("directory")).unwrap();
    std::fs::write(mounted.join("directory/small"), b"small").unwrap();
    std::fs::rename(mounted.join("directory/small"), mounted.join("small")).unwrap();
    assert_eq!(std::fs::read(mounted.join("small")).unwrap(), b"small");
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());

    // A writer fills what memory there is, waits, and is told.
    let big = pattern(4, MIB);
    let mut filled = 0;
    let filler = open("filler").unwrap();
    assert_fails("a write that finds no memory", Errno::IO, Duration::from_secs(60), || {
        loop {
            filler.write_all_at(&big, filled)?;
            filled += MIB as u64;
            assert!(filled < 1 << 30, "a gibibyte went into 256 MiB of memory");
        }
    });
    println!("     {} MiB were accepted", filled / MIB as u64);
    let lines = volume.log().lines().filter(|line| line.contains("ERROR")).count();
    assert!(lines < 40, "{lines} errors in the log:\n{}", volume.log());

    server.restart();
    assert_flushed_by_itself(&mounted, Duration::from_secs(60));
    assert!(volume.log().contains("it goes on"), "{}", volume.log());
    for (name, file) in [("one", &quiet), ("the other", &quiet_too)] {
        // Each is told once of what happened, whoever was told before.
        assert_fails(name, Errno::IO, Duration::from_secs(2), || file.sync_all());
        file.sync_all().expect("told once");
    }
    // Of the last attempt that failed behind it.
    let _ = file.sync_all();
    file.sync_all().expect("everything is stored");
    drop((file, quiet, quiet_too, filler));

    let check = |mounted: &Mounted<'_>| {
        for (name, expected) in [("cold", &cold), ("file", &data), ("quiet", &kept)] {
            assert_same(name, &direct::read(&mounted.join(name)).unwrap(), expected);
        }
        assert_eq!(std::fs::read(mounted.join("small")).unwrap(), b"small");
        let mut filler = File::open(mounted.join("filler")).unwrap();
        let mut piece = vec![0; MIB];
        for _ in 0..filled / MIB as u64 {
            filler.read_exact(&mut piece).unwrap();
            assert_same("filler", &piece, &big);
        }
    };
    check(&mounted);
    let mounted = mounted.remount();
    check(&mounted);
    mounted.unmount();
    volume.assert_clean();
}

/// A process that waits for the store.
fn waiting_process(mounted: &Mounted<'_>, script: &str) -> Child {
    let script = format!("cd {} && echo ready > ready || exit 1; {script}", mounted.path().display());
    let ready = mounted.join("ready");
    let _ = std::fs::remove_file(&ready);
    // Whoever runs the tests in the background has them, and so their children, ignore SIGINT.
    let child = Command::new("env")
        .args(["--default-signal=INT", "bash", "-c", &script])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("bash");
    assert!(wait_until(Duration::from_secs(30), || ready.exists().then_some(())).is_some());
    child
}

/// Until `child` has become `program`, and nothing that it does gets on.
fn assert_stuck(child: &Child, program: &str) {
    let stuck = wait_until(Duration::from_secs(60), || {
        let now = std::fs::read_to_string(format!("/proc/{}/comm", child.id())).ok()?;
        if now.trim() != program {
            return None;
        }
        let before = cpu(child.id())?;
        std::thread::sleep(Duration::from_millis(300));
        (cpu(child.id())? == before).then_some(())
    });
    assert!(stuck.is_some(), "the process does not wait");
}

/// Processor time of a process so far, as /proc says it.
fn cpu(pid: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<_> = stat.rsplit(')').next()?.split_whitespace().collect();
    Some(format!("{} {}", fields.get(11)?, fields.get(12)?))
}

#[test]
fn a_process_that_waits_can_be_killed_and_interrupted() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::S3);
    let server = volume.s3().expect("S3");
    let mounted = volume.mount_with(&impatient(Duration::from_secs(120), Duration::from_secs(2)));
    std::fs::write(mounted.join("cold"), pattern(1, 3 * MIB)).unwrap();
    let mounted = mounted.remount();
    server.kill();
    for (what, program, script) in [
        (
            "fsync",
            "sync",
            "head -c 4000000 /dev/zero > synced-$$ & \
             until [ \"$(stat -c %s synced-$$)\" = 4000000 ]; do sleep .1; done; exec sync synced-$$",
        ),
        (
            "taking the place of another file",
            "mv",
            "echo old > kept-$$; head -c 4000000 /dev/zero > new-$$; exec mv new-$$ kept-$$",
        ),
        ("a cold read", "cat", "exec cat cold"),
        (
            "truncation",
            "truncate",
            "head -c 2000000 /dev/zero > cut-$$; sync cut-$$ & \
             sleep .5; exec truncate -s 1M cut-$$",
        ),
        ("a write that finds no memory", "cat", "exec cat /dev/zero > endless-$$"),
    ] {
        for signal in [Signal::KILL, Signal::INT] {
            let mut child = waiting_process(&mounted, script);
            assert_stuck(&child, program);
            let pid = Pid::from_raw(child.id().cast_signed()).expect("a process id");
            let early = child.try_wait().expect("waiting for a child");
            assert!(early.is_none(), "{what} did not wait: {early:?}\n{}", volume.log());
            let began = Instant::now();
            rustix::process::kill_process(pid, signal).expect("signalling");
            let ended = wait_for(&mut child, Duration::from_secs(10));
            let took = began.elapsed();
            if ended.is_none() {
                kill_group(&mut child);
            }
            assert!(
                ended.is_some() && took < Duration::from_secs(2),
                "{what}, {signal:?}: ended after {took:?}"
            );
            println!("     {what}: {signal:?} ends it after {took:.1?}");
        }
    }
    server.restart();
    assert_flushed_by_itself(&mounted, Duration::from_secs(60));
    mounted.unmount();
    volume.assert_clean();
}
