//! How long things took, or how large they were.

mod bounds;
mod snapshot;

use std::{
    array,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

pub use snapshot::HistogramSnapshot;

use bounds::{BUCKETS, bucket_of};

/// Counts values by size, four buckets to a power of two between 1 us and 1,100 s (if they are durations) or 1 KiB and 1 TiB (if
/// bytes). A value costs two relaxed additions; it takes no lock and allocates nothing.
///
/// Durations are kept in nanoseconds.
#[derive(Debug)]
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    sum: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// A histogram of nothing yet. About a kibibyte.
    pub fn new() -> Self {
        Self { buckets: array::from_fn(|_| AtomicU64::new(0)), sum: AtomicU64::new(0) }
    }

    /// Records how long something took.
    #[inline]
    pub fn record(&self, duration: Duration) {
        self.record_value(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Records a value in the histogram's own unit: nanoseconds, or bytes.
    #[inline]
    pub fn record_value(&self, value: u64) {
        if let Some(bucket) = self.buckets.get(bucket_of(value)) {
            bucket.fetch_add(1, Relaxed);
        }
        self.sum.fetch_add(value, Relaxed);
    }

    /// What was recorded so far. Values recorded meanwhile may be in or not, and in the counts but not yet in the sum.
    pub fn snapshot(&self) -> HistogramSnapshot {
        let counts = self.buckets.iter().map(|bucket| bucket.load(Relaxed));
        HistogramSnapshot::from_counts(self.sum.load(Relaxed), counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_recorded_by_many_threads_is_all_there() {
        let histogram = Histogram::new();
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let histogram = &histogram;
                scope.spawn(move || {
                    for value in 0..10_000u64 {
                        histogram.record(Duration::from_nanos(value * (thread + 1)));
                    }
                });
            }
        });
        let snapshot = histogram.snapshot();
        assert_eq!(snapshot.count(), 40_000);
        assert_eq!(snapshot.sum(), (1 + 2 + 3 + 4) * (0..10_000).sum::<u64>());
    }
}
