//! The counters of one operation.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use headrace_metrics::{Counter, Histogram, HistogramSnapshot};
use serde::Serialize;

use crate::error::{ErrorKind, StoreError};
use crate::health::Tracker;

/// The counters of one operation. Attempts that were retried inside a store count as one request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct OperationStats {
    /// Begun.
    pub requests: u64,
    /// Not finished yet.
    pub in_flight: u64,
    /// Failed, other than with "not found" or "already exists", which are answers.
    pub errors: u64,
    /// Given up by the caller before the end.
    pub cancelled: u64,
    /// Bytes of bodies read or written with success.
    pub bytes: u64,
    /// Objects listed.
    pub objects: u64,
    /// Time from begin to end, summed, in microseconds; without those that were given up.
    pub micros: u64,
}

#[derive(Default)]
pub(super) struct Counters {
    requests: Counter,
    in_flight: AtomicU64,
    in_flight_bytes: AtomicU64,
    /// By kind; "not found" and "already exists" too, which are no errors.
    failures: [Counter; ErrorKind::ALL.len()],
    cancelled: Counter,
    bytes: Counter,
    objects: Counter,
    durations: Histogram,
}

impl Counters {
    /// A request that moves `bytes`, as far as that is known, begins.
    pub(super) fn begin(&self, bytes: u64) -> Request<'_> {
        self.requests.increment();
        self.in_flight.fetch_add(1, Relaxed);
        self.in_flight_bytes.fetch_add(bytes, Relaxed);
        Request { counters: self, began: Instant::now(), bytes, finished: false }
    }

    pub(super) fn snapshot(&self) -> OperationStats {
        OperationStats {
            requests: self.requests.get(),
            in_flight: self.in_flight.load(Relaxed),
            errors: self.errors().map(|(_, count)| count).sum(),
            cancelled: self.cancelled.get(),
            bytes: self.bytes.get(),
            objects: self.objects.get(),
            micros: self.durations().sum() / 1000,
        }
    }

    /// Failures that are errors, by kind.
    pub(super) fn errors(&self) -> impl Iterator<Item = (ErrorKind, u64)> {
        let kinds = ErrorKind::ALL.into_iter().zip(&self.failures);
        kinds.filter(|(kind, _)| is_error(*kind)).map(|(kind, count)| (kind, count.get()))
    }

    pub(super) fn in_flight_bytes(&self) -> u64 {
        self.in_flight_bytes.load(Relaxed)
    }

    pub(super) fn durations(&self) -> HistogramSnapshot {
        self.durations.snapshot()
    }
}

/// A request under way; leaves the count of those in flight however it ends.
pub(super) struct Request<'a> {
    counters: &'a Counters,
    began: Instant,
    bytes: u64,
    finished: bool,
}

impl Request<'_> {
    /// It has ended; `bytes` were moved if it was with success.
    pub(super) fn finish<T>(
        mut self,
        tracker: &Tracker,
        operation: &str,
        result: &Result<T, StoreError>,
        bytes: u64,
    ) {
        self.ended(result.as_ref().err());
        match result {
            Ok(_) => {
                self.counters.bytes.add(bytes);
                tracker.succeeded(operation);
            }
            Err(error) => tracker.failed(operation, error.kind, &error.detail),
        }
    }

    /// One more object was listed.
    pub(super) fn object(&self) {
        self.counters.objects.increment();
    }

    /// It has ended, with or without an error.
    pub(super) fn ended(&mut self, error: Option<&StoreError>) {
        self.finished = true;
        self.counters.durations.record(self.began.elapsed());
        if let Some(error) = error
            && let Some(count) = self.counters.failures.get(error.kind as usize)
        {
            count.increment();
        }
    }
}

impl Drop for Request<'_> {
    fn drop(&mut self) {
        self.counters.in_flight.fetch_sub(1, Relaxed);
        self.counters.in_flight_bytes.fetch_sub(self.bytes, Relaxed);
        if !self.finished {
            self.counters.cancelled.increment();
        }
    }
}

fn is_error(kind: ErrorKind) -> bool {
    !matches!(kind, ErrorKind::NotFound | ErrorKind::AlreadyExists)
}
