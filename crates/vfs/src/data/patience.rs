//! How long a call waits for the store: until nothing has been stored for the store's deadline.

use std::future::Future;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::vfs::Vfs;

/// A call that waits.
pub(crate) struct Patience {
    what: &'static str,
    began: Instant,
}

impl Patience {
    /// Begins to wait.
    pub fn new(what: &'static str) -> Patience {
        Patience { what, began: Instant::now() }
    }
}

impl Vfs {
    /// Waits for `event`.
    ///
    /// # Errors
    /// [`Error::Late`] when nothing was stored for the store's deadline since the beginning of the wait.
    pub(crate) async fn in_time<T>(&self, patience: &Patience, event: impl Future<Output = T>) -> Result<T> {
        tokio::pin!(event);
        loop {
            let over = self.over(patience);
            match tokio::time::timeout_at(over.into(), &mut event).await {
                Ok(value) => return Ok(value),
                Err(_) if self.over(patience) <= Instant::now() => return Err(self.late(patience)),
                // Something was stored meanwhile.
                Err(_) => {}
            }
        }
    }

    /// When the wait is over, as it looks now.
    fn over(&self, patience: &Patience) -> Instant {
        let store = &self.volume.store;
        let moved = store.health().and_then(|health| health.writing.moved_ms_ago);
        let moved = moved.and_then(|ago| Instant::now().checked_sub(Duration::from_millis(ago)));
        let progress = self.outage.progressed().max(moved.unwrap_or(patience.began));
        patience.began.max(progress) + store.deadline()
    }

    fn late(&self, patience: &Patience) -> Error {
        let health = self.volume.store.health();
        let why = match self.outage.last() {
            Some(error) => error.to_string(),
            None => match health.and_then(|health| health.failing()?.last_error.clone()) {
                Some(error) => error,
                None => format!("{} does not answer in time", self.volume.store.url()),
            },
        };
        Error::Late { what: patience.what, seconds: patience.began.elapsed().as_secs_f32(), why }
    }
}
