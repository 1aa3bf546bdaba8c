//! Wakes a [`Fetcher`] when time alone makes something due: a second attempt, a repetition.

use std::sync::{Arc, Weak};

use tokio::sync::Notify;

use super::{Fetcher, Origin};
use crate::clock::Clock;

/// Runs until the fetcher is stopped or gone. `rearmed` is told when there is something earlier, and at the end.
pub(super) async fn keep<O: Origin>(fetcher: Weak<Fetcher<O>>, rearmed: Arc<Notify>, clock: Clock) {
    loop {
        let armed = {
            let Some(fetcher) = fetcher.upgrade() else { return };
            let inner = fetcher.inner.lock();
            if inner.stopped {
                return;
            }
            inner.armed
        };
        let told = rearmed.notified();
        match armed {
            None => told.await,
            Some(at) => {
                if tokio::time::timeout_at(clock.instant(at).into(), told).await.is_ok() {
                    continue;
                }
                let Some(fetcher) = fetcher.upgrade() else { return };
                fetcher.event(
                    |inner, now| {
                        inner.armed = None;
                        inner.reads.wake(now);
                    },
                    None,
                );
            }
        }
    }
}
