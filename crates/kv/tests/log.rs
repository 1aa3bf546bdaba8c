//! The log, snapshots and the loader: any snapshot with the log after it is what the engine holds.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use futures::executor::block_on;
use headrace_kv::embedded::{EmbeddedEngine, EmbeddedOptions, EngineSnapshot, Loader};
use headrace_kv::log::{Changes, LogGroup};
use headrace_kv::{CommitSeq, Engine, EngineExt, KvError};
use proptest::prelude::*;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn options(log: bool) -> EmbeddedOptions {
    EmbeddedOptions {
        freeze_bytes: 8 << 10,
        freeze_age: Duration::from_millis(5),
        max_pending_bytes: 64 << 10,
        map_size: 64 << 20,
        log,
        ..EmbeddedOptions::default()
    }
}

fn open(dir: &Path) -> EmbeddedEngine {
    EmbeddedEngine::open(dir, options(true)).expect("open")
}

fn put(engine: &EmbeddedEngine, key: &[u8], value: &[u8]) -> CommitSeq {
    let put = engine.transact_with(|txn| {
        txn.put(key, value);
        Ok::<_, KvError>(())
    });
    put.expect("put").1
}

fn sync(engine: &EmbeddedEngine) {
    block_on(engine.durable(engine.position())).expect("durable");
}

