//! Reads, and what they fetched on its way to local disks, use the memory of writes while nobody writes: [`headrace_flow::lending`] driven
//! by a task, which also looks how busy the machine is while anybody reads.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use headrace_flow::lending::{Borrower, Lending, Terms};
use tokio::sync::Notify;

use super::processors::Processors;
use crate::clock::Clock;
use crate::vfs::Vfs;

/// How often it is looked at, while anybody reads.
const LOOK: Duration = Duration::from_millis(100);

/// Wakes the task that lends.
#[derive(Debug, Default)]
pub(crate) struct Lender {
    /// Somebody reads, so that the task looks by itself.
    awake: AtomicBool,
    /// Bytes lent to streams and to what waits for local disks.
    lent: [AtomicU64; 2],
    wake: Notify,
}

impl Lender {
    /// Somebody reads.
    pub(crate) fn read(&self) {
        if !self.awake.load(Ordering::Relaxed) && !self.awake.swap(true, Ordering::Relaxed) {
            self.wake.notify_one();
        }
    }

    /// The end has come.
    pub(crate) fn stop(&self) {
        self.wake.notify_one();
    }

    /// Somebody writes: what is lent is called back.
    pub(crate) fn written(&self) {
        if self.lent.iter().any(|lent| lent.load(Ordering::Relaxed) > 0) {
            self.wake.notify_one();
        }
    }

    /// Bytes that streams were lent.
    pub(crate) fn lent_to_streams(&self) -> u64 {
        self.lent[0].load(Ordering::Relaxed)
    }

    /// Bytes that what waits for local disks was lent.
    pub(crate) fn lent_to_cache(&self) -> u64 {
        self.lent[1].load(Ordering::Relaxed)
    }

    fn note(&self, terms: &Terms<2>) {
        for (lent, bytes) in self.lent.iter().zip(terms.lent) {
            lent.store(bytes, Ordering::Relaxed);
        }
    }
}

/// Runs until the file system is gone or stopped.
pub(crate) async fn keep(vfs: Weak<Vfs>) {
    let Some(plan) = vfs.upgrade().map(|vfs| vfs.plan) else { return };
    let clock = Clock::new();
    let streams = Borrower { own: plan.streams, most: plan.lent_to_streams };
    let cache = Borrower { own: plan.cache_queue, most: plan.lent_to_cache };
    let mut lending = Lending::new([streams, cache]);
    let (mut processors, mut was_idle) = (Processors::default(), false);
    loop {
        let Some(lender) = vfs.upgrade().map(|vfs| Arc::clone(&vfs.lender)) else { return };
        if lender.awake.load(Ordering::Relaxed) {
            let _ = tokio::time::timeout(LOOK, lender.wake.notified()).await;
        } else {
            lender.wake.notified().await;
        }
        let Some(vfs) = vfs.upgrade() else { return };
        if vfs.fetcher.is_stopped() {
            return;
        }
        vfs.segments.tidy(&vfs.fetcher);
        if let Some(idle) = processors.idle(clock.now()) {
            vfs.fetcher.processors(idle);
        }
        let wanted = vfs.fetcher.wants_memory();
        let before = lending.terms();
        let mut terms = lending.settle(clock.now(), vfs.admission.is_idle(), wanted, vfs.borrowed());
        if terms.all_lent() > before.all_lent() {
            // A write may have come meanwhile.
            if vfs.admission.lend(terms.all_lent()) < terms.all_lent() {
                terms = lending.settle(clock.now(), false, wanted, vfs.borrowed());
                vfs.admission.lend(terms.all_lent());
            }
            vfs.may_hold(&terms);
        } else if before.all_lent() > 0 && terms.limits == [streams.own, cache.own] {
            vfs.may_hold(&terms);
            terms = lending.settle(clock.now(), false, wanted, vfs.borrowed());
            vfs.admission.lend(terms.all_lent());
        }
        lender.note(&terms);
        // Not at once: who reads here and there would wake it each time.
        let idle = !wanted && terms.all_lent() == 0;
        if idle && was_idle {
            lender.awake.store(false, Ordering::Relaxed);
        }
        was_idle = idle;
    }
}

impl Vfs {
    /// What each borrower holds, bytes.
    fn borrowed(&self) -> [u64; 2] {
        let queued = self.cache.as_ref().map_or(0, |cache| cache.disk.queued());
        [self.fetcher.memory_held(), queued]
    }

    /// Each borrower may hold so much from now on.
    fn may_hold(&self, terms: &Terms<2>) {
        let [streams, queue] = terms.limits;
        self.fetcher.set_memory(streams);
        if let Some(cache) = &self.cache {
            cache.disk.set_queue(queue);
        }
    }
}
