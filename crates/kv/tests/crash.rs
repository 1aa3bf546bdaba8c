//! Kill -9 at random moments. What was acknowledged as durable is there afterwards; transactions are whole; and what is
//! there is a prefix of the order they were committed in. The log has exactly that: applied to what was there before, it
//! gives what is there now.
//!
//! `HEADRACE_CRASH_ROUNDS` sets the number of rounds (default 20); all of them use the same database.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{BufRead as _, BufReader, Write as _};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use futures::executor::block_on;
use headrace_kv::embedded::{EmbeddedEngine, EmbeddedOptions};
use headrace_kv::log::Changes;
use headrace_kv::{CommitSeq, Engine, EngineExt, KvError, Read};

const CHILD_DIR: &str = "HEADRACE_CRASH_DIR";
/// Keys that are overwritten in turn.
const RING: u64 = 16;
/// Entries this old are deleted again.
const KEEP: u64 = 500;

fn open(dir: &Path) -> EmbeddedEngine {
    let options = EmbeddedOptions {
        freeze_bytes: 8 << 10,
        freeze_age: Duration::from_millis(2),
        map_size: 1 << 20,
        log: true,
        ..EmbeddedOptions::default()
    };
    EmbeddedEngine::open(dir, options).expect("open")
}

fn key(table: &str, n: u64) -> Vec<u8> {
    [table.as_bytes(), b"/", &n.to_be_bytes()].concat()
}

fn body(n: u64) -> Vec<u8> {
    // Some are longer than a page.
    n.to_be_bytes().repeat(if n.is_multiple_of(20) { 1000 } else { 10 })
}

fn number(read: &dyn Read, key: &[u8]) -> Result<Option<u64>, KvError> {
    Ok(read.get(key)?.map(|v| u64::from_be_bytes(v.as_ref().try_into().expect("8 bytes"))))
}

/// The process that is killed: writes for ever, reports what is durable.
#[test]
#[ignore = "started by the test below"]
fn child() {
    let Some(dir) = std::env::var_os(CHILD_DIR).map(PathBuf::from) else { return };
    let engine = open(&dir);
    let report = Mutex::new(std::io::stdout());
    thread::scope(|scope| {
        for writer in 0..3u64 {
            let (engine, report) = (&engine, &report);
            scope.spawn(move || {
                for round in 0.. {
                    let (n, seq) = engine
                        .transact_with(|txn| {
                            let n = number(txn, b"count")?.unwrap_or(0) + 1;
                            txn.put(b"count", &n.to_be_bytes());
                            txn.put(&key("one", n), &body(n));
                            txn.put(&key("two", n), &n.to_be_bytes());
                            txn.put(&key("ring", n % RING), &n.to_be_bytes());
                            if let Some(old) = n.checked_sub(KEEP) {
                                txn.delete(&key("one", old));
                                txn.delete(&key("two", old));
                            }
                            Ok::<_, KvError>(n)
                        })
                        .expect("transact");
                    if round % 7 == writer {
                        block_on(engine.durable(seq)).expect("durable");
                        let mut out = report.lock().expect("lock");
                        writeln!(out, "\nACK {n}").and_then(|()| out.flush()).expect("report");
                    }
                }
            });
        }
    });
}

/// Kills the child even if an assertion fails first.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a child until a random moment; the newest acknowledged transaction.
fn run_and_kill(dir: &Path, delay: Duration) -> u64 {
    let exe = std::env::current_exe().expect("own path");
    let mut command = Command::new(exe);
    command.args(["--exact", "child", "--ignored", "--nocapture"]).env(CHILD_DIR, dir);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("spawn");
    let mut child = Killed(child);
    let mut lines = BufReader::new(child.0.stdout.take().expect("piped")).lines();
    let mut acknowledged = 0;
    let mut note = |line: std::io::Result<String>| {
        let n = line.ok().and_then(|l| l.strip_prefix("ACK ").and_then(|n| n.parse().ok()));
        acknowledged = acknowledged.max(n.unwrap_or(0));
        n.is_some()
    };
    // It runs; then let it run a little longer.
    for line in lines.by_ref() {
        if note(line) {
            break;
        }
    }
    let killer = thread::spawn(move || {
        thread::sleep(delay);
        drop(child);
    });
    for line in lines {
        note(line);
    }
    killer.join().expect("kill");
    acknowledged
}

fn verify(engine: &EmbeddedEngine, acknowledged: u64) -> u64 {
    engine
        .view_with(|read| {
            let count = number(read, b"count")?.unwrap_or(0);
            assert!(count >= acknowledged, "{acknowledged} was acknowledged, {count} is there");
            assert_eq!(engine.position().0, count, "the position is that of the newest transaction");
            let oldest = count.saturating_sub(KEEP) + 1;
            for table in ["one", "two"] {
                let mut next = oldest;
                read.scan(&key(table, 0), &key(table, u64::MAX), &mut |k, v| {
                    assert_eq!(k, key(table, next), "{table}: hole, or more than {count} transactions");
                    assert!(if table == "one" { v == body(next) } else { v == next.to_be_bytes() });
                    next += 1;
                    ControlFlow::Continue(())
                })?;
                assert_eq!(next, count + 1, "{table} ends early");
            }
            for slot in 0..RING {
                let newest = (1..=count).rev().take(RING as usize).find(|n| n % RING == slot);
                assert_eq!(number(read, &key("ring", slot))?, newest, "overwritten out of order");
            }
            Ok::<_, KvError>(count)
        })
        .expect("view")
}

/// What the log alone tells, over all rounds.
#[derive(Default)]
struct Replica {
    position: CommitSeq,
    contents: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Replica {
    fn follow(&mut self, engine: &EmbeddedEngine) {
        assert!(engine.log_base() <= self.position, "what was not given up is gone");
        let mut taken = 0;
        loop {
            let groups = engine.log_after(self.position, 50_000).expect("log");
            if groups.is_empty() {
                break;
            }
            for group in groups {
                assert_eq!(group.after, self.position, "a gap in the log");
                for change in Changes::new(&group.changes).expect("changes") {
                    match change.expect("change") {
                        (key, Some(value)) => drop(self.contents.insert(key.to_vec(), value.to_vec())),
                        (key, None) => drop(self.contents.remove(key)),
                    }
                }
                self.position = group.upto;
                taken += 1;
            }
        }
        assert!(taken > 0, "the child committed something");
        assert_eq!(self.position, engine.durable_position());
        let snapshot = engine.snapshot().expect("snapshot");
        let mut ours = self.contents.iter();
        let compare = snapshot.scan(None, &mut |key, value| {
            assert!(ours.next().is_some_and(|(k, v)| k == key && v == value), "the log tells something else");
            ControlFlow::Continue(())
        });
        compare.expect("scan");
        assert_eq!(ours.next(), None, "the log tells more");
        engine.trim_log(self.position);
        assert_eq!(engine.log_backlog().groups, 0);
    }
}

#[test]
fn acknowledged_transactions_survive_kill_9_as_a_prefix() {
    let rounds = std::env::var("HEADRACE_CRASH_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(20);
    let dir = tempfile::tempdir().expect("tempdir");
    let mut before = 0;
    let mut replica = Replica::default();
    for round in 0..rounds {
        let delay = Duration::from_micros(RandomState::new().hash_one(round) % 60_000);
        let acknowledged = run_and_kill(dir.path(), delay);
        assert!(acknowledged > before, "round {round}: the child did nothing");
        let engine = open(dir.path());
        before = verify(&engine, acknowledged);
        replica.follow(&engine);
    }
}
