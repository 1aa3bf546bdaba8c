//! Figures of the embedded engine on this machine's disk:
//! `cargo run --release -p headrace-kv --example engine_bench [DIRECTORY]` (default: the current directory).

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use futures::executor::block_on;
use headrace_kv::embedded::{EmbeddedEngine, EmbeddedOptions};
use headrace_kv::{CommitSeq, Engine, EngineExt, KvError};

const ENTRIES: u64 = 1_000_000;
const SAMPLES: usize = 200_000;
const RUN: Duration = Duration::from_secs(3);

fn main() -> Result<(), KvError> {
    let parent = std::env::args_os().nth(1).map_or_else(|| PathBuf::from("."), PathBuf::from);
    let dir = parent.join(format!("kv-bench-{}", std::process::id()));
    let result = run(&dir);
    if let Err(e) = std::fs::remove_dir_all(&dir) {
        eprintln!("cannot remove {}: {e}", dir.display());
    }
    result
}

fn run(dir: &std::path::Path) -> Result<(), KvError> {
    let engine = EmbeddedEngine::open(dir, EmbeddedOptions::default())?;
    let started = Instant::now();
    for chunk in 0..ENTRIES / 1000 {
        engine.transact_with(|txn| {
            for i in 0..1000 {
                txn.put(&entry_key(chunk * 1000 + i), &[7; 100]);
            }
            Ok::<_, KvError>(())
        })?;
    }
    block_on(engine.durable(engine.position()))?;
    println!(
        "load of {ENTRIES} entries, sorted     {:>10.0} /s",
        ENTRIES as f64 / started.elapsed().as_secs_f64()
    );

    let mut random = 1;
    point_gets(&engine, "get, on disk", &mut random)?;
    scans(&engine, &mut random)?;

    let next = AtomicU64::new(0);
    let mut times = Vec::with_capacity(SAMPLES);
    let started = Instant::now();
    for _ in 0..SAMPLES {
        let at = Instant::now();
        create(&engine, &next)?;
        times.push(at.elapsed());
    }
    let per_second = SAMPLES as f64 / started.elapsed().as_secs_f64();
    times.sort_unstable();
    println!(
        "create, not waiting, 1 caller        {per_second:>10.0} /s   p50 {:?} p99 {:?}",
        times[SAMPLES / 2],
        times[SAMPLES * 99 / 100]
    );
    point_gets(&engine, "get, while commits run", &mut random)?;
    block_on(engine.durable(engine.position()))?;

    for callers in [1, 8, 64] {
        let before = engine.stats();
        let started = Instant::now();
        thread::scope(|scope| {
            for _ in 0..callers {
                scope.spawn(|| -> Result<(), KvError> {
                    while started.elapsed() < RUN {
                        let seq = create(&engine, &next)?;
                        block_on(engine.durable(seq))?;
                    }
                    Ok(())
                });
            }
        });
        let after = engine.stats();
        let creates = (after.transactions - before.transactions) as f64;
        println!(
            "create, durable, {callers:>2} callers         {:>10.0} /s   {:.3} syncs each",
            creates / started.elapsed().as_secs_f64(),
            (after.syncs - before.syncs) as f64 / creates
        );
    }
    engine.close()
}

/// What making a file costs: two reads, five writes.
fn create(engine: &EmbeddedEngine, next: &AtomicU64) -> Result<CommitSeq, KvError> {
    let n = next.fetch_add(1, Ordering::Relaxed);
    // Inode and directory keys are near each other for files made one after the other.
    let (parent, ino) = (n / 1000, 1 << 40 | n);
    let created = engine.transact_with(|txn| {
        let _parent = txn.get(&key(b'i', parent, &[]))?;
        let name = format!("file-{n}");
        if txn.get(&key(b'd', parent, name.as_bytes()))?.is_none() {
            txn.put(&key(b'd', parent, name.as_bytes()), &ino.to_be_bytes());
            txn.put(&key(b'i', ino, &[]), &[1; 80]);
            txn.put(&key(b'i', parent, &[]), &[2; 80]);
            txn.put(&key(b'p', ino, &parent.to_be_bytes()), b"");
            txn.put(b"totals", &n.to_be_bytes());
        }
        Ok::<_, KvError>(())
    });
    created.map(|((), seq)| seq)
}

fn key(tag: u8, id: u64, rest: &[u8]) -> Vec<u8> {
    [&[tag][..], &id.to_be_bytes(), rest].concat()
}

fn entry_key(i: u64) -> Vec<u8> {
    key(b'e', i, b"some-name")
}

fn point_gets(engine: &EmbeddedEngine, what: &str, random: &mut u64) -> Result<(), KvError> {
    let mut times = Vec::with_capacity(SAMPLES);
    for _ in 0..SAMPLES {
        let key = entry_key(next_random(random) % ENTRIES);
        let at = Instant::now();
        let found = engine.view_with(|read| Ok::<_, KvError>(read.get(&key)?.is_some()))?;
        times.push(at.elapsed());
        assert!(found, "an entry is missing");
    }
    times.sort_unstable();
    println!("{what:<36} p50 {:?}  p99 {:?}", times[SAMPLES / 2], times[SAMPLES * 99 / 100]);
    Ok(())
}

fn scans(engine: &EmbeddedEngine, random: &mut u64) -> Result<(), KvError> {
    let mut times = Vec::new();
    for _ in 0..200 {
        let start = next_random(random) % (ENTRIES - 10_000);
        let mut bytes = 0;
        let at = Instant::now();
        engine.view_with(|read| {
            read.scan(&entry_key(start), &entry_key(start + 10_000), &mut |_, value| {
                bytes += value.len();
                ControlFlow::Continue(())
            })
        })?;
        times.push(at.elapsed());
        assert_eq!(bytes, 10_000 * 100, "entries are missing");
    }
    times.sort_unstable();
    println!("scan of 10,000 entries               p50 {:?}", times[times.len() / 2]);
    Ok(())
}

/// Xorshift64.
fn next_random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}
