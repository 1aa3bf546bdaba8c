//! A store that breaks at a chosen request.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use headrace_store::{Body, ErrorKind, ObjectMeta, ObjectStore, StoreError};
use parking_lot::Mutex;

/// When the n-th change comes (put or delete, from 0) ...
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// ... power fails just before it takes effect.
    CrashBefore(u64),
    /// ... power fails just after it took effect, before the answer.
    CrashAfter(u64),
    /// ... it fails, once.
    Refuse(u64),
    /// ... it takes effect, once, but the answer is a failure.
    LoseAnswer(u64),
}

/// Wraps a real store. A "crash" copies the metadata's directory as it is on disk at that moment, then every request fails.
pub struct Faulty {
    inner: Arc<dyn ObjectStore>,
    fault: Mutex<Option<Fault>>,
    /// Only changes of keys that begin so count.
    prefix: Mutex<String>,
    changes: AtomicU64,
    dead: AtomicBool,
    /// What to copy, and where to.
    image: Option<(PathBuf, PathBuf)>,
}

impl Faulty {
    pub fn new(inner: Arc<dyn ObjectStore>, image: Option<(PathBuf, PathBuf)>) -> Arc<Faulty> {
        Arc::new(Faulty {
            inner,
            fault: Mutex::new(None),
            prefix: Mutex::new(String::new()),
            changes: AtomicU64::new(0),
            dead: AtomicBool::new(false),
            image,
        })
    }

    /// Counts changes from 0 again and breaks as told.
    pub fn arm(&self, fault: Fault) {
        self.arm_below("", fault);
    }

    /// The same, for changes of keys that begin with `prefix`.
    pub fn arm_below(&self, prefix: &str, fault: Fault) {
        *self.prefix.lock() = prefix.to_owned();
        self.changes.store(0, Ordering::SeqCst);
        *self.fault.lock() = Some(fault);
    }

    pub fn disarm(&self) {
        *self.fault.lock() = None;
    }

    /// Whether the fault has happened.
    pub fn has_fired(&self) -> bool {
        self.dead.load(Ordering::SeqCst) || self.fault.lock().is_none()
    }

    fn crash(&self) {
        if let Some((from, to)) = &self.image {
            super::copy_tree(from, to);
        }
        self.dead.store(true, Ordering::SeqCst);
    }

    fn alive(&self) -> Result<(), StoreError> {
        if self.dead.load(Ordering::SeqCst) { Err(broken()) } else { Ok(()) }
    }

    async fn change<T>(
        &self,
        key: &str,
        effect: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.alive()?;
        if !key.starts_with(&*self.prefix.lock()) {
            return effect.await;
        }
        let number = self.changes.fetch_add(1, Ordering::SeqCst);
        let fault = *self.fault.lock();
        match fault {
            Some(Fault::CrashBefore(n)) if n == number => {
                self.crash();
                Err(broken())
            }
            Some(Fault::CrashAfter(n)) if n == number => {
                effect.await?;
                self.crash();
                Err(broken())
            }
            Some(Fault::Refuse(n)) if n == number => {
                self.disarm();
                Err(broken())
            }
            Some(Fault::LoseAnswer(n)) if n == number => {
                self.disarm();
                effect.await?;
                Err(broken())
            }
            _ => effect.await,
        }
    }
}

fn broken() -> StoreError {
    StoreError {
        kind: ErrorKind::Transient,
        operation: "request",
        target: "faulty".into(),
        detail: "injected failure".into(),
    }
}

impl ObjectStore for Faulty {
    fn url(&self) -> &str {
        self.inner.url()
    }

    fn get_range<'a>(&'a self, key: &'a str, range: Range<u64>) -> BoxFuture<'a, Result<Bytes, StoreError>> {
        Box::pin(async move {
            self.alive()?;
            self.inner.get_range(key, range).await
        })
    }

    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Bytes, StoreError>> {
        Box::pin(async move {
            self.alive()?;
            self.inner.get(key).await
        })
    }

    fn put_body<'a>(&'a self, key: &'a str, body: Body) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.change(key, self.inner.put_body(key, body)))
    }

    fn put_if_absent<'a>(&'a self, key: &'a str, body: Bytes) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.change(key, self.inner.put_if_absent(key, body)))
    }

    fn head<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<ObjectMeta, StoreError>> {
        Box::pin(async move {
            self.alive()?;
            self.inner.head(key).await
        })
    }

    fn delete<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.change(key, self.inner.delete(key)))
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxStream<'a, Result<ObjectMeta, StoreError>> {
        match self.alive() {
            Ok(()) => self.inner.list(prefix),
            Err(e) => Box::pin(futures::stream::iter([Err(e)])),
        }
    }
}
