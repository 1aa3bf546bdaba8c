//! A pool of memory with people waiting for it: [`headrace_flow::admission`] driven by tasks.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use headrace_flow::admission::{Admit, Budget, Ticket};
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use crate::keeper::Keeper;
use crate::memory::Pool;

/// Bytes of one pool.
pub(crate) struct Admission {
    inner: Mutex<Inner>,
    /// Told when somebody has to wait: time to flush.
    pub(crate) pressure: Notify,
    /// Told what is free.
    keeper: OnceLock<Arc<dyn Keeper>>,
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
        Arc::new(Admission { inner: Mutex::new(inner), pressure: Notify::new(), keeper: OnceLock::new() })
    }

    /// What is free may be filled with buffers that are kept for later. Only the first one to ask is told.
    pub(crate) fn keep(&self, keeper: Arc<dyn Keeper>) {
        self.keeper.get_or_init(|| keeper);
        self.change(|_| ());
    }

    /// Every change of the budget: who keeps buffers in what is free is told of it, and has made room when this returns.
    fn change<T>(&self, how: impl FnOnce(&mut Inner) -> T) -> T {
        let mut inner = self.inner.lock();
        let answer = how(&mut inner);
        if let Some(keeper) = self.keeper.get() {
            keeper.allow(inner.budget.free());
            drop(inner);
            keeper.shrink();
        }
        answer
    }

    /// Waits for `bytes` of the budget. Dropping the future takes the request back.
    pub(crate) async fn acquire(self: &Arc<Self>, bytes: u64) -> Charge {
        let queued = self.change(|inner| match inner.budget.request(bytes) {
            Admit::Granted => None,
            Admit::Queued(ticket) => {
                let (sender, receiver) = oneshot::channel();
                inner.waiting.insert(ticket, sender);
                Some((receiver, Waiter { admission: Arc::clone(self), ticket, bytes, done: false }))
            }
        });
        let Some((receiver, waiter)) = queued else {
            return Charge { admission: Arc::clone(self), bytes };
        };
        self.pressure.notify_one();
        // The sender is only dropped after it was used.
        let _ = receiver.await;
        waiter.finish()
    }

    pub(crate) fn release(&self, bytes: u64) {
        if bytes > 0 {
            self.change(|inner| {
                let granted = inner.budget.release(bytes);
                inner.wake(granted);
            });
        }
    }

    /// Adds bytes that cannot be refused any more (block rounding after a write was admitted).
    pub(crate) fn force(&self, bytes: u64) {
        if bytes > 0 {
            self.change(|inner| inner.budget.force(bytes));
        }
    }

    /// Somebody who holds `before` bytes holds `after` now; more cannot be refused.
    pub(crate) fn adjust(&self, before: u64, after: u64) {
        self.force(after.saturating_sub(before));
        self.release(before.saturating_sub(after));
    }

    /// Does without `bytes`, which another pool uses, from now on. More than before is lent only if nobody uses or waits for it. What
    /// is lent then.
    pub(crate) fn lend(&self, bytes: u64) -> u64 {
        self.change(|inner| {
            let granted = inner.budget.lend(bytes);
            inner.wake(granted);
            inner.budget.lent()
        })
    }

    /// Whether nothing is used and nobody waits.
    pub(crate) fn is_idle(&self) -> bool {
        let inner = self.inner.lock();
        inner.budget.used() == 0 && inner.budget.waiting() == 0
    }

    /// Figures of this moment.
    pub(crate) fn pool(&self) -> Pool {
        let inner = self.inner.lock();
        Pool {
            used: inner.budget.used(),
            limit: inner.budget.limit(),
            waiting: inner.budget.waiting() as u64,
        }
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
        self.admission.change(|inner| {
            inner.waiting.remove(&self.ticket);
            let granted = match inner.budget.cancel(self.ticket) {
                Some(granted) => granted,
                None => inner.budget.release(self.bytes),
            };
            inner.wake(granted);
        });
    }
}

/// Bytes of the budget, given back on drop.
pub(crate) struct Charge {
    admission: Arc<Admission>,
    bytes: u64,
}

impl Charge {
    /// `data` with its charge: given back when nothing refers to the memory of `data` any more, be it by a small slice.
    pub(crate) fn attach(self, data: Bytes) -> Bytes {
        Bytes::from_owner(Charged { data, _charge: self })
    }
}

/// Its place is free before its memory is given back, which may be kept there.
struct Charged {
    _charge: Charge,
    data: Bytes,
}

impl AsRef<[u8]> for Charged {
    fn as_ref(&self) -> &[u8] {
        &self.data
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
        let first = admission.acquire(90).await;
        let mut gives_up = Box::pin(admission.acquire(50));
        assert!((&mut gives_up).now_or_never().is_none());
        let mut waits = Box::pin(admission.acquire(5));
        assert!((&mut waits).now_or_never().is_none(), "stands behind the first");
        drop(gives_up);
        drop(waits.await);
        assert_eq!((admission.used(), admission.waiting()), (90, 0));
        drop(first);
        assert_eq!(admission.used(), 0);
    }

    #[tokio::test]
    async fn a_slice_keeps_the_charge_of_the_memory_it_is_in() {
        let admission = Admission::new(100);
        let data = admission.acquire(90).await.attach(Bytes::from(vec![7; 90]));
        let slice = data.slice(40..41);
        drop(data);
        assert_eq!(admission.used(), 90);
        drop(slice);
        assert_eq!(admission.used(), 0);
    }

    #[tokio::test]
    async fn a_grant_that_nobody_takes_is_given_back() {
        let admission = Admission::new(10);
        let first = admission.acquire(10).await;
        let mut waiter = Box::pin(admission.acquire(10));
        assert!((&mut waiter).now_or_never().is_none());
        drop(first);
        drop(waiter);
        assert_eq!(admission.used(), 0);
    }
}
