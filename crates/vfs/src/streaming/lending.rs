//! Reads use the memory of writes while nobody writes: [`headrace_flow::lending`] driven by a task.

use std::sync::Weak;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use headrace_flow::lending::{Lending, Terms};
use tokio::sync::Notify;

use crate::clock::Clock;
use crate::vfs::Vfs;

/// How often it is looked at, while anybody reads.
const LOOK: Duration = Duration::from_millis(100);

/// Wakes the task that lends.
#[derive(Debug, Default)]
pub(crate) struct Lender {
    /// Somebody reads, so that the task looks by itself.
    awake: AtomicBool,
    /// Something is lent.
    lent: AtomicBool,
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
        if self.lent.load(Ordering::Relaxed) {
            self.wake.notify_one();
        }
    }
}

/// Runs until the file system is gone or stopped.
pub(crate) async fn keep(vfs: Weak<Vfs>) {
    let Some(plan) = vfs.upgrade().map(|vfs| vfs.plan) else { return };
    let clock = Clock::new();
    let mut lending = Lending::new(plan.streams, plan.lendable);
    let mut was_idle = false;
    loop {
        let Some(lender) = vfs.upgrade().map(|vfs| std::sync::Arc::clone(&vfs.lender)) else { return };
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
        let (wanted, held) = vfs.fetcher.use_of_memory();
        let before = lending.lent();
        let mut terms = lending.settle(clock.now(), vfs.admission.is_idle(), wanted, held);
        if terms.lent > before {
            // A write may have come meanwhile.
            if vfs.admission.lend(terms.lent) < terms.lent {
                terms = lending.settle(clock.now(), false, wanted, held);
                vfs.admission.lend(terms.lent);
            }
            vfs.fetcher.set_memory(terms.limit);
        } else if terms.limit < plan.streams + plan.lendable && before > 0 {
            vfs.fetcher.set_memory(terms.limit);
            let Terms { lent, .. } =
                lending.settle(clock.now(), false, wanted, vfs.fetcher.use_of_memory().1);
            vfs.admission.lend(lent);
        }
        lender.lent.store(lending.lent() > 0, Ordering::Relaxed);
        // Not at once: who reads here and there would wake it each time.
        let idle = !wanted && lending.lent() == 0;
        if idle && was_idle {
            lender.awake.store(false, Ordering::Relaxed);
        }
        was_idle = idle;
    }
}
