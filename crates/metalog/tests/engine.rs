//! What callers see of the engine that ships: acknowledgements, errors, room, the end.

mod common;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use common::faulty::Faulty;
use common::{LEASE, Machine, bucket, local_store, put, restored, small};
use futures::FutureExt as _;
use futures::future::join_all;
use headrace_kv::{Engine, KvError};
use headrace_metalog::Bucket;
use headrace_metalog::engine::{Durability, LogOptions, LogState, LoggedEngine};
use headrace_metalog::restore::Target;
use headrace_metalog::ship::ShipPolicy;

struct Place {
    dir: tempfile::TempDir,
    store: Arc<Faulty>,
    bucket: Bucket,
    machine: Machine,
}

async fn place() -> Place {
    let dir = tempfile::tempdir().unwrap();
    let store = Faulty::new(local_store(&dir.path().join("store")), 1);
    let bucket = bucket(Arc::clone(&store) as _, false);
    let machine = Machine::new(&dir.path().join("a"));
    machine.format(&bucket).await;
    Place { dir, store, bucket, machine }
}

impl Place {
    async fn mount(&self, options: LogOptions) -> Arc<LoggedEngine> {
        self.machine.mount(&self.bucket, options, LEASE).await.unwrap()
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}

/// A linger of an hour: what is shipped is shipped because somebody waits for it.
fn patient(durability: Durability) -> LogOptions {
    let ship = ShipPolicy { linger: Duration::from_secs(3600), ..ShipPolicy::default() };
    LogOptions { durability, ship, ..LogOptions::default() }
}

#[tokio::test]
async fn an_acknowledgement_means_the_bucket_only_if_asked_for() {
    let place = place().await;
    let engine = place.mount(patient(Durability::Local)).await;
    let shipped = engine.shipped_position();
    let seq = put(&*engine, b"k", b"local").unwrap();
    engine.durable(seq).await.unwrap();
    assert_eq!(engine.shipped_position(), shipped);
    let status = engine.status();
    assert_eq!((status.lag_transactions, status.state), (1, LogState::Ok));
    assert!(status.lag_bytes > 0);
    engine.flush().await.unwrap();
    assert_eq!(engine.status().lag_transactions, 0);
    assert_eq!(restored(&place.bucket, Target::Latest, place.dir.path()).await.1[&b"k"[..]], b"local");
    engine.close().unwrap();

    let engine = place.mount(patient(Durability::Bucket)).await;
    let began = Instant::now();
    let seq = put(&*engine, b"k", b"bucket").unwrap();
    // The work starts at once: nobody polls this for a while.
    let acknowledged = engine.durable(seq);
    while engine.shipped_position() < seq {
        assert!(began.elapsed() < Duration::from_secs(20));
        tokio::task::yield_now().await;
    }
    acknowledged.await.unwrap();
    assert_eq!(restored(&place.bucket, Target::Latest, place.dir.path()).await.1[&b"k"[..]], b"bucket");
    engine.close().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_callers_share_round_trips() {
    let place = place().await;
    let engine = place.mount(patient(Durability::Bucket)).await;
    place.store.delay_ms.store(50, Ordering::Relaxed);
    let before = place.store.log_puts.load(Ordering::Relaxed);
    let began = Instant::now();
    let callers = (0..64u8).map(|caller| {
        let engine = Arc::clone(&engine);
        tokio::spawn(async move {
            let seq = put(&*engine, &[caller], b"x").unwrap();
            engine.durable(seq).await.unwrap();
        })
    });
    join_all(callers).await.into_iter().for_each(|done| done.unwrap());
    let puts = place.store.log_puts.load(Ordering::Relaxed) - before;
    assert!(puts <= 4, "{puts} puts, {:?}", began.elapsed());
    blocking(move || engine.close()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_goes_away_and_comes_back() {
    let place = place().await;
    let options = LogOptions {
        deadline: Duration::from_millis(300),
        max_backlog_bytes: 4096,
        ..small(Durability::Bucket)
    };
    let engine = place.mount(options).await;
    place.store.gone.store(true, Ordering::Relaxed);
    let seq = put(&*engine, b"k", &[7; 5000]).unwrap();
    let error = engine.durable(seq).await.unwrap_err().to_string();
    assert!(error.contains("the store has not taken the metadata log within 300ms"), "{error}");
    assert!(error.contains("injected"), "{error}");
    assert_eq!(engine.status().state, LogState::Lagging);
    // Names wait for room, and say so.
    let error = engine.admit().await.unwrap_err().to_string();
    assert!(error.contains("within 300ms"), "{error}");
    place.store.gone.store(false, Ordering::Relaxed);
    // The next attempt may be later than these callers wait.
    let began = Instant::now();
    while engine.admit().await.is_err() || engine.flush().await.is_err() {
        assert!(began.elapsed() < Duration::from_secs(30));
    }
    assert!(engine.admit().now_or_never().is_some());
    let status = engine.status();
    // What upkeep complains of may stand until its next round.
    assert_eq!((status.state, status.lag_bytes), (LogState::Ok, 0));
    blocking(move || engine.close()).await.unwrap();
}

#[tokio::test]
async fn closing_without_the_store_says_what_stays_here_and_the_next_mount_ships_it() {
    let place = place().await;
    let options = LogOptions { close_deadline: Duration::from_millis(200), ..patient(Durability::Local) };
    let engine = place.mount(options.clone()).await;
    place.store.gone.store(true, Ordering::Relaxed);
    for key in 0..3u8 {
        put(&*engine, &[key], b"x").unwrap();
    }
    let error = engine.close().unwrap_err().to_string();
    assert!(error.contains("3 changes of metadata are only on this machine"), "{error}");
    assert!(engine.close().is_ok());
    assert!(matches!(put(&*engine, b"k", b"late"), Err(KvError::Closed)));
    assert!(matches!(engine.flush().await, Err(KvError::Closed)));
    drop(engine);
    place.store.gone.store(false, Ordering::Relaxed);
    assert_eq!(restored(&place.bucket, Target::Latest, place.dir.path()).await.1.len(), 1);
    let engine = place.mount(options).await;
    engine.flush().await.unwrap();
    assert_eq!(restored(&place.bucket, Target::Latest, place.dir.path()).await.1.len(), 4);
    engine.close().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_that_was_put_out_acknowledges_nothing_more() {
    for durability in [Durability::Bucket, Durability::Local] {
        let place = place().await;
        let lease = Duration::from_secs(2);
        let engine = place.machine.mount(&place.bucket, patient(durability), lease).await.unwrap();
        // Out of reach of the store for longer than its lease, as a paused machine is; another one sees a dead owner.
        place.store.gone.store(true, Ordering::Relaxed);
        let other = bucket(local_store(&place.dir.path().join("store")), false);
        let second = Machine::new(&place.dir.path().join("b"));
        let taken = second.mount(&other, patient(durability), LEASE).await.unwrap();
        let seq = put(&*engine, b"k", b"of the first").unwrap();
        let acknowledged = engine.durable(seq);
        let (fenced, announced) = (engine.fenced(), put(&*taken, b"k", b"of the second").unwrap());
        place.store.gone.store(false, Ordering::Relaxed);
        assert!(matches!(acknowledged.await, Err(KvError::Fenced { .. })), "{durability}");
        assert!(fenced.await.to_string().contains("taken over"));
        assert_eq!(engine.status().state, LogState::Fenced);
        // The refusal of transactions follows at once.
        while put(&*engine, b"k", b"again").is_ok() {
            tokio::task::yield_now().await;
        }
        assert!(matches!(put(&*engine, b"k", b"again"), Err(KvError::Fenced { .. })));
        assert!(matches!(engine.admit().await, Ok(()) | Err(KvError::Fenced { .. })));
        let error = blocking(move || engine.close()).await.unwrap_err();
        assert!(
            matches!(&error, KvError::Fenced { detail } if detail.contains("Changes not sent")),
            "{error}"
        );
        taken.durable(announced).await.unwrap();
        taken.flush().await.unwrap();
        let (_, map) = restored(&other, Target::Latest, place.dir.path()).await;
        assert_eq!(map[&b"k"[..]], b"of the second");
        blocking(move || taken.close()).await.unwrap();
    }
}

/// Nothing is acknowledged on the strength of a lease that ran out, and everything is again once it is renewed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lapsed_lease_holds_acknowledgements_back() {
    let place = place().await;
    let options = LogOptions { deadline: Duration::from_millis(300), ..patient(Durability::Local) };
    let engine = place.machine.mount(&place.bucket, options, Duration::from_secs(2)).await.unwrap();
    place.store.gone.store(true, Ordering::Relaxed);
    while engine.keeper().is_valid() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let seq = put(&*engine, b"k", b"x").unwrap();
    let error = engine.durable(seq).await.unwrap_err().to_string();
    assert!(error.contains("lease"), "{error}");
    assert_eq!(engine.status().state, LogState::Lapsed);
    place.store.gone.store(false, Ordering::Relaxed);
    while !engine.keeper().is_valid() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    engine.durable(seq).await.unwrap();
    blocking(move || engine.close()).await.unwrap();
}

#[tokio::test]
async fn a_state_that_does_not_go_on_where_the_log_ends_is_refused() {
    let place = place().await;
    let engine = place.mount(patient(Durability::Local)).await;
    put(&*engine, b"k", b"x").unwrap();
    engine.close().unwrap();
    let second = Machine::new(&place.dir.path().join("b"));
    let stale = Arc::new(second.open().unwrap());
    put(&*stale, b"k", b"y").unwrap();
    stale.close().unwrap();
    let (_, claim) = second.claim(&place.bucket, LEASE).await.unwrap();
    let stale = Arc::new(second.open().unwrap());
    assert!(!claim.is_continuous(stale.durable_position()));
    let refused = LoggedEngine::start(place.bucket.clone(), stale, &claim, None, LogOptions::default());
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("does not go on where the log"), "{error}");
}
