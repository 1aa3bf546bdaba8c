//! Requests that wait, and what a signal to the waiting process does to them.

use std::collections::{HashMap, VecDeque};
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::future::AbortHandle;
use parking_lot::Mutex;
use zerocopy::IntoBytes as _;

use super::{Shared, Transport, signals};
use crate::abi::OutHeader;

const SHARDS: usize = 16;
/// How often to look again at a process that has had a signal it may live through: the kernel tells us of its first
/// signal only.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Interrupts that may have come before their requests, as many as are remembered.
const EARLY: usize = 256;

/// A request that waits on the runtime and may be given up.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    /// The thread that waits for the answer; 0 if unknown.
    pub tid: u32,
    /// Gives the request up.
    pub abort: AbortHandle,
}

/// What a worker is at: `current` while it is in the handler of that request.
#[derive(Debug, Default)]
struct Slot {
    current: AtomicU64,
    interrupted: AtomicU64,
}

/// All requests of a mount that may be interrupted.
///
/// Only requests that left their worker are entered in a map: the others finish by themselves, and must not pay.
pub(crate) struct Interrupts {
    shards: [Mutex<HashMap<u64, Waiting>>; SHARDS],
    slots: Box<[Slot]>,
    transports: Vec<Arc<dyn Transport>>,
    /// Interrupts of requests that nobody has begun with, the latest ones: those that come by a ring the kernel does not interrupt again.
    early: Mutex<VecDeque<u64>>,
    any_early: AtomicBool,
    /// When [`Interrupts::sweep`] last looked.
    swept: Mutex<Option<Instant>>,
}

impl Interrupts {
    pub fn new(transports: Vec<Arc<dyn Transport>>) -> Self {
        let slots = transports.iter().map(|_| Slot::default()).collect();
        Interrupts {
            shards: Default::default(),
            slots,
            transports,
            early: Mutex::default(),
            any_early: AtomicBool::new(false),
            swept: Mutex::new(None),
        }
    }

    fn shard(&self, unique: u64) -> &Mutex<HashMap<u64, Waiting>> {
        // The kernel counts requests in steps of two.
        &self.shards[(unique / 2) as usize % SHARDS]
    }

    /// Worker `index` begins with a request.
    pub fn begin(&self, index: usize, unique: u64) {
        if let Some(slot) = self.slots.get(index) {
            slot.current.store(unique, Ordering::SeqCst);
            if self.any_early.load(Ordering::SeqCst) && self.was_early(unique) {
                slot.interrupted.store(unique, Ordering::Release);
            }
        }
    }

    fn was_early(&self, unique: u64) -> bool {
        let mut early = self.early.lock();
        let found = early.iter().position(|one| *one == unique);
        found.map(|at| early.remove(at));
        self.any_early.store(!early.is_empty(), Ordering::SeqCst);
        found.is_some()
    }

    /// Worker `index` is done with its request, or the request has moved to the runtime.
    pub fn end(&self, index: usize) {
        if let Some(slot) = self.slots.get(index) {
            slot.current.store(0, Ordering::Release);
        }
    }

    /// Enters a request that worker `index` hands to the runtime. Answers whether it was interrupted already.
    pub fn enter(&self, index: usize, unique: u64, waiting: Waiting) -> bool {
        let mut shard = self.shard(unique).lock();
        shard.insert(unique, waiting);
        self.slots.get(index).is_some_and(|slot| slot.interrupted.load(Ordering::Acquire) == unique)
    }

    /// A request has been answered.
    pub fn leave(&self, unique: u64) {
        self.shard(unique).lock().remove(&unique);
    }

    fn waiting(&self, unique: u64) -> Option<Waiting> {
        self.shard(unique).lock().get(&unique).cloned()
    }

    /// Gives up everything that may be given up.
    pub fn cancel_all(&self) {
        for shard in &self.shards {
            for waiting in shard.lock().values() {
                waiting.abort.abort();
            }
        }
    }

    /// Gives up requests of processes that are dying. For times when nobody reads INTERRUPTs; may be called by many, often.
    pub fn sweep(&self) {
        let Some(mut swept) = self.swept.try_lock() else { return };
        if swept.is_some_and(|at| at.elapsed() < LOOK_AGAIN) {
            return;
        }
        let waiting: Vec<Waiting> =
            self.shards.iter().flat_map(|shard| shard.lock().values().cloned().collect::<Vec<_>>()).collect();
        for waiting in waiting {
            if signals::dying(waiting.tid) == Some(true) {
                waiting.abort.abort();
            }
        }
        *swept = Some(Instant::now());
    }

    /// An INTERRUPT for request `unique` came.
    pub fn interrupt(&self, shared: &Arc<Shared>, unique: u64) {
        let waiting = {
            let shard = self.shard(unique).lock();
            let waiting = shard.get(&unique).cloned();
            if waiting.is_none() {
                // In the handler of another worker: if it turns out to wait, `enter` will tell. Under the lock, so
                // that it cannot be entered between our looking there and here.
                if self.mark_current(unique) {
                    return;
                }
            }
            waiting
        };
        match waiting {
            Some(waiting) => give_up_if_dying(shared, unique, &waiting),
            None => {
                self.ask_again(unique);
                if let Some(waiting) = self.waiting(unique) {
                    give_up_if_dying(shared, unique, &waiting);
                }
            }
        }
    }

    /// Whether a worker is in the handler of it, who then finds that it was interrupted.
    fn mark_current(&self, unique: u64) -> bool {
        let current = self.slots.iter().find(|slot| slot.current.load(Ordering::SeqCst) == unique);
        current.map(|slot| slot.interrupted.store(unique, Ordering::Release)).is_some()
    }

    /// The request is answered already, or another worker has read it and not begun. EAGAIN makes the kernel send
    /// the INTERRUPT again in the second case; in the first it knows nothing of the request and does nothing. Nor does it know, of the
    /// device, what came by a ring: whoever begins with that later finds it among the early ones.
    fn ask_again(&self, unique: u64) {
        let header =
            OutHeader { len: size_of::<OutHeader>() as u32, error: -libc::EAGAIN, unique: unique | 1 };
        // Only the connection that the request came by will do, and we do not know it.
        for transport in &self.transports {
            if transport.send(&[IoSlice::new(header.as_bytes())]).is_ok() {
                return;
            }
        }
        {
            let mut early = self.early.lock();
            if early.len() >= EARLY {
                early.pop_front();
            }
            early.push_back(unique);
            self.any_early.store(true, Ordering::SeqCst);
        }
        // Begun between our looking and now: one of us sees the other. If it waits by now, the caller sees that.
        self.mark_current(unique);
    }
}

/// Gives a request up if the process that waits for it is dying, now or later.
pub(crate) fn give_up_if_dying(shared: &Arc<Shared>, unique: u64, waiting: &Waiting) {
    if signals::dying(waiting.tid).unwrap_or(true) {
        waiting.abort.abort();
        return;
    }
    let shared = Arc::clone(shared);
    let runtime = shared.runtime.clone();
    runtime.spawn(async move {
        loop {
            tokio::time::sleep(LOOK_AGAIN).await;
            let Some(waiting) = shared.interrupts.waiting(unique) else { return };
            if signals::dying(waiting.tid).unwrap_or(true) {
                waiting.abort.abort();
                return;
            }
        }
    });
}
