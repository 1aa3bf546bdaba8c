//! One memory ceiling: whatever is done to a mount, the daemon stays within `--memory` and what every program needs beside.
//!
//! `HEADRACE_MEMORY_FILES`, `HEADRACE_MEMORY_STREAMS` and `HEADRACE_MEMORY_MIB` set how many files are walked, how many files
//! are open and read or written at one time, and how much is written and read; `make memory` does it at full size.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use headrace_testbed::process::wait_until;
use headrace_testbed::volume::native_only;
use headrace_testbed::{Backing, Fault, FaultProxy, MountOptions, Mounted, Rng, TestVolume, env_number};
use serde_json::Value;

const MIB: u64 = 1 << 20;
/// What the process may take beyond the ceiling.
const OVERHEAD: u64 = 64 * MIB;
/// How much later the store answers, so that what is on its way fills its pool.
const SLOW: Duration = Duration::from_secs(2);
const QUICK: Duration = Duration::from_millis(30);

/// Looks at the daemon's memory until it is dropped.
struct Watch {
    pid: i32,
    stop: Arc<AtomicBool>,
    anonymous: Arc<AtomicU64>,
    sampler: Option<JoinHandle<()>>,
}

impl Watch {
    fn start(mounted: &Mounted<'_>) -> Watch {
        let pid = mounted.daemon().as_raw_nonzero().get();
        let (stop, anonymous) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let sampler = std::thread::spawn({
            let (stop, anonymous) = (Arc::clone(&stop), Arc::clone(&anonymous));
            move || {
                while !stop.load(Ordering::Relaxed) {
                    anonymous.fetch_max(memory(pid, "RssAnon").unwrap_or(0), Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(10));
                }
            }
        });
        Watch { pid, stop, anonymous, sampler: Some(sampler) }
    }

    /// Fails if the daemon has ever taken more than `ceiling` allows; `doing` is for the report.
    fn check(&self, doing: &str, ceiling: u64) {
        let of = |what| memory(self.pid, what).expect("the daemon's memory") / MIB;
        let (peak, now, anonymous) = (of("VmHWM"), of("VmRSS"), of("RssAnon"));
        let most_anonymous = self.anonymous.load(Ordering::Relaxed) / MIB;
        println!(
            "{:>4} MiB, {doing}: peak {peak} MiB resident, {most_anonymous} MiB anonymous; now {now} and {anonymous} MiB",
            ceiling / MIB
        );
        let most = (ceiling + OVERHEAD) / MIB;
        assert!(peak <= most, "{doing}: {peak} MiB were resident; {most} MiB are allowed");
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(sampler) = self.sampler.take() {
            let _ = sampler.join();
        }
    }
}

/// A line of `/proc/PID/status`, bytes.
fn memory(pid: i32, what: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(what)?.strip_prefix(':'))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

fn status(volume: &TestVolume) -> Value {
    let text = volume.command(&["status", "--json"]).arg(volume.mount_point()).ok();
    only(serde_json::from_str(&text).expect("JSON"))
}

/// One mount's status, or that of a list of one.
fn only(status: Value) -> Value {
    match status {
        Value::Array(mut all) => all.remove(0),
        one => one,
    }
}

fn figure(status: &Value, path: &str) -> u64 {
    let found = path.split('.').fold(&status["figures"], |value, name| &value[name]);
    found.as_u64().unwrap_or_else(|| panic!("status has no figure {path}: {status:#}"))
}

/// The largest of each figure seen while `work` runs; `seen` is told after each look.
///
/// One process looks again and again. It is started before `work`: one that is started from here later inherits the files that
/// are open meanwhile and closes them at its exec, which waits for what was written to them.
fn most_while(
    volume: &TestVolume,
    figures: &[&str],
    seen: impl Fn(&[u64]) + Sync,
    work: impl FnOnce(),
) -> Vec<u64> {
    let script = "while :; do \"$0\" status --json \"$1\" || exit; sleep 0.05; done";
    let looking = Command::new("sh")
        .args(["-c", script])
        .arg(headrace_testbed::headrace())
        .arg(volume.mount_point())
        .envs(volume.env())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starting a shell");
    let mut looking = Ended(looking);
    let answers = looking.0.stdout.take().expect("piped");
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut most = vec![0; figures.len()];
            for status in serde_json::Deserializer::from_reader(answers).into_iter::<Value>() {
                // The last one may be cut off.
                let Ok(status) = status else { break };
                let status = only(status);
                for (most, name) in most.iter_mut().zip(figures) {
                    *most = figure(&status, name).max(*most);
                }
                seen(&most);
            }
            most
        });
        // Ended also when `work` panics.
        let looking = looking;
        work();
        drop(looking);
        reader.join().expect("looking at figures")
    })
}