/// Reads a snapshot a few entries at a time.
fn contents(snapshot: &EngineSnapshot, chunk: usize) -> Result<Model, KvError> {
    let mut model = Model::new();
    loop {
        let before = model.len();
        let last = model.last_key_value().map(|(k, _)| k.clone());
        snapshot.scan(last.as_deref(), &mut |k, v| {
            model.insert(k.to_vec(), v.to_vec());
            if model.len() - before == chunk { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        if model.len() == before {
            return Ok(model);
        }
    }
}

fn apply(model: &mut Model, group: &LogGroup) {
    for change in Changes::new(&group.changes).expect("changes") {
        match change.expect("change") {
            (key, Some(value)) => drop(model.insert(key.to_vec(), value.to_vec())),
            (key, None) => drop(model.remove(key)),
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    Transact(Vec<(Vec<u8>, Option<Vec<u8>>)>),
    Durable,
    Nudge,
    Snapshot,
    /// Gives up the log to that share of what is durable, but not what the oldest snapshot needs.
    Trim(u8),
    Reopen,
}

fn op() -> impl Strategy<Value = Op> {
    let key = prop::collection::vec(0u8..4, 1..4);
    let value = prop::option::weighted(
        0.7,
        prop_oneof![
            4 => prop::collection::vec(any::<u8>(), 0..20),
            1 => (any::<u8>(), 1000..9000usize).prop_map(|(b, len)| vec![b; len]),
        ],
    );
    prop_oneof![
        8 => prop::collection::vec((key, value), 1..6).prop_map(Op::Transact),
        2 => Just(Op::Durable),
        2 => Just(Op::Nudge),
        1 => Just(Op::Snapshot),
        1 => any::<u8>().prop_map(Op::Trim),
        1 => Just(Op::Reopen),
    ]
}

fn all_groups(engine: &EmbeddedEngine, after: CommitSeq, max_bytes: u64) -> Vec<LogGroup> {
    let mut groups: Vec<LogGroup> = Vec::new();
    loop {
        let last = groups.last().map_or(after, |g| g.upto);
        let more = engine.log_after(last, max_bytes).expect("log");
        if more.is_empty() {
            return groups;
        }
        groups.extend(more);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, max_shrink_iters: 500, ..ProptestConfig::default() })]

    #[test]
    fn a_snapshot_and_the_log_after_it_are_the_engine(
        ops in prop::collection::vec(op(), 1..60), max_bytes in 0u64..20_000, chunk in 1usize..20,
    ) {
        let dir = tempfile::tempdir().expect("tempdir");
        let mut engine = open(dir.path());
        let mut model = Model::new();
        // The contents of snapshots, each at its position; the first is empty.
        let mut known = vec![(CommitSeq(0), Model::new())];
        let mut trimmed = CommitSeq(0);
        for op in ops {
            match op {
                Op::Transact(changes) => {
                    let done = engine.transact_with(|txn| {
                        for (key, value) in &changes {
                            match value {
                                Some(value) => txn.put(key, value),
                                None => txn.delete(key),
                            }
                        }
                        Ok::<_, KvError>(())
                    });
                    done.expect("transact");
                    for (key, value) in changes {
                        match value {
                            Some(value) => drop(model.insert(key, value)),
                            None => drop(model.remove(&key)),
                        }
                    }
                }
                Op::Durable => sync(&engine),
                Op::Nudge => drop(engine.durable(engine.position())),
                Op::Snapshot => {
                    let snapshot = engine.snapshot().expect("snapshot");
                    let found = contents(&snapshot, chunk).expect("scan");
                    prop_assert_eq!(snapshot.records(), found.len() as u64);
                    known.push((snapshot.position(), found));
                }
                Op::Trim(share) => {
                    let upto = CommitSeq(engine.durable_position().0 * u64::from(share) / 255);
                    engine.trim_log(upto);
                    trimmed = trimmed.max(engine.log_base());
                    prop_assert!(engine.log_base() <= upto.max(trimmed));
                }
                Op::Reopen => {
                    engine.close().expect("close");
                    engine = open(dir.path());
                    prop_assert!(engine.verified_at_open());
                    // What was trimmed may come back, never the reverse.
                    prop_assert!(engine.log_base() <= trimmed.max(engine.durable_position()));
                }
            }
        }
        sync(&engine);
        engine.verify(&mut |_, _| {}).expect("sound");
        let now = engine.snapshot().expect("snapshot");
        prop_assert_eq!(now.position(), engine.position());
        prop_assert_eq!(&contents(&now, chunk).expect("scan"), &model);

        let base = engine.log_base();
        let groups = all_groups(&engine, base, max_bytes);
        prop_assert_eq!(groups.len() as u64, engine.log_backlog().groups);
        let bytes: usize = groups.iter().map(|g| g.changes.len()).sum();
        prop_assert_eq!(bytes as u64, engine.log_backlog().bytes);
        let mut expected_after = base;
        for group in &groups {
            prop_assert_eq!(group.after, expected_after);
            expected_after = group.upto;
        }
        prop_assert_eq!(expected_after, engine.position());
        for (position, mut found) in known {
            if position < base {
                continue;
            }
            // Through a loader, and in the model.
            let copy = tempfile::tempdir().expect("tempdir");
            let mut loader = Loader::create(copy.path()).expect("loader");
            for (key, value) in &found {
                loader.put(key, value).expect("put");
            }
            for group in groups.iter().filter(|g| g.after >= position) {
                apply(&mut found, group);
                loader.apply(group).expect("apply");
            }
            prop_assert_eq!(&found, &model, "from {:?}", position);
            loader.finish(engine.position()).expect("finish");
            let copy = open(copy.path());
            prop_assert_eq!(copy.position(), engine.position());
            prop_assert_eq!(&contents(&copy.snapshot().expect("snapshot"), chunk).expect("scan"), &model);
            copy.verify(&mut |_, _| {}).expect("sound");
            prop_assert_eq!(copy.log_base(), copy.position());
        }
    }
}

#[test]
fn a_snapshot_stays_as_it_was_while_commits_go_on() {
    let dir = tempfile::tempdir().expect("tempdir");
    let engine = open(dir.path());
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            // Every transaction writes its number everywhere.
            for n in 1u64.. {
                let done = engine.transact_with(|txn| {
                    (0..50u8).for_each(|k| txn.put(&[k], &n.to_be_bytes().repeat(1 + 8 * usize::from(k))));
                    Ok::<_, KvError>(())
                });
                done.expect("transact");
                if stop.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        let mut positions = Vec::new();
        for round in 0..20 {
            let snapshot = engine.snapshot().expect("snapshot");
            let position = snapshot.position();
            // In another thread, in pieces, with commits in between.
            let (engine, reader) = (
                &engine,
                scope.spawn(move || {
                    let mut seen = Model::new();
                    for _ in 0..60 {
                        let last = seen.last_key_value().map(|(k, _)| k.clone());
                        let step = snapshot.scan(last.as_deref(), &mut |k, v| {
                            seen.insert(k.to_vec(), v[..8].to_vec());
                            ControlFlow::Break(())
                        });
                        step.expect("scan");
                    }
                    seen
                }),
            );
            if round % 4 == 0 {
                engine.verify(&mut |_, _| {}).expect("sound, whatever is written meanwhile");
            }
            let seen = reader.join().expect("reader");
            assert_eq!(seen.len(), if position.0 == 0 { 0 } else { 50 });
            assert!(seen.values().all(|v| v[..] == position.0.to_be_bytes()), "torn at {position:?}");
            positions.push(position);
            sync(engine);
        }
        stop.store(true, Ordering::Relaxed);
        assert!(positions.is_sorted() && positions.first() < positions.last());
    });
}

#[test]
fn a_snapshot_gives_way_when_the_database_needs_room_or_is_closed() {
    let dir = tempfile::tempdir().expect("tempdir");
    let small = EmbeddedOptions { map_size: 1 << 18, ..options(true) };
    let engine = EmbeddedEngine::open(dir.path(), small).expect("open");
    put(&engine, b"k", b"v");
    sync(&engine);
    let snapshot = engine.snapshot().expect("snapshot");
    assert_eq!(contents(&snapshot, 1).expect("scan").len(), 1);
    for i in 0..100u32 {
        put(&engine, &i.to_be_bytes(), &[7; 9000]);
    }
    sync(&engine);
    let error = contents(&snapshot, 1).expect_err("it was given up").to_string();
    assert!(error.contains("take another"), "{error}");
    let snapshot = engine.snapshot().expect("another");
    assert_eq!(contents(&snapshot, 1000).expect("scan").len(), 101);
    engine.close().expect("close");
    assert!(matches!(contents(&snapshot, 1), Err(KvError::Closed)));
    assert!(matches!(engine.snapshot(), Err(KvError::Closed)));
    // The snapshot still exists; what counts is that the database is free.
    drop(EmbeddedEngine::open(dir.path(), options(false)).expect("open again"));
}

#[test]
fn commits_are_told_and_the_log_has_them_by_then() {
    let dir = tempfile::tempdir().expect("tempdir");
    let engine = Arc::new(open(dir.path()));
    let (tell, told) = mpsc::channel();
    engine.on_durable(Box::new(move |durable| {
        let _ = tell.send(durable);
    }));
    let seq = put(&engine, b"k", b"v");
    assert_eq!(told.recv_timeout(Duration::from_secs(20)).expect("nobody asked, its age did"), seq);
    let groups = engine.log_after(CommitSeq(0), 0).expect("log");
    assert_eq!((groups.len(), groups[0].upto), (1, seq));
    assert_eq!(engine.log_backlog().oldest_at_ms, Some(groups[0].at_ms));
    assert_eq!(engine.stats().log_bytes, groups[0].changes.len() as u64);
}

#[test]
fn without_the_option_nothing_is_logged_but_a_log_that_is_there_goes_on() {
    let dir = tempfile::tempdir().expect("tempdir");
    let engine = EmbeddedEngine::open(dir.path(), options(false)).expect("open");
    put(&engine, b"a", b"");
    sync(&engine);
    assert_eq!((engine.log_backlog().groups, engine.log_base()), (0, CommitSeq(1)));
    drop(engine);
    let engine = open(dir.path());
    put(&engine, b"b", b"");
    drop(engine);
    let engine = EmbeddedEngine::open(dir.path(), options(false)).expect("open");
    assert_eq!((engine.log_backlog().groups, engine.log_base()), (1, CommitSeq(1)));
    put(&engine, b"c", b"");
    sync(&engine);
    assert_eq!(engine.log_backlog().groups, 2, "a gap would make the log useless");
    // What was trimmed goes from the disk with the next commit.
    engine.trim_log(CommitSeq(2));
    put(&engine, b"d", b"");
    drop(engine);
    let engine = open(dir.path());
    assert_eq!((engine.log_base(), engine.log_backlog().groups), (CommitSeq(2), 2));
}

#[test]
fn groups_are_bounded() {
    let dir = tempfile::tempdir().expect("tempdir");
    let bounded = EmbeddedOptions { max_group_bytes: 32 << 10, max_pending_bytes: 1 << 20, ..options(true) };
    let engine = EmbeddedEngine::open(dir.path(), bounded).expect("open");
    let next = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..300 {
                    put(&engine, &next.fetch_add(1, Ordering::Relaxed).to_be_bytes(), &[7; 3000]);
                }
            });
        }
    });
    sync(&engine);
    let groups = all_groups(&engine, CommitSeq(0), u64::MAX);
    assert!(groups.iter().all(|g| g.changes.len() <= 32 << 10));
    assert_eq!(groups.last().map(|g| g.upto), Some(engine.position()));
}

