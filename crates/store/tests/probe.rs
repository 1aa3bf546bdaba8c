//! The probe in front of stores that lie. The stores are real; a thin layer spoils one promise.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use headrace_store::{Body, Capabilities, ErrorKind, LocalStore, ObjectMeta, ObjectStore, StoreError, probe};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lie {
    None,
    /// The condition of a put is ignored, and nobody is told.
    IgnoresCondition,
    /// It is looked at, but not atomically.
    ChecksThenWrites,
    /// Conditional puts are refused.
    RefusesCondition,
    /// The winner's body is not the one kept.
    LoserOverwrites,
    /// A range is answered with the beginning of the object.
    IgnoresRange,
    /// An overwritten object keeps its old body for a while.
    StaleAfterOverwrite,
    /// A deleted object can still be read.
    KeepsDeleted,
    /// A list leaves out an object.
    ShortList,
    /// A list shows an object twice.
    DoubleList,
    /// A list is in no order.
    UnorderedList,
    /// Large objects are cut.
    CutsLarge,
}

struct Liar {
    store: LocalStore,
    lie: Lie,
}

impl ObjectStore for Liar {
    fn url(&self) -> &str {
        self.store.url()
    }

    fn get_range<'a>(&'a self, key: &'a str, range: Range<u64>) -> BoxFuture<'a, Result<Bytes, StoreError>> {
        match self.lie {
            Lie::IgnoresRange => self.store.get_range(key, 0..range.end - range.start),
            _ => self.store.get_range(key, range),
        }
    }

    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Bytes, StoreError>> {
        self.store.get(key)
    }

    fn put_body<'a>(&'a self, key: &'a str, body: Body) -> BoxFuture<'a, Result<(), StoreError>> {
        async move {
            match self.lie {
                Lie::StaleAfterOverwrite if self.store.head(key).await.is_ok() => Ok(()),
                Lie::CutsLarge if body.len() > 5 << 20 => {
                    self.store.put(key, body.to_bytes().slice(..5 << 20)).await
                }
                _ => self.store.put_body(key, body).await,
            }
        }
        .boxed()
    }

    fn put_if_absent<'a>(&'a self, key: &'a str, body: Bytes) -> BoxFuture<'a, Result<(), StoreError>> {
        async move {
            match self.lie {
                Lie::IgnoresCondition => self.store.put(key, body).await,
                Lie::ChecksThenWrites => {
                    if self.store.head(key).await.is_ok() {
                        return self.store.put_if_absent(key, body).await;
                    }
                    tokio::task::yield_now().await;
                    self.store.put(key, body).await
                }
                Lie::RefusesCondition => Err(StoreError {
                    kind: ErrorKind::Unsupported,
                    operation: "put",
                    target: key.to_owned(),
                    detail: "no conditions here".to_owned(),
                }),
                Lie::LoserOverwrites => {
                    let result = self.store.put_if_absent(key, body.clone()).await;
                    if result.is_err() {
                        self.store.put(key, body).await?;
                    }
                    result
                }
                _ => self.store.put_if_absent(key, body).await,
            }
        }
        .boxed()
    }

    fn head<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<ObjectMeta, StoreError>> {
        self.store.head(key)
    }

    fn delete<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        match self.lie {
            Lie::KeepsDeleted => async { Ok(()) }.boxed(),
            _ => self.store.delete(key),
        }
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxStream<'a, Result<ObjectMeta, StoreError>> {
        async move {
            let mut objects: Vec<_> = self.store.list(prefix).collect().await;
            objects
                .sort_by_key(|object| object.as_ref().map(|object| object.key.clone()).unwrap_or_default());
            match self.lie {
                Lie::ShortList => drop(objects.pop()),
                Lie::DoubleList => objects.extend(objects.last().cloned()),
                Lie::UnorderedList => objects.reverse(),
                _ => {}
            }
            futures::stream::iter(objects)
        }
        .flatten_stream()
        .boxed()
    }
}

async fn found(lie: Lie) -> Capabilities {
    let directory = tempfile::tempdir().unwrap();
    let store: Arc<dyn ObjectStore> =
        Arc::new(Liar { store: LocalStore::open(directory.path()).unwrap(), lie });
    probe(&*store).await.unwrap_or_else(|error| panic!("{lie:?}: {error}"))
}

#[tokio::test]
async fn every_lie_is_found_out() {
    let honest = found(Lie::None).await;
    assert!(honest.conditional_put && honest.ordered_list, "{honest:?}");
    assert_eq!(honest.refuse(), None);
    for lie in [Lie::IgnoresCondition, Lie::ChecksThenWrites, Lie::RefusesCondition, Lie::LoserOverwrites] {
        let found = found(lie).await;
        assert!(!found.conditional_put, "{lie:?}");
        assert_eq!(
            Capabilities { conditional_put: true, ..found },
            honest,
            "{lie:?} must change nothing else"
        );
        assert_eq!(found.refuse(), None, "a weaker mode is for the volume to decide on");
    }
    let unordered = found(Lie::UnorderedList).await;
    assert_eq!((unordered.ordered_list, unordered.complete_list, unordered.refuse()), (false, true, None));
    for (lie, words) in [
        (Lie::IgnoresRange, "range"),
        (Lie::StaleAfterOverwrite, "does not see"),
        (Lie::KeepsDeleted, "deleted"),
        (Lie::ShortList, "a list"),
        (Lie::DoubleList, "a list"),
        (Lie::CutsLarge, "8 MiB"),
    ] {
        let reason = found(lie).await.refuse().unwrap_or_else(|| panic!("{lie:?} was not found out"));
        assert!(reason.contains("lose data") && reason.contains(words), "{lie:?}: {reason}");
    }
}

#[tokio::test]
async fn a_store_that_cannot_be_written_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let store = LocalStore::open(directory.path()).unwrap();
    drop(directory);
    let error = probe(&store).await.unwrap_err();
    assert!(error.to_string().starts_with("put "), "{error}");
}
