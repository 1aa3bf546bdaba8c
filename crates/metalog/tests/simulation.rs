//! A volume's metadata through random lives: transactions, crashes, lost machines, snapshots, retention and a store that fails.
//! What was acknowledged is there, and every restore gives exactly a state that was.

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use common::faulty::Faulty;
use common::{LEASE, Machine, Map, bucket, contents, local_store, restored, small};
use headrace_kv::embedded::EmbeddedEngine;
use headrace_kv::{CommitSeq, Engine, EngineExt, KvError};
use headrace_metalog::Bucket;
use headrace_metalog::engine::{Durability, LogOptions, LoggedEngine};
use headrace_metalog::restore::{Target, check};
use headrace_store::{Environment, Location, ObjectStore, StoreOptions, open_with_environment};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;

#[derive(Clone, Debug)]
enum Op {
    /// Keys and values; `None` deletes.
    Transact(Vec<(u8, Option<u16>)>),
    /// Waits until everything is acknowledged.
    Sync,
    /// Remembers the state with the time of day.
    Note,
    Crash,
    Close,
    /// The machine is lost: nothing but the bucket is left.
    Lose,
    /// Another machine takes the volume.
    Move,
    /// Restores the newest state, and some that were noted, elsewhere.
    Check(prop::sample::Index),
    Fail(u8),
    Pause(u8),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let change = (0u8..40, prop::option::weighted(0.8, 0u16..3000));
    let op = prop_oneof![
        40 => prop::collection::vec(change, 1..8).prop_map(Op::Transact),
        12 => Just(Op::Sync),
        6 => Just(Op::Note),
        5 => Just(Op::Crash),
        2 => Just(Op::Close),
        2 => Just(Op::Lose),
        2 => Just(Op::Move),
        3 => any::<prop::sample::Index>().prop_map(Op::Check),
        3 => (0u8..30).prop_map(Op::Fail),
        3 => (1u8..60).prop_map(Op::Pause),
    ];
    prop::collection::vec(op, 10..90)
}

struct World<'t> {
    dir: &'t std::path::Path,
    store: Arc<Faulty>,
    bucket: Bucket,
    options: LogOptions,
    machines: [Machine; 2],
    here: usize,
    engine: Option<Arc<LoggedEngine>>,
    /// The state at each position of the present history.
    history: BTreeMap<u64, Map>,
    state: Map,
    /// Acknowledged with durability in the bucket.
    acknowledged: CommitSeq,
    /// Positions with a time at which they were the newest.
    notes: Vec<(SystemTime, u64)>,
}

impl World<'_> {
    async fn start(&mut self) {
        let percent = self.failing(0);
        let mut last = String::new();
        for attempt in 0..60u32 {
            // A rebuild asks for many objects, and this store has no retries of its own.
            self.failing(percent.checked_div(attempt + 1).unwrap_or(0));
            let machine = &self.machines[self.here];
            match machine.mount(&self.bucket, self.options.clone(), LEASE).await {
                Err(error) => last = error,
                Ok(engine) => {
                    self.failing(percent);
                    return self.mounted(engine);
                }
            }
        }
        panic!("the volume cannot be mounted: {last}");
    }

    fn mounted(&mut self, engine: Arc<LoggedEngine>) {
        let position = engine.position();
        let durable = self.options.durability == Durability::Bucket;
        assert!(!durable || position >= self.acknowledged, "{position:?} < {:?}", self.acknowledged);
        self.go_back_to(position.0);
        assert_eq!(contents(&*engine), self.state, "at {position:?}");
        self.engine = Some(engine);
    }

    fn engine(&self) -> &Arc<LoggedEngine> {
        self.engine.as_ref().unwrap()
    }

    /// What came after `position` never was.
    fn go_back_to(&mut self, position: u64) {
        self.history.retain(|at, _| *at <= position);
        self.notes.retain(|(_, at)| *at <= position);
        let (at, state) = self.history.last_key_value().unwrap();
        assert_eq!(*at, position, "a position that never was");
        self.state = state.clone();
    }

    fn transact(&mut self, changes: &[(u8, Option<u16>)]) {
        let ((), position) = self
            .engine()
            .transact_with(|txn| {
                for (key, value) in changes {
                    match value {
                        Some(value) => txn.put(&[b'k', *key], &vec![*value as u8; usize::from(*value) / 8]),
                        None => txn.delete(&[b'k', *key]),
                    }
                }
                Ok::<_, KvError>(())
            })
            .unwrap();
        for (key, value) in changes {
            match value {
                Some(value) => {
                    self.state.insert(vec![b'k', *key], vec![*value as u8; usize::from(*value) / 8])
                }
                None => self.state.remove(&vec![b'k', *key]),
            };
        }
        self.history.insert(position.0, self.state.clone());
    }

    /// Ends the process without a word.
    fn crash(&mut self) {
        let engine = self.engine.take().unwrap();
        engine.abandon();
        let embedded: Arc<EmbeddedEngine> = Arc::clone(engine.embedded());
        drop(engine);
        embedded.close().unwrap();
    }

    async fn close(&mut self) {
        let engine = self.engine.take().unwrap();
        let position = engine.position();
        // Blocks, as in a program.
        match tokio::task::spawn_blocking(move || engine.close()).await.unwrap() {
            Ok(()) => self.acknowledged = position,
            Err(error) => panic!("{error}"),
        }
    }

    fn failing(&self, percent: u32) -> u32 {
        self.store.failing.swap(percent, Ordering::Relaxed)
    }

    /// The newest state, and that of a time that was noted.
    async fn check(&self, pick: Option<prop::sample::Index>) {
        let percent = self.failing(0);
        let (latest, map) = restored(&self.bucket, Target::Latest, self.dir).await;
        assert!(latest.is_latest && latest.warnings.is_empty(), "{latest:?}");
        if self.options.durability == Durability::Bucket {
            assert!(latest.position >= self.acknowledged);
        }
        assert_eq!(Some(&map), self.history.get(&latest.position.0), "restored {latest:?}");
        assert!(check(&self.bucket, Target::Latest, &|_| {}).await.unwrap().position >= latest.position);
        let shipped: Vec<_> = self.notes.iter().filter(|(_, at)| *at <= latest.position.0).collect();
        if !shipped.is_empty() {
            let (time, position) = shipped[pick.map_or(0, |pick| pick.index(shipped.len()))];
            let (then, map) = restored(&self.bucket, Target::At(*time), self.dir).await;
            // Changes of nothing make positions without a group of their own.
            assert_eq!(then.position.0, *position, "at {time:?}: {then:?}");
            assert_eq!(Some(&map), self.history.get(position));
        }
        self.failing(percent);
    }

    async fn step(&mut self, op: &Op) {
        match op {
            Op::Transact(changes) => self.transact(changes),
            Op::Sync => {
                let position = self.engine().position();
                // A store that fails for longer than the deadline is another test's.
                self.engine().durable(position).await.unwrap();
                self.acknowledged = position;
            }
            Op::Note => {
                let position = self.engine().position();
                // On disk, so that its group is closed before the time that is noted, and the next one after.
                self.engine().embedded().durable(position).await.unwrap();
                let time = SystemTime::now();
                std::thread::sleep(Duration::from_millis(3));
                self.notes.push((time, position.0));
            }
            Op::Crash => {
                self.crash();
                self.start().await;
            }
            Op::Close => {
                self.close().await;
                self.start().await;
            }
            Op::Lose => {
                self.crash();
                std::fs::remove_dir_all(self.machines[self.here].engine_dir()).unwrap();
                self.start().await;
            }
            Op::Move => {
                let percent = self.failing(0);
                self.close().await;
                self.failing(percent);
                self.here = 1 - self.here;
                self.start().await;
            }
            Op::Check(pick) => self.check(Some(*pick)).await,
            Op::Fail(percent) => drop(self.failing(u32::from(*percent))),
            Op::Pause(ms) => tokio::time::sleep(Duration::from_millis(u64::from(*ms))).await,
        }
    }
}