/// A process that is ended with this.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Everything that somebody holds is given back when nobody does anything.
fn assert_idle(volume: &TestVolume) {
    let gauges = [
        "dirty_bytes",
        "open_files",
        "active_inodes",
        "waiting_writers",
        "write_queue.in_flight",
        "write_queue.uncommitted",
        "memory.dirty.used",
        "memory.intake.used",
        "memory.uploads.used",
        "memory.reads.used",
        "memory.reads.waiting",
    ];
    let held = || {
        let status = status(volume);
        let held: Vec<_> = gauges.iter().map(|gauge| (*gauge, figure(&status, gauge))).collect();
        held.into_iter().filter(|(_, used)| *used > 0).collect::<Vec<_>>()
    };
    // The last descriptor's RELEASE comes after close has returned.
    let idle = wait_until(Duration::from_secs(20), || held().is_empty().then_some(()));
    assert!(idle.is_some(), "nothing is being done, and yet: {:?}", held());
}

/// The content of a file at `offset`, a multiple of 64 KiB, in full blocks of 64 KiB.
fn fill(file: u64, offset: u64, buffer: &mut [u8]) {
    const BLOCK: usize = 64 << 10;
    for (index, block) in buffer.chunks_mut(BLOCK).enumerate() {
        let number = offset / BLOCK as u64 + index as u64;
        Rng::new(file << 32 | number).fill(block);
    }
}

fn path(dir: &Path, file: u64) -> PathBuf {
    dir.join(format!("stream-{file:05}"))
}

/// Runs `work` for every number below `count`, at most `width` at one time.
fn side_by_side(count: u64, width: u64, work: impl Fn(u64) + Sync) {
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..width.min(count) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return;
                    }
                    work(number);
                }
            });
        }
    });
}

/// All streams are open, and written a piece of each in turn by as many threads.
fn write_streams(dir: &Path, streams: u64, bytes: u64) {
    std::fs::create_dir(dir).unwrap();
    let all_open = std::sync::Barrier::new(streams as usize);
    side_by_side(streams, streams, |number| {
        let file = File::create(path(dir, number)).unwrap();
        all_open.wait();
        // Sizes that need several blocks, parts of a request and whole requests.
        let piece = [64 << 10, 192 << 10, 1 << 20][(number % 3) as usize];
        let mut buffer = vec![0; piece];
        let mut at = 0;
        while at < bytes {
            let len = (bytes - at).min(piece as u64) as usize;
            fill(number, at, &mut buffer[..len]);
            file.write_all_at(&buffer[..len], at).unwrap();
            at += len as u64;
        }
    });
}

/// All streams are read at one time, each by a thread, and compared.
fn read_streams(dir: &Path, streams: u64, bytes: u64) {
    side_by_side(streams, streams, |number| {
        let file = File::open(path(dir, number)).unwrap();
        let (mut found, mut expected) = (vec![0; 256 << 10], vec![0; 256 << 10]);
        let mut at = 0;
        while at < bytes {
            let len = (bytes - at).min(found.len() as u64) as usize;
            file.read_exact_at(&mut found[..len], at).unwrap();
            fill(number, at, &mut expected[..len]);
            assert!(found[..len] == expected[..len], "stream {number}: wrong bytes in [{at}, +{len})");
            at += len as u64;
        }
        assert_eq!(file.read_at(&mut found, at).unwrap(), 0, "stream {number} is longer than it was written");
    });
}

const FILES_IN_DIR: u64 = 1000;

/// A tree of many small files, some levels deep.
fn make_tree(dir: &Path, files: u64) {
    side_by_side(files.div_ceil(FILES_IN_DIR), 4, |number| {
        let dir = dir.join(format!("{}/{}/{number}", number % 7, number % 5));
        std::fs::create_dir_all(&dir).unwrap();
        for file in 0..FILES_IN_DIR.min(files - number * FILES_IN_DIR) {
            std::fs::write(dir.join(format!("file-{file}")), file.to_string()).unwrap();
        }
    });
}

/// Looks at every file of the tree; reads one in a hundred.
fn walk_tree(dir: &Path, files: u64) {
    let (seen, found) = (Mutex::new(vec![dir.to_owned()]), AtomicU64::new(0));
    while let Some(dir) = { seen.lock().unwrap().pop() } {
        for entry in std::fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            let meta = entry.metadata().unwrap();
            if meta.is_dir() {
                seen.lock().unwrap().push(entry.path());
                continue;
            }
            if found.fetch_add(1, Ordering::Relaxed).is_multiple_of(100) {
                let text = std::fs::read_to_string(entry.path()).unwrap();
                assert_eq!(entry.file_name().to_str(), Some(format!("file-{text}").as_str()));
            }
        }
    }
    assert_eq!(found.into_inner(), files);
}

