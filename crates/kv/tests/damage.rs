//! Bytes flipped anywhere in the data file: what was stored is read, or an error is; never anything else, and no signal.
//!
//! `HEADRACE_DAMAGE_ROUNDS` sets the number of rounds (default 200), `HEADRACE_DAMAGE_SEED` what is hit.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{BuildHasher as _, RandomState};
use std::ops::ControlFlow;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use futures::executor::block_on;
use headrace_kv::embedded::{EmbeddedEngine, EmbeddedOptions};
use headrace_kv::{CommitSeq, Engine, EngineExt, KvError, prefix_end};

const CHILD_DIR: &str = "HEADRACE_DAMAGE_DIR";
const CHILD_VERIFY: &str = "HEADRACE_DAMAGE_VERIFY";
const PAGE: u64 = 4096;
const ENTRIES: u32 = 4000;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn open(dir: &Path, verify_bytes: u64) -> Result<EmbeddedEngine, KvError> {
    let options = EmbeddedOptions {
        freeze_bytes: 64 << 10,
        freeze_age: Duration::from_millis(2),
        log: true,
        verify_bytes,
        ..EmbeddedOptions::default()
    };
    EmbeddedEngine::open(dir, options)
}

fn entry(i: u32) -> (Vec<u8>, Vec<u8>) {
    let len = match i % 97 {
        0 => 20_000,
        1..4 => 3000,
        _ => 20 + i as usize % 60,
    };
    (format!("{:02}/{i}", i % 37).into_bytes(), i.to_be_bytes().repeat(len / 4))
}

fn gone(i: u32) -> bool {
    i % 5 == 3
}

fn model() -> Model {
    (0..ENTRIES).filter(|&i| !gone(i)).map(entry).collect()
}

/// A database of every kind of page: branches, leaves, long values, free ones, a log.
fn build(dir: &Path) {
    let engine = open(dir, u64::MAX).expect("open");
    for chunk in 0..ENTRIES / 100 {
        let filled = engine.transact_with(|txn| {
            for i in chunk * 100..(chunk + 1) * 100 {
                let (key, value) = entry(i);
                txn.put(&key, &value);
            }
            Ok::<_, KvError>(())
        });
        filled.expect("fill");
        if chunk % 10 == 7 {
            block_on(engine.durable(engine.position())).expect("durable");
            engine.trim_log(CommitSeq(u64::from(chunk) / 2));
        }
    }
    let removed = engine.transact_with(|txn| {
        (0..ENTRIES).filter(|&i| gone(i)).for_each(|i| txn.delete(&entry(i).0));
        Ok::<_, KvError>(())
    });
    removed.expect("remove");
    engine.close().expect("close");
}

/// Everything, by each way there is.
fn read_all(engine: &EmbeddedEngine, model: &Model) -> Result<(), KvError> {
    engine.view_with(|read| {
        for (key, value) in model {
            assert!(read.get(key)?.as_deref() == Some(value), "WRONG value");
        }
        for reverse in [false, true] {
            let mut seen = 0;
            let mut visit = |k: &[u8], v: &[u8]| {
                assert!(model.get(k).is_some_and(|value| v == value), "WRONG entry");
                seen += 1;
                ControlFlow::Continue(())
            };
            if reverse {
                read.scan_reverse(&[], &prefix_end(&[]), &mut visit)?;
            } else {
                read.scan(&[], &prefix_end(&[]), &mut visit)?;
            }
            assert_eq!(seen, model.len(), "WRONG number of entries");
        }
        Ok::<_, KvError>(())
    })?;
    let mut position = engine.log_base();
    for group in engine.log_after(position, u64::MAX)? {
        assert_eq!(group.after, position, "WRONG log");
        position = group.upto;
    }
    assert_eq!(position, engine.position(), "WRONG end of the log");
    Ok(())
}

fn use_it(dir: &Path, verify_bytes: u64) -> Result<(), KvError> {
    let mut model = model();
    let engine = open(dir, verify_bytes)?;
    engine.verify(&mut |_, _| {})?;
    assert_eq!(engine.position(), CommitSeq(u64::from(ENTRIES) / 100 + 1), "WRONG position");
    read_all(&engine, &model)?;
    // And it takes more, on pages that it thinks are free.
    for round in 0..5u32 {
        let added = engine.transact_with(|txn| {
            for i in 0..60 {
                let (key, value) = (format!("new/{}", round * 40 + i).into_bytes(), vec![round as u8; 600]);
                txn.put(&key, &value);
                model.insert(key, value);
            }
            Ok::<_, KvError>(())
        });
        let ((), seq) = added?;
        block_on(engine.durable(seq))?;
    }
    read_all(&engine, &model)?;
    engine.close()?;
    drop(engine);
    read_all(&open(dir, verify_bytes)?, &model)
}

#[test]
#[ignore = "started by the test below"]
fn child() {
    let Some(dir) = std::env::var_os(CHILD_DIR).map(PathBuf::from) else { return };
    let verify_bytes = std::env::var(CHILD_VERIFY).expect("set").parse().expect("a number");
    match use_it(&dir, verify_bytes) {
        Ok(()) => println!("\nRIGHT"),
        Err(e @ (KvError::Corrupt(_) | KvError::Io { .. })) => println!("\nREFUSED {e}"),
        Err(e) => panic!("WRONG error: {e:?}"),
    }
}

