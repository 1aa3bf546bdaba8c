//! Counts, kept while requests pass.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::time::{ClockId, clock_gettime};

use super::lock;
use crate::{Counters, operation};

/// All counts of a proxy.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    requests: AtomicU64,
    faults: AtomicU64,
    counters: Mutex<Counters>,
}

/// What one connection has done since it last told the ledger.
#[derive(Debug)]
pub(super) struct Tally {
    /// The request under way, as S3 calls it.
    operation: &'static str,
    pub(super) head_sent: u64,
    pub(super) head_received: u64,
    pub(super) body_sent: u64,
    pub(super) body_received: u64,
    pub(super) status: Option<u16>,
    /// This thread's processor time that the ledger knows of, nanoseconds.
    cpu: u64,
}

impl Ledger {
    /// A request was read, and met a fault or not.
    pub(super) fn arrived(&self, method: &str, operation: &'static str, fault: bool) {
        self.requests.fetch_add(1, Ordering::SeqCst);
        self.faults.fetch_add(u64::from(fault), Ordering::SeqCst);
        let mut counters = lock(&self.counters);
        *counters.methods.entry(operation::method(method).to_owned()).or_default() += 1;
        counters.operations.entry(operation.to_owned()).or_default().requests += 1;
    }

    pub(super) fn connected(&self) {
        lock(&self.counters).connections += 1;
    }

    pub(super) fn requests(&self) -> u64 {
        self.requests.load(Ordering::SeqCst)
    }

    pub(super) fn faults(&self) -> u64 {
        self.faults.load(Ordering::SeqCst)
    }

    pub(super) fn counters(&self) -> Counters {
        let counters = lock(&self.counters).clone();
        Counters { requests: self.requests(), faults: self.faults(), ..counters }
    }
}

impl Tally {
    /// Of the calling thread, which alone may use it.
    pub(super) fn new() -> Tally {
        Tally {
            operation: "Other",
            head_sent: 0,
            head_received: 0,
            body_sent: 0,
            body_received: 0,
            status: None,
            cpu: 0,
        }
    }

    pub(super) fn begin(&mut self, operation: &'static str) {
        self.operation = operation;
    }

    /// Tells the ledger.
    pub(super) fn settle(&mut self, ledger: &Ledger) {
        let cpu = thread_cpu();
        let mut counters = lock(&ledger.counters);
        counters.cpu_nanos += cpu.saturating_sub(self.cpu);
        counters.bytes_sent += self.head_sent + self.body_sent;
        counters.bytes_received += self.head_received + self.body_received;
        if let Some(traffic) = counters.operations.get_mut(self.operation) {
            traffic.bytes_sent += self.body_sent;
            traffic.bytes_received += self.body_received;
        }
        if let Some(status) = self.status {
            *counters.statuses.entry(status).or_default() += 1;
        }
        *self = Tally { operation: self.operation, cpu, ..Tally::new() };
    }
}

/// Processor time of the calling thread, nanoseconds.
fn thread_cpu() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec).unwrap_or(0).saturating_mul(1_000_000_000)
        + u64::try_from(time.tv_nsec).unwrap_or(0)
}
