//! How fast files are fetched for later, and how far that is.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};

use headrace_vfs::Pace;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::bucket::TokenBucket;

/// The pace of all files of a request together.
#[derive(Debug)]
pub struct Pacing {
    began: Instant,
    /// `None`: as fast as it goes.
    bucket: Option<Mutex<TokenBucket>>,
    bytes: AtomicU64,
}

impl Pacing {
    /// Lets `rate` bytes a second pass, from now on.
    pub fn new(rate: Option<u64>) -> Pacing {
        let began = Instant::now();
        let bucket = rate.map(|rate| Mutex::new(TokenBucket::new(rate, began.elapsed())));
        Pacing { began, bucket, bytes: AtomicU64::new(0) }
    }

    /// Bytes that were dealt with.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

impl Pace for Pacing {
    fn take(&self, bytes: u64) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            let Some(bucket) = &self.bucket else { return };
            let wait = bucket.lock().take(self.began.elapsed(), bytes);
            if !wait.is_zero() {
                tokio::time::sleep(wait).await;
            }
        })
    }

    fn done(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn fetches_wait_for_their_turn_and_progress_adds_up() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let pacing = Pacing::new(Some(1 << 20));
            let before = Instant::now();
            pacing.take(100 << 10).await;
            assert!(before.elapsed() >= Duration::from_millis(90));
            let free = Pacing::new(None);
            // Would not end while anybody waits.
            free.take(u64::MAX).await;
            free.done(5);
            free.done(7);
            assert_eq!(free.bytes(), 12);
        });
    }
}
