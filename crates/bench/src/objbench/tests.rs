//! Whole runs, on a directory and on stores that go wrong.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use headrace_store::{Body, LocalStore, ObjectMeta, ObjectStore, StoreError};

use super::*;

fn small() -> Options {
    Options {
        concurrency: vec![1, 7],
        big_size: 300_000,
        big_objects: 8,
        small_size: 1000,
        small_objects: 20,
        block: 65_536,
        time: Duration::from_millis(40),
        ..Options::quick()
    }
}

fn local() -> (tempfile::TempDir, Arc<dyn ObjectStore>) {
    let directory = tempfile::tempdir().unwrap();
    let store = Arc::new(LocalStore::open(directory.path()).unwrap());
    (directory, store)
}

fn entries(directory: &tempfile::TempDir) -> usize {
    std::fs::read_dir(directory.path())
        .unwrap()
        .filter(|entry| !entry.as_ref().unwrap().file_name().to_string_lossy().starts_with(".headrace"))
        .count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_measures_everything_and_leaves_nothing() {
    let (directory, store) = local();
    let steps = Mutex::new(Vec::new());
    let report =
        run(store, true, small(), Stop::default(), |step| steps.lock().unwrap().push(step)).await.unwrap();
    assert_eq!(report.problems(), Vec::<String>::new());
    assert!(
        report.checks.iter().filter(|check| check.required).all(|check| check.passed),
        "{:?}",
        report.checks
    );
    assert_eq!(report.measurements.len(), 2 * 9);
    let mut stored = 0;
    for row in &report.measurements {
        let latency = row.latency.unwrap();
        assert!(row.requests >= row.concurrency as u64, "{row:?}");
        assert!(row.seconds > 0.0 && row.cpu_seconds > 0.0, "{row:?}");
        let ascending = [latency.min, latency.p50, latency.p90, latency.p99, latency.p999, latency.max];
        assert!(ascending.is_sorted() && latency.min > 0.0, "{latency:?}");
        let body = match row.operation {
            Operation::Put | Operation::Get => row.object_bytes,
            Operation::GetRange => 65_536,
            _ => 0,
        };
        assert_eq!(row.bytes, row.requests * body, "{row:?}");
        if row.operation == Operation::Put {
            stored = row.requests;
        }
        let each = if row.operation == Operation::List { stored } else { 1 };
        assert_eq!(row.objects, row.requests * each, "{row:?}");
    }
    assert_eq!(report.cleanup.left, 0);
    assert_eq!(entries(&directory), 0, "nothing is left");
    let steps = steps.into_inner().unwrap();
    assert!(steps.iter().any(|step| step.what.starts_with("put of 293 KiB, 7 at a time")), "{steps:?}");

    let text = report.text(false);
    assert!(
        text.contains("ranged get") && text.contains("ok    empty object") && !text.contains('\x1b'),
        "{text}"
    );
    assert!(report.markdown().contains("| put "), "{}", report.markdown());
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["schema"], "headrace-objbench-1");
    assert_eq!(json["measurements"][2]["operation"], "get_range");
    assert!(json["measurements"][2]["latency"]["p99"].as_f64().unwrap() > 0.0);
    let svg = report.figure().svg().unwrap();
    assert!(svg.contains(">ranged get p99<") && svg.contains(">list<"));
}

/// A real store that goes wrong in one way.
struct Wrong {
    store: Arc<dyn ObjectStore>,
    /// Every so many ranged gets has one byte changed.
    flip_range_every: u64,
    gets: AtomicU64,
    /// Told to stop after so many puts of measured objects.
    stop: Option<(u64, Stop)>,
    puts: AtomicU64,
    /// Deletions that do nothing.
    keep: bool,
}

impl Wrong {
    fn around(store: Arc<dyn ObjectStore>) -> Wrong {
        Wrong {
            store,
            flip_range_every: 0,
            gets: AtomicU64::new(0),
            stop: None,
            puts: AtomicU64::new(0),
            keep: false,
        }
    }
}

impl ObjectStore for Wrong {
    fn url(&self) -> &str {
        self.store.url()
    }

    fn get_range<'a>(&'a self, key: &'a str, range: Range<u64>) -> BoxFuture<'a, Result<Bytes, StoreError>> {
        async move {
            let found = self.store.get_range(key, range).await?;
            let measured = key.contains("/big/");
            let count = self.gets.fetch_add(u64::from(measured), Relaxed) + 1;
            if measured && self.flip_range_every > 0 && count.is_multiple_of(self.flip_range_every) {
                let mut flipped = found.to_vec();
                flipped[0] ^= 1;
                return Ok(Bytes::from(flipped));
            }
            Ok(found)
        }
        .boxed()
    }

    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Bytes, StoreError>> {
        self.store.get(key)
    }

    fn put_body<'a>(&'a self, key: &'a str, body: Body) -> BoxFuture<'a, Result<(), StoreError>> {
        let count = self.puts.fetch_add(u64::from(key.contains("/big/")), Relaxed) + 1;
        if let Some((after, stop)) = &self.stop
            && key.contains("/big/")
            && count == *after
        {
            stop.ask();
        }
        self.store.put_body(key, body)
    }