async fn live(store: Arc<dyn ObjectStore>, seed: u64, encrypted: bool, options: LogOptions, ops: &[Op]) {
    let dir = tempfile::tempdir().unwrap();
    let store = Faulty::new(store, seed);
    let bucket = bucket(Arc::clone(&store) as _, encrypted);
    let machines = [Machine::new(&dir.path().join("a")), Machine::new(&dir.path().join("b"))];
    machines[0].format(&bucket).await;
    let state = Map::from([(b"schema".to_vec(), b"1".to_vec())]);
    let mut world = World {
        dir: dir.path(),
        store,
        bucket,
        options,
        machines,
        here: 0,
        engine: None,
        history: BTreeMap::from([(1, state.clone())]),
        state,
        acknowledged: CommitSeq(0),
        notes: Vec::new(),
    };
    world.start().await;
    for op in ops {
        world.step(op).await;
    }
    world.failing(0);
    world.close().await;
    world.start().await;
    world.check(None).await;
    world.close().await;
}

fn run(future: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(future);
}

/// A case takes a second; PROPTEST_CASES asks for more of them.
fn config() -> ProptestConfig {
    let given =
        ProptestConfig { max_shrink_iters: 60, failure_persistence: None, ..ProptestConfig::default() };
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { given.cases } else { 16 };
    ProptestConfig { cases, ..given }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn what_was_acknowledged_is_there(ops in ops(), seed: u64, in_bucket: bool, encrypted: bool) {
        let dir = tempfile::tempdir().unwrap();
        let durability = if in_bucket { Durability::Bucket } else { Durability::Local };
        run(live(local_store(dir.path()), seed, encrypted, small(durability), &ops));
    }

    /// The same with what is older than a moment removed all the time: whatever is noted is out of reach at once, the newest
    /// state never is.
    #[test]
    fn removal_takes_nothing_that_is_needed(ops in ops(), seed: u64) {
        let dir = tempfile::tempdir().unwrap();
        let ops: Vec<_> = ops.into_iter().filter(|op| !matches!(op, Op::Note)).collect();
        let options = LogOptions {
            retention: Duration::ZERO,
            upkeep_interval: Duration::from_millis(30),
            ..small(Durability::Bucket)
        };
        run(live(local_store(dir.path()), seed, false, options, &ops));
    }
}

/// A volume in versitygw.
#[test]
fn the_same_on_s3() {
    let server = headrace_testbed::s3::S3Server::start();
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for round in 0..4 {
        let location: Location = format!("s3://{}/round{round}", server.bucket()).parse().unwrap();
        let options = StoreOptions {
            endpoint: Some(server.endpoint()),
            region: Some("us-east-1".into()),
            access_key_id: Some(headrace_testbed::s3::ACCESS_KEY.into()),
            secret_access_key: Some(headrace_testbed::s3::SECRET_KEY.into()),
            ..StoreOptions::default()
        };
        let ops = ops().new_tree(&mut runner).unwrap().current();
        run(async {
            let store = open_with_environment(&location, &options, &Environment::default()).unwrap();
            live(store, round, round % 2 == 1, small(Durability::Bucket), &ops).await;
        });
    }
}
