//! What is sent, in numbers: below retries, the pages of a list, and what a request is asked to explain itself with.

use std::time::Duration;

use headrace_metrics::{Collection, Counter, Histogram, Unit};

use crate::error::ErrorKind;

/// The operations that requests are sent for.
const OPERATIONS: [&str; 5] = ["get", "put", "head", "delete", "list"];

/// What is counted of all that is sent to a store.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    operations: [Operation; OPERATIONS.len()],
}

#[derive(Debug, Default)]
struct Operation {
    begun: Counter,
    /// By what the attempt before failed with.
    retries: [Counter; ErrorKind::ALL.len()],
    first_byte: Histogram,
}

impl Attempts {
    /// A request is sent.
    pub(super) fn begin(&self, operation: &str) {
        self.with(operation, |operation| operation.begun.increment());
    }

    /// The head of its answer has come.
    pub(super) fn answered(&self, operation: &str, after: Duration) {
        self.with(operation, |operation| operation.first_byte.record(after));
    }

    /// There will be another attempt because one failed with `kind`.
    pub(super) fn retry(&self, operation: &str, kind: ErrorKind) {
        self.with(operation, |operation| {
            if let Some(retries) = operation.retries.get(kind as usize) {
                retries.increment();
            }
        });
    }

    fn with(&self, operation: &str, record: impl FnOnce(&Operation)) {
        let found = OPERATIONS.iter().zip(&self.operations).find(|(name, _)| **name == operation);
        if let Some((_, operation)) = found {
            record(operation);
        }
    }

    /// Adds what was counted.
    pub(super) fn collect(&self, into: &mut Collection) {
        let all = || OPERATIONS.into_iter().zip(&self.operations);
        let help =
            "HTTP requests sent, each attempt and each page of a list: what the store sees and charges for";
        let mut family = into.counters("headrace_store_http_requests_total", help, Unit::None);
        for (name, operation) in all() {
            family.counter(&[("operation", name)], operation.begun.get());
        }
        let help = "Attempts that were made because one before had failed, by why it had";
        let mut family = into.counters("headrace_store_retries_total", help, Unit::None);
        for (name, operation) in all() {
            for (kind, count) in ErrorKind::ALL.into_iter().zip(&operation.retries) {
                if count.get() > 0 {
                    family.counter(&[("operation", name), ("kind", kind.name())], count.get());
                }
            }
        }
        let help = "From when an HTTP request is sent until the head of its answer has come; of a write, after its body";
        let mut family = into.durations("headrace_store_first_byte_seconds", help);
        for (name, operation) in all() {
            family.histogram(&[("operation", name)], operation.first_byte.snapshot());
        }
    }
}

#[cfg(test)]
mod tests {
    use headrace_metrics::Snapshot;

    use super::*;

    #[test]
    fn attempts_and_their_reasons_are_told_apart() {
        let attempts = Attempts::default();
        attempts.begin("get");
        attempts.answered("get", Duration::from_millis(20));
        attempts.retry("get", ErrorKind::Throttled);
        attempts.begin("get");
        attempts.begin("of a kind that is not known");
        let mut collection = Collection::new();
        attempts.collect(&mut collection);
        let told = Snapshot::new(collection);
        assert_eq!(told.counter("headrace_store_http_requests_total", &[]), 2);
        let throttled = [("operation", "get"), ("kind", "throttled")];
        assert_eq!(told.counter("headrace_store_retries_total", &throttled), 1);
        assert_eq!(told.counter("headrace_store_retries_total", &[]), 1);
        assert_eq!(told.histogram("headrace_store_first_byte_seconds", &[("operation", "get")]).count(), 1);
    }
}
