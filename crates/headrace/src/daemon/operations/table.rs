//! Sums of operations by whatever they are told apart by.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use headrace_metrics::{Histogram, HistogramSnapshot};
use serde::{Deserialize, Serialize};

/// Rows of a table; what does not fit is summed up in one more. At a kibibyte each, 2 MiB.
const ROWS_MAX: usize = 2048;

/// Operations of one kind.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// How many failed.
    pub errors: u64,
    /// File data read, written or copied.
    pub bytes: u64,
    /// The longest, nanoseconds.
    pub max_ns: u64,
    /// All of them, nanoseconds.
    pub duration: HistogramSnapshot,
}

impl Figures {
    /// How many.
    pub fn count(&self) -> u64 {
        self.duration.count()
    }

    /// Their durations added up.
    pub fn time(&self) -> Duration {
        Duration::from_nanos(self.duration.sum())
    }

    /// The duration that a share `q` of them does not exceed, about.
    pub fn quantile(&self, q: f64) -> Option<Duration> {
        let longest = Duration::from_nanos(self.max_ns);
        self.duration.quantile_duration(q).map(|duration| duration.min(longest))
    }

    /// Adds others.
    pub fn merge(&mut self, other: &Figures) {
        self.errors = self.errors.saturating_add(other.errors);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.duration.merge(&other.duration);
    }
}

/// Sums by key.
#[derive(Debug)]
pub struct Table<K> {
    rows: HashMap<K, Tally>,
    others: Option<Tally>,
}

impl<K> Default for Table<K> {
    fn default() -> Self {
        Table { rows: HashMap::new(), others: None }
    }
}

/// Figures that grow.
#[derive(Debug, Default)]
struct Tally {
    errors: u64,
    bytes: u64,
    max_ns: u64,
    duration: Box<Histogram>,
}

impl Tally {
    fn add(&mut self, duration: Duration, bytes: u64, failed: bool) {
        self.errors += u64::from(failed);
        self.bytes = self.bytes.saturating_add(bytes);
        self.max_ns = self.max_ns.max(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
        self.duration.record(duration);
    }

    fn figures(&self) -> Figures {
        let Tally { errors, bytes, max_ns, ref duration } = *self;
        Figures { errors, bytes, max_ns, duration: duration.snapshot() }
    }
}

impl<K: Hash + Eq> Table<K> {
    /// Adds an operation.
    pub fn add(&mut self, key: K, duration: Duration, bytes: u64, failed: bool) {
        let room = self.rows.len() < ROWS_MAX;
        let tally = match self.rows.get_mut(&key) {
            Some(tally) => tally,
            None if room => self.rows.entry(key).or_default(),
            None => self.others.get_or_insert_default(),
        };
        tally.add(duration, bytes, failed);
    }

    /// All rows, in no order. The one without a key stands for what did not fit.
    pub fn into_rows(self) -> impl Iterator<Item = (Option<K>, Figures)> {
        let rows = self.rows.into_iter().map(|(key, tally)| (Some(key), tally.figures()));
        rows.chain(self.others.map(|tally| (None, tally.figures())))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn nothing_is_lost_however_many_keys(
            operations in proptest::collection::vec((0..5000_u32, 0..1000_u64, 0..1000_u64, any::<bool>()), 0..6000),
        ) {
            let mut table = Table::default();
            for (key, nanos, bytes, failed) in &operations {
                table.add(*key, Duration::from_nanos(*nanos), *bytes, *failed);
            }
            let rows: Vec<_> = table.into_rows().collect();
            prop_assert!(rows.len() <= ROWS_MAX + 1);
            let mut all = Figures::default();
            for (key, figures) in &rows {
                all.merge(figures);
                if let Some(key) = key {
                    let own = operations.iter().filter(|(k, ..)| k == key);
                    prop_assert_eq!(figures.bytes, own.clone().map(|o| o.2).sum::<u64>());
                    prop_assert_eq!(figures.max_ns, own.map(|o| o.1).max().unwrap_or(0));
                }
            }
            prop_assert_eq!(all.count(), operations.len() as u64);
            prop_assert_eq!(all.time(), Duration::from_nanos(operations.iter().map(|o| o.1).sum()));
            prop_assert_eq!(all.errors, operations.iter().filter(|o| o.3).count() as u64);
        }
    }
}