/// Opens files until there are no more to be had, which must be at the limit that `status` tells.
fn open_too_many(volume: &TestVolume, file: &Path) {
    let limit = figure(&status(volume), "memory.open_files_limit");
    if limit > 20_000 {
        return;
    }
    raise_descriptor_limit(limit + 1000);
    let mut open = Vec::new();
    let error = loop {
        assert!(open.len() as u64 <= limit, "more than {limit} files could be opened");
        match File::open(file) {
            Ok(file) => open.push(file),
            Err(error) => break error,
        }
    };
    assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::NFILE.raw_os_error()), "{error}");
    assert_eq!(open.len() as u64, limit);
    let refused = File::create(file.with_extension("new")).expect_err("one file too many");
    assert_eq!(refused.raw_os_error(), Some(rustix::io::Errno::NFILE.raw_os_error()));
    assert!(!file.with_extension("new").exists(), "created, though it could not be opened");
    open.truncate(limit as usize - 1);
    let again = wait_until(Duration::from_secs(10), || File::open(file).ok());
    assert!(again.is_some(), "a file was closed, and still none can be opened");
}

fn raise_descriptor_limit(wanted: u64) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let now = getrlimit(Resource::Nofile);
    let enough = |limit: Option<u64>| limit.is_none_or(|limit| limit >= wanted);
    if !enough(now.current) {
        let maximum = if enough(now.maximum) { now.maximum } else { Some(wanted) };
        setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum })
            .expect("raising RLIMIT_NOFILE");
    }
}

fn stays_within(ceiling: u64, format: &[&str]) {
    if native_only() {
        return;
    }
    let files = env_number("HEADRACE_MEMORY_FILES", 10_000);
    let streams = env_number("HEADRACE_MEMORY_STREAMS", 100);
    let bytes = env_number("HEADRACE_MEMORY_MIB", 128) * MIB / streams;
    raise_descriptor_limit(streams + 1000);

    let key = [("HEADRACE_KEY", "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef")];
    let encrypted = format.contains(&"--encrypt");
    let env = if encrypted { &key[..] } else { &[] };
    let mut volume = TestVolume::with_format_and_env(Backing::S3, format, env);
    let server = volume.server().expect("S3").endpoint();
    let upstream = server.strip_prefix("http://").expect("endpoint").parse().expect("address");
    let proxy = FaultProxy::start(upstream);
    proxy.always(Fault::Delay(SLOW));
    let options = MountOptions::default()
        .option(&format!("memory={ceiling}"))
        .option(&format!("endpoint={}", proxy.endpoint()));

    let mounted = volume.mount_with(&options);
    let watch = Watch::start(&mounted);
    watch.check("mounted", ceiling);
    // Slow until somebody has to wait, however fast this machine makes the bytes.
    let figures = ["write_queue.in_flight", "waiting_writers", "memory.uploads.used", "memory.dirty.used"];
    let quick_again = |most: &[u64]| {
        if most[1] > 0 {
            proxy.always(Fault::Delay(QUICK));
        }
    };
    let most = most_while(&volume, &figures, quick_again, || {
        write_streams(&mounted.join("streams"), streams, bytes);
    });
    println!("     written and not stored, writers waiting, uploads, memory of what is written: {most:?}");
    proxy.always(Fault::Delay(QUICK));
    watch.check("many streams written", ceiling);
    let now = status(&volume);
    let (window, limit) = (figure(&now, "write_queue.window"), figure(&now, "memory.dirty.limit"));
    assert!(
        most[0] > window / 2 && most[1] > 0,
        "the writers did not fill their window of {window}: {most:?}"
    );
    assert!(most[0] <= limit && most[3] <= limit, "more than the memory of {limit}: {most:?}");
    make_tree(&mounted.join("tree"), files);
    watch.check("a tree made", ceiling);
    open_too_many(&volume, &path(&mounted.join("streams"), 0));
    watch.check("more files opened than may be", ceiling);
    assert_idle(&volume);
    drop(watch);

    // What is read then comes from the store.
    let mounted = mounted.remount();
    let watch = Watch::start(&mounted);
    let most = most_while(
        &volume,
        &["memory.reads.used", "memory.reads.waiting"],
        |_| (),
        || {
            read_streams(&mounted.join("streams"), streams, bytes);
        },
    );
    println!("     bytes on their way to readers, readers waiting: {most:?}");
    watch.check("many streams read", ceiling);
    let limit = figure(&status(&volume), "memory.reads.limit");
    assert!(most[0] > limit / 2, "the readers did not use their pool of {limit}: {most:?}");
    walk_tree(&mounted.join("tree"), files);
    watch.check("the tree walked", ceiling);
    let referenced = figure(&status(&volume), "referenced_inodes");
    println!(
        "     {referenced} inodes known to the kernel: {} bytes",
        figure(&status(&volume), "memory.tables.used")
    );
    assert_idle(&volume);
    drop(watch);
    mounted.unmount();
    // Without the proxy: that is for the mount.
    volume.assert_clean();
}

#[test]
fn the_least_memory_is_enough_and_kept_to() {
    stays_within(64 * MIB, &[]);
}

#[test]
fn compressed_and_encrypted_data_takes_no_more() {
    stays_within(128 * MIB, &["--compression", "zstd", "--encrypt"]);
}
