//! The embedded engine on a disk that loses power.
//!
//! Transaction number n changes what a pure function of n says. So the whole content of the database follows from its
//! position alone, and any difference is a torn or lost or reordered transaction.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use headrace_kv::embedded::{EmbeddedEngine, EmbeddedOptions};
use headrace_kv::log::Changes;
use headrace_kv::{CommitSeq, Engine, EngineExt, KvError, Txn};
use headrace_testbed::power::Disk;
use headrace_testbed::process::kill_group;
use headrace_testbed::{Rng, pattern};

use crate::mounted_disk::MountedDisk;

const DIRECTORY: &str = "HEADRACE_POWERCUT_DIRECTORY";
const RECORD: &str = "HEADRACE_POWERCUT_RECORD";
const SEED: &str = "HEADRACE_POWERCUT_PROCESS_SEED";

/// Keys that transactions change.
const SLOTS: u64 = 400;
/// A round ends here if the engine has not done enough by then for the power to go.
const ROUND_LIMIT: Duration = Duration::from_secs(4);

type Content = BTreeMap<Vec<u8>, Vec<u8>>;

fn key(slot: u64) -> Vec<u8> {
    // Of different lengths, and not in the order of the numbers.
    let mixed = slot.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut key = mixed.to_be_bytes().to_vec();
    key.resize(8 + (mixed % 60) as usize, b'k');
    key
}

/// The slots that transaction `n` changes, each with its value from then on.
fn changes(n: u64) -> Vec<(u64, Option<Vec<u8>>)> {
    let mut rng = Rng::new(n);
    let count = 1 + rng.below(4);
    let mut slots: Vec<u64> = (0..count).map(|i| (n * 7 + i * 131) % SLOTS).collect();
    slots.dedup();
    let value = |rng: &mut Rng, slot: u64| match rng.below(12) {
        0..=1 => None,
        2 => Some(pattern(n ^ slot, rng.below(40_000) as usize)),
        _ => Some(pattern(n ^ slot, rng.below(700) as usize)),
    };
    slots.into_iter().map(|slot| (slot, value(&mut rng, slot))).collect()
}

/// What is in the database after transaction `position`.
fn expected(position: u64) -> Content {
    // Every slot is changed at least once in any so many transactions.
    let first = position.saturating_sub(2 * SLOTS) + 1;
    let mut content = Content::new();
    for n in first..=position {
        apply(&mut content, n);
    }
    content
}

fn apply(content: &mut Content, n: u64) {
    for (slot, value) in changes(n) {
        match value {
            Some(value) => content.insert(key(slot), value),
            None => content.remove(&key(slot)),
        };
    }
}

fn options() -> EmbeddedOptions {
    EmbeddedOptions { freeze_age: Duration::from_millis(20), log: true, ..EmbeddedOptions::default() }
}

/// The engine's process: runs transactions until the disk fails, and records what was acknowledged.
pub fn process() {
    let (Some(dir), Some(record)) = (std::env::var_os(DIRECTORY), std::env::var_os(RECORD)) else { return };
    let mut rng = Rng::new(headrace_testbed::env_number(SEED, 0));
    let mut record = File::create(record).expect("the record");
    // The power may go while it is opened.
    let Ok(engine) = EmbeddedEngine::open(Path::new(&dir), options()) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    loop {
        for _ in 0..=rng.below(30) {
            let n = engine.position().0 + 1;
            let done = engine.transact_with(|txn: &mut dyn Txn| {
                for (slot, value) in changes(n) {
                    match value {
                        Some(value) => txn.put(&key(slot), &value),
                        None => txn.delete(&key(slot)),
                    }
                }
                Ok::<_, KvError>(())
            });
            let Ok(((), position)) = done else { return };
            assert_eq!(position, CommitSeq(n), "positions are the numbers of transactions");
        }
        let position = engine.position();
        if runtime.block_on(engine.durable(position)).is_err() {
            return;
        }
        writeln!(record, "durable {}", position.0).expect("the record");
        if rng.below(8) == 0 {
            let upto = position.0 - rng.below(position.0.min(100));
            writeln!(record, "trimmed {upto}").expect("the record");
            engine.trim_log(CommitSeq(upto));
        }
    }
}

/// What the process recorded.
#[derive(Default)]
struct Record {
    durable: u64,
    trimmed: u64,
    acknowledged: u64,
}

impl Record {
    fn read(path: &Path) -> Record {
        let mut record = Record::default();
        // The last line may be incomplete: the process was killed.
        let text = std::fs::read_to_string(path).unwrap_or_default();
        for line in text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
            match line.split_once(' ') {
                Some(("durable", number)) => {
                    record.durable = number.parse().expect("a position");
                    record.acknowledged += 1;
                }
                Some(("trimmed", number)) => {
                    let upto: u64 = number.parse().expect("a position");
                    record.trimmed = record.trimmed.max(upto);
                }
                _ => {}
            }
        }
        record
    }
}

