//! Locks, appends and shared mappings between processes.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use headrace_testbed::lock::{self, Lock, Owner};
use headrace_testbed::mapping::SharedMapping;
use headrace_testbed::process::wait_for;
use headrace_testbed::{Backing, Mounted, TestVolume, pattern};
use rustix::fs::FlockOperation;

/// This test program, started again to play the other process of a test: see [`helper_process`].
struct Helper {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Helper {
    fn start(role: &str, file: &Path) -> Helper {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "helper_process", "--ignored", "--nocapture"])
            .env("HEADRACE_HELPER_ROLE", role)
            .env("HEADRACE_HELPER_FILE", file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Helper { child, lines }
    }

    /// Waits for the helper's next word.
    fn hears(&mut self) -> String {
        let mut line = String::new();
        while self.lines.read_line(&mut line).unwrap() > 0 {
            if let Some(word) = line.trim().split("HELPER ").nth(1) {
                return word.to_string();
            }
            line.clear();
        }
        panic!("the helper ended without a word");
    }

    /// Lets the helper go on to its end.
    fn finish(mut self) {
        drop(self.child.stdin.take());
        let status = wait_for(&mut self.child, Duration::from_secs(60)).expect("the helper hangs");
        assert!(status.success(), "the helper failed: {status}");
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn say(word: &str) {
    println!("HELPER {word}");
}

fn wait_for_parent() {
    let _ = std::io::stdin().read(&mut [0]);
}

/// Not a test: what the other process does, started by the tests below.
#[test]
#[ignore = "started by the other tests as a second process"]
fn helper_process() {
    let Ok(role) = std::env::var("HEADRACE_HELPER_ROLE") else { return };
    let path = std::env::var_os("HEADRACE_HELPER_FILE").unwrap();
    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    match role.as_str() {
        "flock" => {
            rustix::fs::flock(&file, FlockOperation::LockExclusive).unwrap();
            say("locked");
            wait_for_parent();
        }
        "posix" | "ofd" => {
            let owner = if role == "ofd" { Owner::OpenFile } else { Owner::Process };
            lock::set(&file, owner, Lock::Write, 100, 50, true).unwrap();
            say("locked");
            wait_for_parent();
        }
        "append" => {
            let mut file = OpenOptions::new().append(true).open(&path).unwrap();
            for n in 0..400 {
                let line = format!("{:>8} {n:>8} {}\n", std::process::id(), "x".repeat(n % 300));
                file.write_all(line.as_bytes()).unwrap();
            }
        }
        "map" => {
            let map = SharedMapping::new(&file, 1 << 20).unwrap();
            assert_eq!(map.read(5_000, 5), b"hello");
            map.write(500_000, b"answer");
            say("written");
            wait_for_parent();
        }
        other => panic!("unknown role {other}"),
    }
}

fn with_file(body: impl FnOnce(&Mounted<'_>, &Path)) {
    let volume = TestVolume::new(Backing::Local);
    let mounted = volume.mount();
    let path = mounted.join("file");
    std::fs::write(&path, vec![0; 1 << 20]).unwrap();
    body(&mounted, &path);
    mounted.unmount();
}

fn busy(result: std::io::Result<()>) -> bool {
    match result {
        Ok(()) => false,
        Err(error) if matches!(error.raw_os_error(), Some(11 | 13)) => true,
        Err(error) => panic!("neither locked nor busy: {error}"),
    }
}

#[test]
fn flock_excludes_other_processes_and_ends_with_its_holder() {
    with_file(|_, path| {
        let file = File::open(path).unwrap();
        let attempt = |operation| busy(rustix::fs::flock(&file, operation).map_err(Into::into));

        let mut helper = Helper::start("flock", path);
        assert_eq!(helper.hears(), "locked");
        assert!(attempt(FlockOperation::NonBlockingLockExclusive));
        assert!(attempt(FlockOperation::NonBlockingLockShared));
        // Someone who waits gets it when the holder goes.
        let waiter = std::thread::spawn({
            let file = File::open(path).unwrap();
            move || rustix::fs::flock(&file, FlockOperation::LockExclusive)
        });
        helper.finish();
        waiter.join().unwrap().unwrap();

        let mut helper = Helper::start("flock", path);
        assert_eq!(helper.hears(), "locked");
        helper.kill();
        assert!(!attempt(FlockOperation::LockExclusive), "a dead process still holds the lock");

        // Two shared locks go together, an exclusive one does not join them.
        rustix::fs::flock(&file, FlockOperation::LockShared).unwrap();
        let other = File::open(path).unwrap();
        rustix::fs::flock(&other, FlockOperation::NonBlockingLockShared).unwrap();
        assert!(attempt(FlockOperation::NonBlockingLockExclusive));
    });
}

fn byte_ranges(role: &str, owner: Owner) {
    with_file(|_, path| {
        let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
        let attempt = |lock, start, len| busy(lock::set(&file, owner, lock, start, len, false));

        let mut helper = Helper::start(role, path);
        assert_eq!(helper.hears(), "locked");
        assert!(attempt(Lock::Write, 149, 1));
        assert!(attempt(Lock::Read, 0, 0));
        assert!(!attempt(Lock::Write, 150, 10), "the range after it is free");
        assert!(!attempt(Lock::Write, 0, 100), "the range before it is free");
        let waiter = std::thread::spawn({
            let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
            move || lock::set(&file, owner, Lock::Write, 120, 1, true)
        });
        helper.finish();
        waiter.join().unwrap().unwrap();

        let mut helper = Helper::start(role, path);
        // This process still holds ranges around it, not the same ones.
        assert_eq!(helper.hears(), "locked");
        helper.kill();
        assert!(!attempt(Lock::Write, 0, 0), "a dead process still holds the lock");
    });
}

#[test]
fn posix_locks_cover_byte_ranges() {
    byte_ranges("posix", Owner::Process);
}

#[test]
fn open_file_locks_cover_byte_ranges() {
    byte_ranges("ofd", Owner::OpenFile);
}

#[test]
fn appends_of_several_processes_neither_mix_nor_get_lost() {
    with_file(|mounted, path| {
        std::fs::write(path, b"").unwrap();
        let helpers: Vec<_> = (0..4).map(|_| Helper::start("append", path)).collect();
        for helper in helpers {
            helper.finish();
        }
        let check = |text: String| {
            let mut next = std::collections::HashMap::new();
            for line in text.lines() {
                let mut fields = line.split_whitespace();
                let pid: u32 = fields.next().unwrap().parse().expect("a torn line");
                let n: usize = fields.next().unwrap().parse().expect("a torn line");
                assert_eq!(fields.next().unwrap_or("").len(), n % 300, "a torn line: {line}");
                let expected = next.entry(pid).or_insert(0);
                assert_eq!(n, *expected, "an append of process {pid} is lost or out of order");
                *expected += 1;
            }
            assert_eq!(next.values().copied().collect::<Vec<_>>(), [400; 4]);
        };
        check(std::fs::read_to_string(path).unwrap());
        assert!(mounted.path().is_dir());
    });
}

#[test]
fn shared_mappings_are_seen_by_others_by_read_and_after_a_remount() {
    let volume = TestVolume::new(Backing::Local);
    let mounted = volume.mount();
    let path = mounted.join("file");
    let mut expected = pattern(7, 1 << 20);
    std::fs::write(&path, &expected).unwrap();

    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let map = SharedMapping::new(&file, 1 << 20).unwrap();
    map.write(5_000, b"hello");
    let mut helper = Helper::start("map", &path);
    assert_eq!(helper.hears(), "written");
    assert_eq!(map.read(500_000, 6), b"answer", "the other process's store through its mapping");
    let mut word = [0; 6];
    file.read_exact_at(&mut word, 500_000).unwrap();
    assert_eq!(&word, b"answer", "the same by read");
    helper.finish();
    file.write_all_at(b"written", 900_000).unwrap();
    assert_eq!(map.read(900_000, 7), b"written", "a write, through the mapping");
    // No msync: unmapping and closing is enough for what is read later on this machine.
    drop((map, file));

    expected[5_000..5_005].copy_from_slice(b"hello");
    expected[500_000..500_006].copy_from_slice(b"answer");
    expected[900_000..900_007].copy_from_slice(b"written");
    let mounted = mounted.remount();
    assert!(std::fs::read(&path).unwrap() == expected, "after a remount");
    mounted.unmount();
}
