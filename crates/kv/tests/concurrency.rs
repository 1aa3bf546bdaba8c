//! Many threads at once: no update is lost, no reader sees half a transaction, whatever the committer does meanwhile.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use futures::executor::block_on;
use headrace_kv::embedded::{EmbeddedEngine, EmbeddedOptions};
use headrace_kv::{Engine, EngineExt, KvError, Read};

fn number(read: &dyn Read, key: &[u8]) -> Result<u64, KvError> {
    Ok(match read.get(key)? {
        Some(bytes) => u64::from_be_bytes(bytes.as_ref().try_into().expect("8 bytes")),
        None => 0,
    })
}

#[test]
fn increments_add_up_and_readers_see_whole_transfers() {
    const TOTAL: u64 = 1_000_000;
    const WRITERS: u64 = 6;
    const ROUNDS: u64 = 1500;
    let dir = tempfile::tempdir().expect("tempdir");
    let options = EmbeddedOptions {
        // Commits all the time.
        freeze_bytes: 2 << 10,
        freeze_age: Duration::from_millis(1),
        max_pending_bytes: 64 << 10,
        map_size: 1 << 20,
        ..EmbeddedOptions::default()
    };
    let engine = EmbeddedEngine::open(dir.path(), options.clone()).expect("open");
    engine
        .transact_with(|txn| {
            txn.put(b"left", &TOTAL.to_be_bytes());
            Ok::<_, KvError>(())
        })
        .expect("set up");

    let done = AtomicBool::new(false);
    let views = AtomicU64::new(0);
    thread::scope(|scope| {
        let mut writers = Vec::new();
        for writer in 0..WRITERS {
            let engine = &engine;
            writers.push(scope.spawn(move || {
                for round in 0..ROUNDS {
                    let amount = 1 + (writer * 31 + round) % 7;
                    let (_, seq) = engine
                        .transact_with(|txn| {
                            let (left, right) = (number(txn, b"left")?, number(txn, b"right")?);
                            txn.put(b"left", &(left - amount).to_be_bytes());
                            txn.put(b"right", &(right + amount).to_be_bytes());
                            let count = number(txn, b"count")?;
                            txn.put(b"count", &(count + 1).to_be_bytes());
                            // Something new each time, so that memtables grow and pages split.
                            txn.put(&[&b"log/"[..], &count.to_be_bytes()].concat(), &[writer as u8; 40]);
                            Ok::<_, KvError>(())
                        })
                        .expect("transact");
                    if round % 50 == writer {
                        block_on(engine.durable(seq)).expect("durable");
                    }
                }
            }));
        }
        for _ in 0..3 {
            let (engine, done, views) = (&engine, &done, &views);
            scope.spawn(move || {
                let mut last = 0;
                while !done.load(Ordering::Relaxed) {
                    engine
                        .view_with(|read| {
                            let (left, right) = (number(read, b"left")?, number(read, b"right")?);
                            assert_eq!(left + right, TOTAL);
                            let count = number(read, b"count")?;
                            assert!(count >= last, "went back from {last} to {count}");
                            last = count;
                            // The newest entry of the log belongs to the same moment as the counter.
                            let mut newest = None;
                            read.scan_reverse(b"log/", b"log0", &mut |key, _| {
                                newest = key[4..].try_into().ok().map(u64::from_be_bytes);
                                std::ops::ControlFlow::Break(())
                            })?;
                            assert_eq!(newest.map_or(0, |n| n + 1), count);
                            Ok::<_, KvError>(())
                        })
                        .expect("view");
                    views.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let results: Vec<_> = writers.into_iter().map(|w| w.join()).collect();
        done.store(true, Ordering::Relaxed);
        assert!(results.iter().all(Result::is_ok), "a writer failed");
    });

    assert!(views.load(Ordering::Relaxed) > 0);
    engine.close().expect("close");
    let engine = EmbeddedEngine::open(dir.path(), options).expect("reopen");
    let count = engine.view_with(|read| number(read, b"count")).expect("view");
    assert_eq!(count, WRITERS * ROUNDS);
    assert_eq!(engine.position().0, WRITERS * ROUNDS + 1);
}

#[test]
fn waiters_share_commits() {
    let dir = tempfile::tempdir().expect("tempdir");
    let engine = EmbeddedEngine::open(dir.path(), EmbeddedOptions::default()).expect("open");
    const THREADS: u64 = 16;
    const ROUNDS: u64 = 20;
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let engine = &engine;
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let key = [thread.to_be_bytes(), round.to_be_bytes()].concat();
                    let (_, seq) = engine
                        .transact_with(|txn| {
                            txn.put(&key, b"x");
                            Ok::<_, KvError>(())
                        })
                        .expect("transact");
                    block_on(engine.durable(seq)).expect("durable");
                }
            });
        }
    });
    let stats = engine.stats();
    assert_eq!(stats.transactions, THREADS * ROUNDS);
    assert!(stats.syncs <= THREADS * ROUNDS / 2, "{stats:?}");
    assert_eq!(stats.pending_bytes, 0);
    assert!(stats.disk_bytes > 0);
}
