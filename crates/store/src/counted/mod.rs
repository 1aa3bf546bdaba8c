//! Counts what goes through a store, for `status` and for metrics.

mod operation;
mod told;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use headrace_metrics::Collection;
use serde::Serialize;

pub use operation::OperationStats;

use crate::error::StoreError;
use crate::health::Tracker;
use crate::{Body, ObjectMeta, ObjectStore, Sink, Space, StoreHealth};
use operation::Counters;

/// A store with counters around it.
pub struct Counted {
    store: Arc<dyn ObjectStore>,
    /// What became of whole operations: all that is known of a store that does not say more.
    tracker: Tracker,
    get: Counters,
    put: Counters,
    put_if_absent: Counters,
    head: Counters,
    delete: Counters,
    list: Counters,
}

/// A snapshot of all counters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct StoreStats {
    /// `get` and `get_range`.
    pub get: OperationStats,
    /// `put`.
    pub put: OperationStats,
    /// `put_if_absent`.
    pub put_if_absent: OperationStats,
    /// `head`.
    pub head: OperationStats,
    /// `delete`.
    pub delete: OperationStats,
    /// `list`, from its first entry asked for to its end.
    pub list: OperationStats,
}

impl Counted {
    /// Counts what goes to `store`.
    pub fn new(store: Arc<dyn ObjectStore>) -> Counted {
        Counted {
            store,
            tracker: Tracker::default(),
            get: Counters::default(),
            put: Counters::default(),
            put_if_absent: Counters::default(),
            head: Counters::default(),
            delete: Counters::default(),
            list: Counters::default(),
        }
    }

    /// How the store has been doing.
    pub fn health(&self) -> StoreHealth {
        self.store.health().unwrap_or_else(|| self.tracker.snapshot(Duration::ZERO))
    }

    /// The counters now. Each is exact; together they may be a request apart.
    pub fn stats(&self) -> StoreStats {
        StoreStats {
            get: self.get.snapshot(),
            put: self.put.snapshot(),
            put_if_absent: self.put_if_absent.snapshot(),
            head: self.head.snapshot(),
            delete: self.delete.snapshot(),
            list: self.list.snapshot(),
        }
    }
}

async fn counted<T>(
    counters: &Counters,
    tracker: &Tracker,
    operation: &'static str,
    expected: u64,
    bytes: impl FnOnce(&T) -> u64,
    work: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let request = counters.begin(expected);
    let result = work.await;
    let moved = result.as_ref().map_or(0, bytes);
    request.finish(tracker, operation, &result, moved);
    result
}

fn length(body: &Bytes) -> u64 {
    body.len() as u64
}

impl ObjectStore for Counted {
    fn url(&self) -> &str {
        self.store.url()
    }

    fn get_range<'a>(&'a self, key: &'a str, range: Range<u64>) -> BoxFuture<'a, Result<Bytes, StoreError>> {
        let expected = range.end.saturating_sub(range.start);
        counted(&self.get, &self.tracker, "get", expected, length, self.store.get_range(key, range)).boxed()
    }

