//! Mixed load over a store of which one request in twenty goes wrong, in every way that requests go wrong.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use headrace_testbed::volume::native_only;
use headrace_testbed::{Backing, Fault, FaultProxy, Rng, TestVolume, direct, env_number, pattern};

use super::{assert_same, impatient};

const WORKERS: u64 = 4;
/// Files of a worker.
const FILES: u64 = 24;
/// One request of a thousand so often.
const PER_MILLE: u64 = 50;

const MENU: &[Fault] = &[
    Fault::Busy(0),
    Fault::Busy(1),
    Fault::TooMany,
    Fault::Broken,
    Fault::Reset,
    Fault::ResetRequest(16 << 20),
    Fault::ResetAnswer(1 << 20),
    Fault::Truncate(1 << 20),
    Fault::Shorten(100_000),
    Fault::StallRequest(16 << 20),
    Fault::StallAnswer(1 << 20),
    Fault::Hang,
    Fault::BlackHole,
    Fault::LoseAnswer,
    Fault::CorruptRequest,
    Fault::CorruptAnswer,
    Fault::Delay(Duration::from_millis(300)),
];

/// Works on files of its own until `until`, holding each against a copy in memory; no call may fail. Gives the copies.
fn work(dir: &Path, seed: u64, until: Instant) -> HashMap<String, Vec<u8>> {
    let mut rng = Rng::new(seed);
    let mut files: HashMap<String, Vec<u8>> = HashMap::new();
    std::fs::create_dir_all(dir).unwrap();
    while Instant::now() < until {
        let name = format!("file-{}", rng.below(FILES));
        let path = dir.join(&name);
        let say = |what: &str, error: std::io::Error| -> ! {
            panic!("seed {seed}: {what} {}: {error}", path.display())
        };
        match (rng.below(10), files.get_mut(&name)) {
            (0, Some(_)) => {
                std::fs::remove_file(&path).unwrap_or_else(|e| say("unlink", e));
                files.remove(&name);
            }
            (1, Some(content)) => {
                let len = rng.below(content.len() as u64 + 1);
                let file = OpenOptions::new().write(true).open(&path).unwrap_or_else(|e| say("open", e));
                file.set_len(len).unwrap_or_else(|e| say("truncate", e));
                content.truncate(len as usize);
            }
            (2..=5, Some(content)) => {
                let found = direct::read(&path).unwrap_or_else(|e| say("read", e));
                assert_same(&format!("seed {seed}: {}", path.display()), &found, content);
            }
            (choice, _) => {
                let content = files.entry(name).or_default();
                let at = rng.below(content.len() as u64 + 1) as usize;
                let len = [500, 40_000, 700_000, 5 << 20][rng.below(4) as usize];
                let data = pattern(rng.next_u64(), len);
                let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
                let file = file.unwrap_or_else(|e| say("open", e));
                file.write_all_at(&data, at as u64).unwrap_or_else(|e| say("write", e));
                if content.len() < at + len {
                    content.resize(at + len, 0);
                }
                content[at..at + len].copy_from_slice(&data);
                if choice >= 8 {
                    file.sync_all().unwrap_or_else(|e| say("fsync", e));
                }
            }
        }
    }
    files
}

#[test]
fn right_bytes_whatever_one_request_in_twenty_does() {
    if native_only() {
        return;
    }
    let seconds = env_number("HEADRACE_FAULT_SECONDS", 20);
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("clock after 1970");
    let seed = env_number("HEADRACE_FAULT_SEED", clock.as_micros() as u64);
    println!("     {seconds} s, HEADRACE_FAULT_SEED={seed}");
    // Small segments: more requests.
    let volume = TestVolume::with_format(Backing::S3, &["--segment-size", "1MiB"]);
    let proxy = FaultProxy::start(volume.s3().expect("S3").address());
    let options = impatient(Duration::from_secs(60), Duration::from_millis(1500))
        .option(&format!("endpoint={}", proxy.endpoint()));
    let mounted = volume.mount_with(&options);
    let until = Instant::now() + Duration::from_secs(seconds);
    proxy.mix(seed, PER_MILLE, MENU);
    proxy.requests();
    let root = mounted.path();
    let contents: Vec<_> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS)
            .map(|number| {
                let dir = root.join(format!("worker-{number}"));
                scope.spawn(move || (dir.clone(), work(&dir, seed.wrapping_add(number), until)))
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().expect("no call fails, no byte is wrong")).collect()
    });
    let (requests, faults) = (proxy.requests(), proxy.faults());
    println!("     {requests} requests, {faults} of them spoiled");
    assert!(faults > seconds / 4 && requests > faults * 5, "{faults} of {requests} requests were spoiled");
    let verify = || {
        for (dir, files) in &contents {
            let names = std::fs::read_dir(dir).unwrap().count();
            assert_eq!(names, files.len(), "{}", dir.display());
            for (name, content) in files {
                let path = dir.join(name);
                let found = direct::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                assert_same(&path.display().to_string(), &found, content);
            }
        }
    };
    verify();
    proxy.clear();
    let mounted = mounted.remount();
    verify();
    mounted.unmount();
    volume.assert_clean();
}