#[test]
fn a_directory_that_was_not_loaded_to_the_end_is_refused_and_can_be_loaded_again() {
    let dir = tempfile::tempdir().expect("tempdir");
    let mut loader = Loader::create(dir.path()).expect("loader");
    loader.put(b"b", b"1").expect("put");
    assert!(matches!(loader.put(b"a", b"1"), Err(KvError::Limit(_))));
    assert!(matches!(loader.put(b"b", b"1"), Err(KvError::Limit(_))));
    assert!(matches!(loader.put(b"", b"1"), Err(KvError::Limit(_))));
    drop(loader);
    let error =
        EmbeddedEngine::open(dir.path(), options(true)).map(drop).expect_err("half of it").to_string();
    assert!(error.contains("interrupted"), "{error}");

    let group = |after, upto, changes: &[u8]| LogGroup {
        after: CommitSeq(after),
        upto: CommitSeq(upto),
        at_ms: 1,
        changes: changes.to_vec().into(),
    };
    let mut loader = Loader::create(dir.path()).expect("again");
    loader.apply(&group(3, 5, &[1, 0])).expect("an empty group");
    assert!(matches!(loader.apply(&group(6, 7, &[1, 0])), Err(KvError::Corrupt(_))));
    assert!(matches!(loader.apply(&group(5, 7, &[9])), Err(KvError::Corrupt(_))));
    assert!(matches!(loader.finish(CommitSeq(9)), Err(KvError::Corrupt(_))));

    // Larger than what is written at once, and with values of their own pages.
    let mut loader = Loader::create(dir.path()).expect("once more");
    for i in 0..3000u32 {
        loader.put(&i.to_be_bytes(), &vec![i as u8; 10_000]).expect("put");
    }
    loader.finish(CommitSeq(77)).expect("finish");
    let engine = open(dir.path());
    assert_eq!((engine.position(), engine.log_base()), (CommitSeq(77), CommitSeq(77)));
    let snapshot = engine.snapshot().expect("snapshot");
    assert_eq!(snapshot.records(), 3000);
    let mut progress = Vec::new();
    engine.verify(&mut |done, total| progress.push((done, total))).expect("sound");
    assert!(progress.is_sorted() && progress.last().is_some_and(|(done, total)| done == total));
    put(&engine, b"more", b"v");
    sync(&engine);
    drop((snapshot, engine));
    let error = Loader::create(dir.path()).map(drop).expect_err("an engine is there").to_string();
    assert!(error.contains("already"), "{error}");
}