    fn get_range_to<'a>(
        &'a self,
        key: &'a str,
        range: Range<u64>,
        sink: &'a mut dyn Sink,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        let length = range.end.saturating_sub(range.start);
        let read = self.store.get_range_to(key, range, sink);
        counted(&self.get, &self.tracker, "get", length, move |()| length, read).boxed()
    }

    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Bytes, StoreError>> {
        counted(&self.get, &self.tracker, "get", 0, length, self.store.get(key)).boxed()
    }

    fn put_body<'a>(&'a self, key: &'a str, body: Body) -> BoxFuture<'a, Result<(), StoreError>> {
        let bytes = body.len() as u64;
        counted(&self.put, &self.tracker, "put", bytes, move |()| bytes, self.store.put_body(key, body))
            .boxed()
    }

    fn put_if_absent<'a>(&'a self, key: &'a str, body: Bytes) -> BoxFuture<'a, Result<(), StoreError>> {
        let bytes = length(&body);
        counted(
            &self.put_if_absent,
            &self.tracker,
            "put",
            bytes,
            move |()| bytes,
            self.store.put_if_absent(key, body),
        )
        .boxed()
    }

    fn head<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<ObjectMeta, StoreError>> {
        counted(&self.head, &self.tracker, "head", 0, |_| 0, self.store.head(key)).boxed()
    }

    fn delete<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        counted(&self.delete, &self.tracker, "delete", 0, |()| 0, self.store.delete(key)).boxed()
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxStream<'a, Result<ObjectMeta, StoreError>> {
        let list = async move { (self.list.begin(0), self.store.list(prefix)) };
        list.into_stream()
            .flat_map(|(request, objects)| {
                futures::stream::unfold(Some((request, objects)), async |list| {
                    let (mut request, mut objects) = list?;
                    match objects.next().await {
                        None => {
                            request.ended(None);
                            None
                        }
                        Some(Ok(object)) => {
                            request.object();
                            Some((Ok(object), Some((request, objects))))
                        }
                        Some(Err(error)) => {
                            request.ended(Some(&error));
                            Some((Err(error), None))
                        }
                    }
                })
            })
            .boxed()
    }

    fn space(&self) -> Option<Space> {
        self.store.space()
    }

    fn health(&self) -> Option<StoreHealth> {
        Some(Counted::health(self))
    }

    fn deadline(&self) -> Duration {
        self.store.deadline()
    }

    fn collect(&self, into: &mut Collection) {
        self.tell(into);
        self.store.collect(into);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LocalStore;

    #[tokio::test]
    async fn what_went_through_is_counted() {
        let directory = tempfile::tempdir().unwrap();
        let store = Counted::new(Arc::new(LocalStore::open(directory.path()).unwrap()));
        store.put("a", Bytes::from_static(b"12345")).await.unwrap();
        store.put_if_absent("a", Bytes::from_static(b"12")).await.unwrap_err();
        store.get_range("a", 1..3).await.unwrap();
        store.get("none").await.unwrap_err();
        store.get("../x").await.unwrap_err();
        drop(store.head("a"));
        let objects: Vec<_> = store.list("").collect().await;
        assert_eq!(objects.len(), 1);
        drop(store.list(""));
        let stats = store.stats();
        assert_eq!((stats.put.requests, stats.put.bytes, stats.put.errors), (1, 5, 0));
        assert_eq!(
            (stats.put_if_absent.requests, stats.put_if_absent.bytes, stats.put_if_absent.errors),
            (1, 0, 0)
        );
        assert_eq!((stats.get.requests, stats.get.bytes, stats.get.errors), (3, 2, 1));
        assert_eq!((stats.list.requests, stats.list.objects, stats.list.in_flight), (1, 1, 0));
        assert_eq!(stats.head.requests, 0);
        assert!(serde_json::to_string(&stats).unwrap().contains("\"in_flight\":0"));

        let mut collection = Collection::new();
        ObjectStore::collect(&store, &mut collection);
        let told = headrace_metrics::Snapshot::new(collection);
        assert_eq!(told.counter("headrace_store_requests_total", &[("operation", "get")]), 3);
        assert_eq!(told.counter("headrace_store_errors_total", &[]), 1, "what is not there is an answer");
        assert_eq!(told.counter("headrace_store_errors_total", &[("kind", "unsupported")]), 1);
        assert_eq!(told.counter("headrace_store_sent_bytes_total", &[]), 5);
        assert_eq!(told.counter("headrace_store_received_bytes_total", &[]), 2);
        assert_eq!(told.gauge("headrace_store_in_flight_requests", &[]), Some(0.0));
        let gets = told.histogram("headrace_store_request_duration_seconds", &[("operation", "get")]);
        assert_eq!(gets.count(), 3);
    }

    #[test]
    fn a_request_that_is_dropped_leaves_the_count() {
        let (counters, tracker) = (Counters::default(), Tracker::default());
        let mut work = counted(&counters, &tracker, "put", 7, |()| 0, std::future::pending()).boxed();
        assert!((&mut work).now_or_never().is_none());
        assert_eq!((counters.snapshot().in_flight, counters.in_flight_bytes()), (1, 7));
        drop(work);
        assert_eq!((counters.in_flight_bytes(), counters.durations().count()), (0, 0));
        assert_eq!((counters.snapshot().in_flight, counters.snapshot().cancelled), (0, 1));
    }
}
