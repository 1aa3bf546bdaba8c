//! Requests in numbers: how many, how long, how much, which errors.

use std::sync::OnceLock;
use std::time::Duration;

use headrace_metrics::{Collection, Counter, Histogram, Unit};

use crate::Errno;
use crate::abi::Opcode;

/// One more than the largest opcode.
const OPCODES: usize = {
    let (mut at, mut largest) = (0, 0);
    while at < Opcode::ALL.len() {
        let raw = Opcode::ALL[at] as usize;
        largest = if raw > largest { raw } else { largest };
        at += 1;
    }
    largest + 1
};

/// Error numbers counted one by one; those of Linux end at 133. What is beyond is counted together, as number 0.
const ERRNOS: usize = 134;

/// What is counted of all requests of a session. Nothing here waits or, but for the first error of an operation, allocates.
pub(crate) struct Counts {
    begun: Counter,
    /// By opcode.
    operations: Box<[Operation]>,
    read_bytes: Counter,
    written_bytes: Counter,
}

struct Operation {
    /// Of all that were answered, so it counts them as well.
    duration: Histogram,
    /// By error number.
    errors: OnceLock<Box<[Counter]>>,
}

impl Default for Counts {
    fn default() -> Self {
        let operation = || Operation { duration: Histogram::new(), errors: OnceLock::new() };
        Counts {
            begun: Counter::new(),
            operations: (0..OPCODES).map(|_| operation()).collect(),
            read_bytes: Counter::new(),
            written_bytes: Counter::new(),
        }
    }
}

impl std::fmt::Debug for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Counts").field("begun", &self.begun).finish_non_exhaustive()
    }
}

impl Counts {
    /// A request was read.
    #[inline]
    pub fn begin(&self) {
        self.begun.increment();
    }

    /// It has been answered.
    #[inline]
    pub fn end(&self, opcode: Opcode, duration: Duration, error: Option<Errno>, bytes: u64) {
        let Some(operation) = self.operations.get(opcode as usize) else { return };
        operation.duration.record(duration);
        if let Some(errno) = error {
            operation.failed(errno);
        }
        match opcode {
            Opcode::Read => self.read_bytes.add(bytes),
            Opcode::Write => self.written_bytes.add(bytes),
            _ => {}
        }
    }

    /// Adds what was counted. Operations that were never asked for are left out.
    pub fn collect(&self, into: &mut Collection) {
        let seen: Vec<_> = Opcode::ALL
            .iter()
            .filter_map(|opcode| Some((opcode.name(), self.operations.get(*opcode as usize)?)))
            .map(|(name, operation)| (name, operation, operation.duration.snapshot()))
            .filter(|(_, _, durations)| !durations.is_empty())
            .collect();

        let help = "Requests of the kernel that were answered";
        let mut requests = into.counters("headrace_fuse_requests_total", help, Unit::None);
        for (name, _, durations) in &seen {
            requests.counter(&[("operation", name)], durations.count());
        }
        let help = "From when a request was read from the kernel until its answer was given back";
        let mut family = into.durations("headrace_fuse_request_duration_seconds", help);
        for (name, _, durations) in &seen {
            family.histogram(&[("operation", name)], durations.clone());
        }
        let help =
            "Requests answered with an error; that a name does not exist is an answer to a lookup, and none";
        let mut errors = into.counters("headrace_fuse_request_errors_total", help, Unit::None);
        for (name, operation, _) in &seen {
            for (errno, count) in operation.errors() {
                errors.counter(&[("operation", name), ("errno", errno)], count);
            }
        }
        // Ended ones were counted first and then begun ones are, so the difference is never negative.
        let ended = seen.iter().fold(0, |sum: u64, (_, _, durations)| sum.saturating_add(durations.count()));
        let in_flight = self.begun.get().saturating_sub(ended);
        let help = "Requests that were read from the kernel and have no answer yet";
        into.gauge("headrace_fuse_requests_in_flight", help, Unit::None, in_flight as f64);
        let help = "File data given to the kernel; what its page cache answers is not asked for";
        into.counter("headrace_fuse_read_bytes_total", help, Unit::Bytes, self.read_bytes.get());
        let help = "File data taken from the kernel";
        into.counter("headrace_fuse_written_bytes_total", help, Unit::Bytes, self.written_bytes.get());
    }
}

impl Operation {
    fn failed(&self, errno: Errno) {
        let errors = self.errors.get_or_init(|| (0..ERRNOS).map(|_| Counter::new()).collect());
        let raw = usize::try_from(errno.raw()).unwrap_or(0);
        if let Some(counter) = errors.get(if raw < ERRNOS { raw } else { 0 }) {
            counter.increment();
        }
    }

    fn errors(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counted = self.errors.get().into_iter().flatten().enumerate();
        counted.map(|(raw, count)| (name(raw), count.get())).filter(|(_, count)| *count > 0)
    }
}

fn name(raw: usize) -> &'static str {
    match i32::try_from(raw) {
        Ok(raw) if raw > 0 => Errno::new(raw).name(),
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use headrace_metrics::Snapshot;

    use super::*;

    fn snapshot(counts: &Counts) -> Snapshot {
        let mut collection = Collection::new();
        counts.collect(&mut collection);
        Snapshot::new(collection)
    }

    #[test]
    fn each_request_is_counted_once_with_what_became_of_it() {
        let counts = Counts::default();
        let request = |opcode, error, bytes| {
            counts.begin();
            counts.end(opcode, Duration::from_millis(1), error, bytes);
        };
        request(Opcode::Read, None, 4096);
        request(Opcode::Read, Some(Errno::EIO), 0);
        request(Opcode::Lookup, Some(Errno::ENOENT), 0);
        request(Opcode::Lookup, Some(Errno::ENOENT), 0);
        request(Opcode::Lookup, Some(Errno::new(500)), 0);
        request(Opcode::CopyFileRange64, None, 10);
        counts.begin();
        let told = snapshot(&counts);
        let requests = |operation| told.counter("headrace_fuse_requests_total", &[("operation", operation)]);
        assert_eq!((requests("read"), requests("lookup"), requests("copy_file_range_64")), (2, 3, 1));
        let errors = |operation, errno| {
            told.counter("headrace_fuse_request_errors_total", &[("operation", operation), ("errno", errno)])
        };
        assert_eq!((errors("read", "EIO"), errors("lookup", "ENOENT"), errors("lookup", "other")), (1, 2, 1));
        assert_eq!(told.gauge("headrace_fuse_requests_in_flight", &[]), Some(1.0));
        assert_eq!(told.counter("headrace_fuse_read_bytes_total", &[]), 4096);
        assert_eq!(told.histogram("headrace_fuse_request_duration_seconds", &[]).count(), 6);
        counts.end(Opcode::Read, Duration::ZERO, None, 0);
        assert_eq!(snapshot(&counts).gauge("headrace_fuse_requests_in_flight", &[]), Some(0.0));
    }

    #[test]
    fn every_operation_has_its_place() {
        let counts = Counts::default();
        for opcode in Opcode::ALL {
            counts.begin();
            counts.end(*opcode, Duration::ZERO, None, 0);
        }
        let told = snapshot(&counts);
        assert_eq!(told.counter("headrace_fuse_requests_total", &[]), Opcode::ALL.len() as u64);
    }
}