/// That many power cuts, each on what the last one left.
pub fn power_cuts(rounds: u64, seed: u64) {
    let mut rng = Rng::new(seed);
    let scratch = tempfile::Builder::new().prefix("headrace-test-").tempdir().expect("temporary directory");
    let mount_point = scratch.path().join("disk");
    std::fs::create_dir(&mount_point).expect("mount point");
    let mut left: Option<PathBuf> = None;
    let (mut acknowledged, mut longest, mut trimmed) = (0, 0, 0);
    for round in 1..=rounds {
        // Now and then from nothing, so that the creation of a database is interrupted as well.
        if rng.below(6) == 0 {
            (left, trimmed) = (None, 0);
        }
        let disk = match &left {
            Some(dir) => Disk::load(dir).expect("loading what the last round left"),
            None => Disk::new(),
        };
        let fresh = left.is_none();
        let mounted = MountedDisk::new(disk, &mount_point);
        mounted.disk.cut_after(if fresh || rng.below(4) == 0 { rng.below(80) } else { rng.below(3_000) });
        let record_file = scratch.path().join("record");
        let _ = std::fs::remove_file(&record_file);
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "engine_process", "--nocapture"])
            .env(DIRECTORY, mount_point.join("engine"))
            .env(RECORD, &record_file)
            .env(SEED, rng.next_u64().to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("starting this program again");
        if !mounted.disk.wait_until_cut(ROUND_LIMIT) {
            mounted.disk.cut();
        }
        kill_group(&mut child);
        let record = Record::read(&record_file);
        let image_seed = rng.next_u64();
        let image = mounted.disk.image(image_seed);
        drop(mounted);

        let dir = scratch.path().join(format!("left-{round}"));
        image.write_to(&dir).expect("writing what is left");
        if let Some(last) = left.replace(dir.clone()) {
            let _ = std::fs::remove_dir_all(last);
        }
        let position = check(&dir.join("engine"), record.durable, trimmed.max(record.trimmed))
            .unwrap_or_else(|wrong| {
                panic!("HEADRACE_POWERCUT_SEED={seed}: round {round}, image {image_seed}: {wrong}")
            });
        trimmed = trimmed.max(record.trimmed);
        acknowledged += record.acknowledged;
        longest = longest.max(position);
    }
    println!(
        "the embedded engine: {rounds} power cuts, {acknowledged} acknowledged commits all there, up to {longest} transactions \
         in one database"
    );
    assert!(acknowledged > rounds, "only {acknowledged} commits: the power went before any work");
}

/// Opens what is left and compares it with what must be there; gives the position.
fn check(dir: &Path, durable: u64, trimmed: u64) -> Result<u64, String> {
    if !dir.exists() {
        return if durable == 0 {
            Ok(0)
        } else {
            Err(format!("nothing is left, {durable} was acknowledged"))
        };
    }
    let engine = EmbeddedEngine::open(dir, options()).map_err(|error| format!("does not open: {error}"))?;
    let position = engine.position().0;
    if position < durable {
        return Err(format!("it is at {position}, {durable} was acknowledged"));
    }
    let mut found = Content::new();
    engine
        .view_with(|read| {
            read.scan(&[], &[0xff; 511], &mut |key, value| {
                found.insert(key.to_vec(), value.to_vec());
                ControlFlow::Continue(())
            })
        })
        .map_err(|error| format!("reading everything: {error}"))?;
    compare(&found, &expected(position)).map_err(|wrong| format!("the state at {position}: {wrong}"))?;
    engine.verify(&mut |_, _| ()).map_err(|error| format!("verify: {error}"))?;
    check_log(&engine, trimmed)?;
    engine.close().map_err(|error| format!("closing: {error}"))?;
    Ok(position)
}

/// The log leads from where it was trimmed, or earlier, to the state of the database, without a gap.
fn check_log(engine: &EmbeddedEngine, trimmed: u64) -> Result<(), String> {
    let base = engine.log_base().0;
    if base > trimmed && base != 0 {
        return Err(format!("the log begins at {base}, it was trimmed up to {trimmed} at most"));
    }
    let (mut at, mut content) = (base, expected(base));
    while at < engine.durable_position().0 {
        let groups = engine
            .log_after(CommitSeq(at), 1 << 20)
            .map_err(|error| format!("the log after {at}: {error}"))?;
        if groups.is_empty() {
            return Err(format!("the log ends at {at}, the database is at {:?}", engine.durable_position()));
        }
        for group in groups {
            if group.after.0 != at {
                return Err(format!("a group follows {:?}, not {at}", group.after));
            }
            at = group.upto.0;
            let changes =
                Changes::new(&group.changes).map_err(|error| format!("group up to {at}: {error}"))?;
            for change in changes {
                let (key, value) = change.map_err(|error| format!("group up to {at}: {error}"))?;
                match value {
                    Some(value) => content.insert(key.to_vec(), value.to_vec()),
                    None => content.remove(key),
                };
            }
            compare(&content, &expected(at)).map_err(|wrong| format!("the log up to {at}: {wrong}"))?;
        }
    }
    Ok(())
}

fn compare(found: &Content, expected: &Content) -> Result<(), String> {
    if found == expected {
        return Ok(());
    }
    let wrong = expected.iter().filter(|(key, value)| found.get(*key) != Some(value)).count();
    let surplus = found.keys().filter(|key| !expected.contains_key(*key)).count();
    Err(format!("{wrong} of {} records are missing or wrong, {surplus} should not be there", expected.len()))
}