    fn put_if_absent<'a>(&'a self, key: &'a str, body: Bytes) -> BoxFuture<'a, Result<(), StoreError>> {
        self.store.put_if_absent(key, body)
    }

    fn head<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<ObjectMeta, StoreError>> {
        self.store.head(key)
    }

    fn delete<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        if self.keep { async { Ok(()) }.boxed() } else { self.store.delete(key) }
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxStream<'a, Result<ObjectMeta, StoreError>> {
        self.store.list(prefix)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_bytes_are_counted_and_said() {
    let (directory, store) = local();
    let wrong = Wrong { flip_range_every: 3, ..Wrong::around(store) };
    let report = run(Arc::new(wrong), true, small(), Stop::default(), |_| {}).await.unwrap();
    let ranges: Vec<_> =
        report.measurements.iter().filter(|row| row.operation == Operation::GetRange).collect();
    for row in &ranges {
        let error = row.errors.iter().find(|error| error.kind == "wrong_data").unwrap();
        assert!(error.count > 0 && error.example.contains("not the bytes that were written"), "{error:?}");
    }
    // Every third of all that were answered was wrong, and none of those counts as answered.
    let (right, wrong) = ranges.iter().fold((0, 0), |(r, w), row| (r + row.requests, w + row.failures()));
    assert_eq!(wrong, (right + wrong) / 3);
    assert!(
        report.problems().iter().any(|problem| problem.contains("something else")),
        "{:?}",
        report.problems()
    );
    assert!(report.text(false).contains("wrong_data"));
    assert_eq!(entries(&directory), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_run_leaves_nothing_and_says_that_it_was_stopped() {
    let (directory, store) = local();
    let stop = Stop::default();
    // However slow the disk is, the time is not over before the fourth object.
    let options = Options { time: Duration::from_secs(600), ..small() };
    let store = Wrong { stop: Some((4, stop.clone())), ..Wrong::around(store) };
    let report = run(Arc::new(store), true, options, stop, |_| {}).await.unwrap();
    assert!(report.interrupted && report.measurements.len() == 1, "{:?}", report.measurements);
    assert!(report.text(false).contains("Stopped early"));
    assert!(report.figure().svg().is_ok());
    assert!(report.cleanup.deleted >= 4);
    assert_eq!(entries(&directory), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_that_cannot_be_removed_are_named() {
    let (directory, store) = local();
    let store = Wrong { keep: true, ..Wrong::around(store) };
    let report = run(Arc::new(store), true, small(), Stop::default(), |_| {}).await.unwrap();
    assert!(report.cleanup.left > 0 && entries(&directory) > 0);
    let problems = report.problems().join("\n");
    assert!(problems.contains(&format!("/{}", report.cleanup.prefix)), "{problems}");
    assert!(problems.contains("are seen at once"), "{problems}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_needs_too_much_memory_is_left_out_and_said() {
    let (_directory, store) = local();
    let options = Options { memory: 1 << 20, ..small() };
    let report = run(store, true, options, Stop::default(), |_| {}).await.unwrap();
    let left_out: Vec<_> = report.measurements.iter().filter(|row| row.left_out.is_some()).collect();
    assert_eq!(left_out.len(), 1, "seven whole objects of 300 KB are too much, the rest is not");
    assert_eq!((left_out[0].operation, left_out[0].concurrency), (Operation::Get, 7));
    assert!(
        report.text(false).contains("Not measured: get of 293 KiB, 7 at a time: needs 2 MiB"),
        "{}",
        report.text(false)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_not_there_is_an_error() {
    let (directory, store) = local();
    drop(directory);
    let error = run(store, true, small(), Stop::default(), |_| {}).await.unwrap_err();
    assert!(matches!(error, ObjbenchError::Store(_)), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_server_is_measured() {
    let server = headrace_testbed::S3Server::start();
    let text = |text: std::ffi::OsString| text.into_string().unwrap();
    let environment: headrace_store::Environment =
        server.client_env().into_iter().map(|(name, value)| (text(name), text(value))).collect();
    let location = format!("s3://{}/some/where", server.bucket()).parse().unwrap();
    let store = headrace_store::open_with_environment(
        &location,
        &headrace_store::StoreOptions::default(),
        &environment,
    )
    .unwrap();
    let report = run(store.clone(), false, small(), Stop::default(), |_| {}).await.unwrap();
    assert_eq!(report.problems(), Vec::<String>::new());
    assert!(report.measurements.iter().all(|row| row.requests > 0 && row.errors.is_empty()));
    assert!(!report.text(true).contains(headrace_testbed::s3::SECRET_KEY));
    // Not the directory: the server keeps things of its own there.
    let left: Vec<_> = futures::StreamExt::collect(store.list("")).await;
    assert!(left.is_empty(), "{left:?}");
}
