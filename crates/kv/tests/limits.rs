//! Bounds on keys, values, transactions and memory.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use futures::executor::block_on;
use headrace_kv::embedded::{EmbeddedEngine, EmbeddedOptions};
use headrace_kv::{Engine, EngineExt, KvError, MAX_KEY_BYTES, MAX_VALUE_BYTES, Stop};

fn open(options: EmbeddedOptions) -> (tempfile::TempDir, EmbeddedEngine) {
    let dir = tempfile::tempdir().expect("tempdir");
    let engine = EmbeddedEngine::open(dir.path(), options).expect("open");
    (dir, engine)
}

fn put(engine: &EmbeddedEngine, key: &[u8], value: &[u8]) -> Result<(), KvError> {
    let put = engine.transact_with(|txn| {
        txn.put(b"companion", b"x");
        txn.put(key, value);
        Ok::<_, KvError>(())
    });
    put.map(drop)
}

#[test]
fn keys_and_values_of_the_greatest_length_work_and_longer_ones_are_refused_whole() {
    let (dir, engine) = open(EmbeddedOptions::default());
    for bad in [vec![], vec![1; MAX_KEY_BYTES + 1], vec![1; 5000]] {
        assert!(matches!(put(&engine, &bad, b"v"), Err(KvError::Limit(_))), "{} bytes", bad.len());
        // Asking for one is harmless.
        let found = engine.view_with(|read| Ok::<_, KvError>(read.get(&bad)?.is_some()));
        assert!(!found.expect("view"));
    }
    assert!(matches!(put(&engine, b"k", &vec![0; MAX_VALUE_BYTES + 1]), Err(KvError::Limit(_))));
    let companion = engine.view_with(|read| Ok::<_, KvError>(read.get(b"companion")?.is_some()));
    assert!(!companion.expect("view"), "a refused transaction left something behind");

    let mut value = vec![0xa5; MAX_VALUE_BYTES];
    value[MAX_VALUE_BYTES - 1] = 1;
    put(&engine, &[2; MAX_KEY_BYTES], &value).expect("put");
    engine.close().expect("close");
    drop(engine);
    let engine = EmbeddedEngine::open(dir.path(), EmbeddedOptions::default()).expect("reopen");
    let same =
        engine.view_with(|read| Ok::<_, KvError>(read.get(&[2; MAX_KEY_BYTES])?.as_deref() == Some(&value)));
    assert!(same.expect("view"));
}

#[test]
fn a_transaction_beyond_its_bound_is_refused() {
    let (_dir, engine) =
        open(EmbeddedOptions { max_transaction_bytes: 100 << 10, ..EmbeddedOptions::default() });
    let result = engine.transact_with(|txn| {
        for i in 0..200u32 {
            txn.put(&i.to_be_bytes(), &[0; 1024]);
        }
        Ok::<_, KvError>(())
    });
    assert!(matches!(result, Err(KvError::Limit(_))));
    assert_eq!(engine.position().0, 0);
    put(&engine, b"k", b"v").expect("the engine goes on");
}

#[test]
fn memory_stays_within_its_bound_while_writers_wait_for_the_disk() {
    let options = EmbeddedOptions {
        freeze_bytes: 256 << 10,
        max_pending_bytes: 512 << 10,
        freeze_age: Duration::from_secs(3600),
        ..EmbeddedOptions::default()
    };
    let bound = options.max_pending_bytes;
    let (_dir, engine) = open(options);
    let most = AtomicU64::new(0);
    thread::scope(|scope| {
        for thread in 0..4u32 {
            let (engine, most) = (&engine, &most);
            scope.spawn(move || {
                for i in 0..60u32 {
                    let key = [thread.to_be_bytes(), i.to_be_bytes()].concat();
                    put(engine, &key, &[1; 20 << 10]).expect("put");
                    most.fetch_max(engine.stats().pending_bytes, Ordering::Relaxed);
                }
            });
        }
    });
    let most = most.load(Ordering::Relaxed);
    assert!(most <= bound, "{most} bytes pending, the bound is {bound}");
    // One transaction larger than the bound passes alone.
    put(&engine, b"large", &vec![2; 2 << 20]).expect("put");
    block_on(engine.durable(engine.position())).expect("durable");
    assert_eq!(engine.stats().pending_bytes, 0);
}

#[test]
fn the_database_outgrows_the_address_space_it_began_with() {
    let (dir, engine) = open(EmbeddedOptions { map_size: 1 << 20, ..EmbeddedOptions::default() });
    for i in 0..200u32 {
        put(&engine, &i.to_be_bytes(), &[i as u8; 100 << 10]).expect("put");
        if i % 20 == 0 {
            block_on(engine.durable(engine.position())).expect("durable");
        }
    }
    engine.close().expect("close");
    drop(engine);
    let engine = EmbeddedEngine::open(dir.path(), EmbeddedOptions::default()).expect("reopen");
    engine
        .view_with(|read| {
            for i in 0..200u32 {
                assert_eq!(read.get(&i.to_be_bytes())?.as_deref(), Some(&[i as u8; 100 << 10][..]));
            }
            Ok::<_, KvError>(())
        })
        .expect("view");
    assert!(engine.stats().disk_bytes > 20 << 20);
}

#[test]
fn a_panic_in_a_transaction_writes_nothing_and_harms_nobody() {
    let (_dir, engine) = open(EmbeddedOptions::default());
    put(&engine, b"before", b"v").expect("put");
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        engine.transact(&mut |txn| {
            txn.put(b"half", b"v");
            txn.get(b"missing")?;
            panic!("the caller has a bug");
        })
    }));
    assert!(panicked.is_err());
    put(&engine, b"after", b"v").expect("put");
    block_on(engine.durable(engine.position())).expect("durable");
    let half = engine.view_with(|read| Ok::<_, KvError>(read.get(b"half")?.is_some()));
    assert!(!half.expect("view"));
}

#[test]
fn writes_nobody_waits_for_reach_the_disk_by_themselves() {
    let (_dir, engine) =
        open(EmbeddedOptions { freeze_age: Duration::from_millis(20), ..EmbeddedOptions::default() });
    put(&engine, b"k", b"v").expect("put");
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    while engine.stats().pending_bytes > 0 {
        assert!(std::time::Instant::now() < deadline, "nothing was committed");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn the_callers_own_error_comes_back_and_nothing_is_written() {
    #[derive(Debug, PartialEq)]
    enum Mine {
        Declined(u32),
        Engine(String),
    }
    impl From<KvError> for Mine {
        fn from(e: KvError) -> Self {
            Mine::Engine(e.to_string())
        }
    }
    let (_dir, engine) = open(EmbeddedOptions::default());
    let engine: Box<dyn Engine> = Box::new(engine);
    let declined = engine.transact_with::<(), _>(|txn| {
        txn.put(b"k", b"v");
        Err(Mine::Declined(7))
    });
    assert_eq!(declined, Err(Mine::Declined(7)));
    let seen = engine.view_with(|read| Ok::<_, Mine>(read.get(b"k")?.is_some()));
    assert_eq!(seen, Ok(false));
    let (answer, seq) = engine
        .transact_with(|txn| {
            txn.put(b"k", b"v");
            Ok::<_, Mine>(42)
        })
        .expect("transact");
    assert_eq!((answer, seq), (42, engine.position()));
    assert!(matches!(engine.transact(&mut |_| Err(Stop::Abort)), Err(Stop::Abort)));
    engine.close().expect("close");
    assert_eq!(engine.view_with(|_| Ok::<_, Mine>(())), Err(Mine::Engine(KvError::Closed.to_string())));
}