/// Uses the database in a process of its own; what that said, or nothing if it did not end well, and all there is to tell.
fn use_in_child(dir: &Path, verify_bytes: u64) -> (String, String) {
    let output = Command::new(std::env::current_exe().expect("own path"))
        .args(["--exact", "child", "--ignored", "--nocapture"])
        .env(CHILD_DIR, dir)
        .env(CHILD_VERIFY, verify_bytes.to_string())
        .output()
        .expect("run the child");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    let told = format!("{:?} signal {:?}\n{text}\n{errors}", output.status, output.status.signal());
    (told, if output.status.success() { text.into_owned() } else { String::new() })
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// Where to hit: a page's header and its offsets matter most, and the two file headers.
fn place(random: &mut Random, len: u64) -> u64 {
    match random.below(4) {
        0 => random.below(len),
        1 => random.below(len / PAGE) * PAGE + random.below(32),
        2 => random.below(len / PAGE) * PAGE + random.below(PAGE),
        _ => random.below(2) * PAGE + random.below(160),
    }
}

#[test]
fn flipped_bytes_are_never_believed() {
    let rounds = std::env::var("HEADRACE_DAMAGE_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(200);
    let source = tempfile::tempdir().expect("tempdir");
    build(source.path());
    let whole = fs::read(source.path().join("data.mdb")).expect("read");
    let (mut right, mut refused) = (0, 0);
    let seed = std::env::var("HEADRACE_DAMAGE_SEED").ok().and_then(|n| n.parse().ok());
    let seed = seed.unwrap_or_else(|| RandomState::new().hash_one(0)) | 1;
    let mut random = Random(seed);
    for round in 0..rounds {
        let dir = tempfile::tempdir().expect("tempdir");
        for name in ["FORMAT", "witness"] {
            fs::copy(source.path().join(name), dir.path().join(name)).expect("copy");
        }
        let mut damaged = whole.clone();
        let mut hits = Vec::new();
        for _ in 0..=random.below(3) {
            let at = place(&mut random, whole.len() as u64);
            let bits = if random.below(2) == 0 { 1 << random.below(8) } else { 1 + random.below(255) as u8 };
            damaged[at as usize] ^= bits;
            hits.push((at, bits));
        }
        if random.below(20) == 0 {
            damaged.truncate(random.below(whole.len() as u64) as usize);
        }
        fs::write(dir.path().join("data.mdb"), damaged).expect("write");
        // Verified before LMDB sees it, or right after, as a large file is.
        let (output, text) = use_in_child(dir.path(), if round % 2 == 0 { 0 } else { 64 << 20 });
        let told = format!("seed {seed} round {round}, {hits:?} of {}: {output}", whole.len());
        assert!(!text.is_empty(), "{told}");
        right += usize::from(text.contains("\nRIGHT"));
        refused += usize::from(text.contains("\nREFUSED"));
        if std::env::var_os("HEADRACE_DAMAGE_SHOW").is_some() {
            println!("{hits:?}: {}", text.lines().find(|l| l.starts_with("R")).unwrap_or_default());
        }
    }
    assert_eq!(right + refused, rounds);
    println!("{right} right, {refused} refused");
    assert!(
        right > 0 && refused > rounds / 4,
        "{right} right, {refused} refused: they hit nothing, or everything"
    );
}

/// LMDB takes an entry's place in its page as it is: on the last pages that leads past the end of the file.
#[test]
fn an_entry_that_lies_past_the_end_of_the_file_is_an_error() {
    let source = tempfile::tempdir().expect("tempdir");
    build(source.path());
    let whole = fs::read(source.path().join("data.mdb")).expect("read");
    let pages = whole.len() as u64 / PAGE;
    let mut refused = 0;
    for (page, entry) in
        (pages.saturating_sub(8)..pages).flat_map(|page| (0..4).map(move |entry| (page, entry)))
    {
        let dir = tempfile::tempdir().expect("tempdir");
        for name in ["FORMAT", "witness"] {
            fs::copy(source.path().join(name), dir.path().join(name)).expect("copy");
        }
        let mut damaged = whole.clone();
        // The high byte of its place: eight pages further.
        damaged[(page * PAGE) as usize + 17 + 2 * entry] ^= 0x80;
        fs::write(dir.path().join("data.mdb"), damaged).expect("write");
        let (told, text) = use_in_child(dir.path(), 0);
        assert!(!text.is_empty(), "page {page} of {pages}, entry {entry}: {told}");
        refused += usize::from(text.contains("\nREFUSED"));
    }
    assert!(refused > 0, "they are all free");
}

/// Every bit of the headers' transaction numbers: which of the two counts depends on them.
#[test]
fn a_damaged_header_does_not_bring_an_old_state_back() {
    let source = tempfile::tempdir().expect("tempdir");
    build(source.path());
    let whole = fs::read(source.path().join("data.mdb")).expect("read");
    let model = model();
    for header in 0..2 {
        for bit in 0..64 {
            let dir = tempfile::tempdir().expect("tempdir");
            for name in ["FORMAT", "witness"] {
                fs::copy(source.path().join(name), dir.path().join(name)).expect("copy");
            }
            let mut damaged = whole.clone();
            damaged[header * PAGE as usize + 144 + bit / 8] ^= 1 << (bit % 8);
            fs::write(dir.path().join("data.mdb"), damaged).expect("write");
            match open(dir.path(), u64::MAX) {
                Ok(engine) => read_all(&engine, &model).expect("all of it"),
                Err(KvError::Corrupt(_)) => {}
                Err(e) => panic!("header {header} bit {bit}: {e}"),
            }
        }
    }
}

#[test]
fn an_undamaged_database_passes_all_of_it() {
    let dir = tempfile::tempdir().expect("tempdir");
    build(dir.path());
    use_it(dir.path(), u64::MAX).expect("right");
}
