//! Everything at one moment.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::{Collection, Family, HistogramSnapshot, Sample, Value};

/// All metrics of a process at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// When, in seconds since 1970.
    pub at: f64,
    /// What was told, in the order of the layers.
    pub families: Vec<Family>,
}

impl Snapshot {
    /// What was collected, as of now.
    pub fn new(collection: Collection) -> Self {
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { at: at.as_secs_f64(), families: collection.finish() }
    }

    /// How much later this was taken than `earlier`; zero if the clock went back.
    pub fn elapsed_since(&self, earlier: &Self) -> Duration {
        Duration::try_from_secs_f64(self.at - earlier.at).unwrap_or_default()
    }

    /// A family by its whole name.
    pub fn family(&self, name: &str) -> Option<&Family> {
        self.families.iter().find(|family| family.name == name)
    }

    /// The samples of a family that have all of `labels`.
    pub fn samples<'a>(
        &'a self,
        name: &str,
        labels: &'a [(&'a str, &'a str)],
    ) -> impl Iterator<Item = &'a Sample> {
        self.family(name)
            .into_iter()
            .flat_map(|family| &family.samples)
            .filter(move |sample| sample.has(labels))
    }

    /// The sum of the counters of a family that have all of `labels`; zero if there are none.
    pub fn counter(&self, name: &str, labels: &[(&str, &str)]) -> u64 {
        self.samples(name, labels).fold(0, |sum, sample| match &sample.value {
            Value::Counter(count) => sum.saturating_add(*count),
            _ => sum,
        })
    }

    /// The sum of the gauges of a family that have all of `labels`; `None` if there are none.
    pub fn gauge(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        self.samples(name, labels).fold(None, |sum, sample| match &sample.value {
            Value::Gauge(value) => Some(sum.unwrap_or(0.0) + value),
            _ => sum,
        })
    }

    /// The histograms of a family that have all of `labels`, added up; empty if there are none.
    pub fn histogram(&self, name: &str, labels: &[(&str, &str)]) -> HistogramSnapshot {
        let mut all = HistogramSnapshot::default();
        for sample in self.samples(name, labels) {
            if let Value::Histogram(histogram) = &sample.value {
                all.merge(histogram);
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Histogram, Unit};

    fn sample() -> Snapshot {
        let mut collection = Collection::new();
        let histogram = Histogram::new();
        histogram.record(Duration::from_millis(3));
        collection
            .counters("a_total", "A", Unit::None)
            .counter(&[("operation", "read")], 3)
            .counter(&[("operation", "write")], 4);
        collection.gauge("b_bytes", "B", Unit::Bytes, 1.5);
        collection.durations("c_seconds", "C").histogram(&[("operation", "read")], histogram.snapshot());
        collection.counters("a_total", "A", Unit::None).counter(&[("operation", "open")], 5);
        Snapshot::new(collection)
    }

    #[test]
    fn numbers_are_found_and_added_by_labels() {
        let snapshot = sample();
        assert_eq!(snapshot.families.len(), 3, "a family of a known name is continued");
        assert_eq!(snapshot.counter("a_total", &[]), 12);
        assert_eq!(snapshot.counter("a_total", &[("operation", "write")]), 4);
        assert_eq!(snapshot.counter("missing_total", &[]), 0);
        assert_eq!(snapshot.gauge("b_bytes", &[]), Some(1.5));
        assert_eq!(snapshot.gauge("missing_bytes", &[]), None);
        assert_eq!(snapshot.histogram("c_seconds", &[]).count(), 1);
    }

    #[test]
    fn json_gives_back_what_was_told() {
        let snapshot = sample();
        let json = serde_json::to_string(&snapshot).unwrap();
        let read = serde_json::from_str::<Snapshot>(&json).unwrap();
        assert_eq!(read.families, snapshot.families);
        // The parser may be off by the last bit of a fraction.
        assert!((read.at - snapshot.at).abs() < 1e-3);
    }
}
