//! A store that fails now and then, in front of a real one.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _};
use headrace_store::{Body, ErrorKind, ObjectMeta, ObjectStore, StoreError};

/// Faults of a hundred requests.
pub struct Faulty {
    inner: Arc<dyn ObjectStore>,
    state: AtomicU64,
    /// Requests of a hundred that fail, half of them after they took effect.
    pub failing: AtomicU32,
    /// Nothing is answered.
    pub gone: AtomicBool,
    /// Milliseconds that each request takes.
    pub delay_ms: AtomicU64,
    /// Puts beneath `log/` so far.
    pub log_puts: AtomicU64,
}

enum Fate {
    Fine,
    Refused,
    AnswerLost,
}

impl Faulty {
    pub fn new(inner: Arc<dyn ObjectStore>, seed: u64) -> Arc<Faulty> {
        Arc::new(Faulty {
            inner,
            state: AtomicU64::new(seed | 1),
            failing: AtomicU32::new(0),
            gone: AtomicBool::new(false),
            delay_ms: AtomicU64::new(0),
            log_puts: AtomicU64::new(0),
        })
    }

    async fn fate(&self) -> Fate {
        let delay = self.delay_ms.load(Ordering::Relaxed);
        if delay > 0 {
            tokio::time::sleep(Duration::from_millis(delay)).await;
        }
        if self.gone.load(Ordering::Relaxed) {
            return Fate::Refused;
        }
        let mut x = self.state.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let roll = ((x ^ (x >> 31)) % 100) as u32;
        match roll {
            roll if roll >= self.failing.load(Ordering::Relaxed) => Fate::Fine,
            roll if roll % 2 == 0 => Fate::Refused,
            _ => Fate::AnswerLost,
        }
    }

    async fn with<T>(
        &self,
        operation: &'static str,
        key: &str,
        request: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let failed = || {
            Err(StoreError {
                kind: ErrorKind::Transient,
                operation,
                target: key.to_owned(),
                detail: "injected".into(),
            })
        };
        match self.fate().await {
            Fate::Fine => request.await,
            Fate::Refused => failed(),
            Fate::AnswerLost => {
                let _ = request.await;
                failed()
            }
        }
    }
}

impl ObjectStore for Faulty {
    fn url(&self) -> &str {
        self.inner.url()
    }

    fn get_range<'a>(&'a self, key: &'a str, range: Range<u64>) -> BoxFuture<'a, Result<Bytes, StoreError>> {
        self.with("get", key, self.inner.get_range(key, range)).boxed()
    }

    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Bytes, StoreError>> {
        self.with("get", key, self.inner.get(key)).boxed()
    }

    fn put_body<'a>(&'a self, key: &'a str, body: Body) -> BoxFuture<'a, Result<(), StoreError>> {
        self.with("put", key, self.inner.put_body(key, body)).boxed()
    }

    fn put_if_absent<'a>(&'a self, key: &'a str, body: Bytes) -> BoxFuture<'a, Result<(), StoreError>> {
        if key.starts_with("log/") {
            self.log_puts.fetch_add(1, Ordering::Relaxed);
        }
        self.with("put", key, self.inner.put_if_absent(key, body)).boxed()
    }

    fn head<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<ObjectMeta, StoreError>> {
        self.with("head", key, self.inner.head(key)).boxed()
    }

    fn delete<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        self.with("delete", key, self.inner.delete(key)).boxed()
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxStream<'a, Result<ObjectMeta, StoreError>> {
        let listed = async move {
            match self.with("list", prefix, async { Ok(()) }).await {
                Ok(()) => self.inner.list(prefix),
                Err(error) => futures::stream::once(async { Err(error) }).boxed(),
            }
        };
        futures::stream::once(listed).flatten().boxed()
    }
}
