//! The write budget with people waiting at it: [`headrace_flow::admission`] driven by tasks.

use std::collections::HashMap;
use std::sync::Arc;

use headrace_flow::admission::{Admit, Budget, Ticket};
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

/// Bytes that writers may hold.
pub(crate) struct Admission {
    inner: Mutex<Inner>,
    /// Told when somebody has to wait: time to flush.
    pub(crate) pressure: Notify,
}

struct Inner {
    budget: Budget,
    waiting: HashMap<Ticket, oneshot::Sender<()>>,
}

impl Inner {
    fn wake(&mut self, granted: Vec<Ticket>) {
        for ticket in granted {
            if let Some(sender) = self.waiting.remove(&ticket) {
                // A waiter that went away meanwhile gives its bytes back when its `Waiter` is dropped.
                let _ = sender.send(());
            }
        }
    }
}

impl Admission {
    pub(crate) fn new(limit: u64) -> Arc<Self> {
        let inner = Inner { budget: Budget::new(limit), waiting: HashMap::new() };
        Arc::new(Admission { inner: Mutex::new(inner), pressure: Notify::new() })
    }

    /// Waits for `bytes` of the budget. Dropping the future takes the request back.
    pub(crate) async fn acquire(self: &Arc<Self>, bytes: u64) -> Charge {
        let (receiver, waiter) = {
            let mut inner = self.inner.lock();
            match inner.budget.request(bytes) {
                Admit::Granted => return Charge { admission: Arc::clone(self), bytes },
                Admit::Queued(ticket) => {
                    let (sender, receiver) = oneshot::channel();
                    inner.waiting.insert(ticket, sender);
                    (receiver, Waiter { admission: Arc::clone(self), ticket, bytes, done: false })
                }
            }
        };
        self.pressure.notify_one();
        // The sender is only dropped after it was used.
        let _ = receiver.await;
        waiter.finish()
    }

    pub(crate) fn release(&self, bytes: u64) {
        if bytes > 0 {
            let mut inner = self.inner.lock();
            let granted = inner.budget.release(bytes);
            inner.wake(granted);
        }
    }

    /// Adds bytes that cannot be refused any more (block rounding after a write was admitted).
    pub(crate) fn force(&self, bytes: u64) {
        self.inner.lock().budget.force(bytes);
    }

    pub(crate) fn used(&self) -> u64 {
        self.inner.lock().budget.used()
    }

    pub(crate) fn waiting(&self) -> usize {
        self.inner.lock().budget.waiting()
    }

    pub(crate) fn limit(&self) -> u64 {
        self.inner.lock().budget.limit()
    }
}

struct Waiter {
    admission: Arc<Admission>,
    ticket: Ticket,
    bytes: u64,
    done: bool,
}

impl Waiter {
    fn finish(mut self) -> Charge {
        self.done = true;
        Charge { admission: Arc::clone(&self.admission), bytes: self.bytes }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        let mut inner = self.admission.inner.lock();
        inner.waiting.remove(&self.ticket);
        let granted = match inner.budget.cancel(self.ticket) {
            Some(granted) => granted,
            None => inner.budget.release(self.bytes),
        };
        inner.wake(granted);
    }
}

/// Bytes of the budget, given back on drop.
pub(crate) struct Charge {
    admission: Arc<Admission>,
    bytes: u64,
}

impl Charge {
    /// Leaves `bytes` of the budget with the buffer that took the data; it gives them back by [`Admission::release`].
    pub(crate) fn keep(mut self, bytes: u64) {
        if bytes > self.bytes {
            self.admission.force(bytes - self.bytes);
            self.bytes = 0;
        } else {
            self.bytes -= bytes;
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.admission.release(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[tokio::test]
    async fn a_writer_waits_until_bytes_are_released_and_may_give_up() {
        let admission = Admission::new(100);
        admission.acquire(90).await.keep(90);
        let mut gives_up = Box::pin(admission.acquire(50));
        assert!((&mut gives_up).now_or_never().is_none());
        let mut waits = Box::pin(admission.acquire(5));
        assert!((&mut waits).now_or_never().is_none(), "stands behind the first");
        drop(gives_up);
        drop(waits.await);
        assert_eq!((admission.used(), admission.waiting()), (90, 0));
        admission.release(90);
        assert_eq!(admission.used(), 0);
    }

    #[tokio::test]
    async fn a_grant_that_nobody_takes_is_given_back() {
        let admission = Admission::new(10);
        admission.acquire(10).await.keep(10);
        let mut waiter = Box::pin(admission.acquire(10));
        assert!((&mut waiter).now_or_never().is_none());
        admission.release(10);
        drop(waiter);
        assert_eq!(admission.used(), 0);
    }
}
