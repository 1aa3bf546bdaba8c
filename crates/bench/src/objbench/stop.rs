//! Ending a run early.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use tokio::sync::Notify;

/// A wish to end a run; all clones are the same. The first one ends the measuring, and what was written is removed; a second one ends
/// that too.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<State>);

#[derive(Debug, Default)]
struct State {
    asked: AtomicUsize,
    changed: Notify,
}

impl Stop {
    /// Asks, or asks again.
    pub fn ask(&self) {
        self.0.asked.fetch_add(1, SeqCst);
        self.0.changed.notify_waiters();
    }

    /// Whether it was asked for.
    pub fn asked(&self) -> bool {
        self.0.asked.load(SeqCst) > 0
    }

    /// Whether it was asked for more than once.
    pub fn insisted(&self) -> bool {
        self.0.asked.load(SeqCst) > 1
    }

    /// Resolves when it has been asked for `times` times.
    pub(super) async fn reached(&self, times: usize) {
        loop {
            let changed = self.0.changed.notified();
            let mut changed = std::pin::pin!(changed);
            // Listens before it looks, so that nothing is missed between.
            changed.as_mut().enable();
            if self.0.asked.load(SeqCst) >= times {
                return;
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn asking_twice_is_insisting() {
        let stop = Stop::default();
        assert!(!stop.asked() && stop.reached(1).now_or_never().is_none());
        let waiting = tokio::spawn({
            let stop = stop.clone();
            async move { stop.reached(2).await }
        });
        stop.ask();
        assert!(stop.asked() && !stop.insisted());
        stop.reached(1).await;
        stop.ask();
        assert!(stop.insisted());
        waiting.await.unwrap();
    }
}
