//! A histogram at one moment, to be compared, added and asked.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, ser::SerializeStruct};

use super::bounds::{BUCKETS, bucket_of, lower, upper};

/// What a [`Histogram`](super::Histogram) had recorded at one moment. Values are nanoseconds if durations were recorded.
///
/// As JSON: `{"count": 3, "sum": 5400, "buckets": [[1536, 2], [3072, 1]]}`, where a bucket is the largest value it holds (`null` for the
/// one without end) and how many values are in it; buckets that hold none are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HistogramSnapshot {
    sum: u64,
    /// Without the empty buckets at the end.
    counts: Vec<u64>,
}

impl HistogramSnapshot {
    pub(super) fn from_counts(sum: u64, counts: impl IntoIterator<Item = u64>) -> Self {
        let mut counts: Vec<u64> = counts.into_iter().take(BUCKETS).collect();
        let used = counts.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
        counts.truncate(used);
        Self { sum, counts }
    }

    /// How many values.
    pub fn count(&self) -> u64 {
        self.counts.iter().fold(0, |all, count| all.saturating_add(*count))
    }

    /// All values added up.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// The arithmetic mean.
    pub fn mean(&self) -> Option<f64> {
        match self.count() {
            0 => None,
            count => Some(self.sum as f64 / count as f64),
        }
    }

    /// The value that a share `q` (0 to 1) of the values do not exceed, `None` if there are none. A bucket's values are taken to be
    /// spread evenly over it, so the answer is within an eighth of the truth for most data and never off by more than a quarter;
    /// among values below 1,024 or above 2^40 it cannot tell and says the end of that range.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let wanted = (q.clamp(0.0, 1.0) * count as f64).max(1.0);
        let mut below = 0.0;
        for (bucket, here) in self.counts.iter().enumerate() {
            let here = *here as f64;
            if here > 0.0 && below + here >= wanted {
                let low = lower(bucket);
                let Some(high) = upper(bucket) else { return Some(low) };
                return Some(low + ((high - low) as f64 * (wanted - below) / here) as u64);
            }
            below += here;
        }
        // Rounding of counts beyond 2^53 can leave the last bucket a little short.
        Some(lower(self.counts.len()))
    }

    /// [`quantile`](Self::quantile) of recorded durations.
    pub fn quantile_duration(&self, q: f64) -> Option<Duration> {
        self.quantile(q).map(Duration::from_nanos)
    }

    /// [`mean`](Self::mean) of recorded durations.
    pub fn mean_duration(&self) -> Option<Duration> {
        self.mean().map(|nanoseconds| Duration::from_nanos(nanoseconds as u64))
    }

    /// What was recorded after `earlier`, an older snapshot of the same histogram.
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |bucket: usize| earlier.counts.get(bucket).copied().unwrap_or(0);
        let counts =
            self.counts.iter().enumerate().map(|(bucket, count)| count.saturating_sub(before(bucket)));
        Self::from_counts(self.sum.saturating_sub(earlier.sum), counts)
    }

    /// Adds what another histogram of the same unit recorded.
    pub fn merge(&mut self, other: &Self) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count = count.saturating_add(*more);
        }
        self.sum = self.sum.saturating_add(other.sum);
    }

    /// Every bucket in order, those without values too: the largest value it holds (`None`: no end), and how many are in it.
    pub fn buckets(&self) -> impl Iterator<Item = (Option<u64>, u64)> + '_ {
        (0..BUCKETS).map(|bucket| (upper(bucket), self.counts.get(bucket).copied().unwrap_or(0)))
    }
}

impl Serialize for HistogramSnapshot {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let buckets: Vec<(Option<u64>, u64)> = self.buckets().filter(|(_, count)| *count > 0).collect();
        let mut object = serializer.serialize_struct("HistogramSnapshot", 3)?;
        object.serialize_field("count", &self.count())?;
        object.serialize_field("sum", &self.sum)?;
        object.serialize_field("buckets", &buckets)?;
        object.end()
    }
}

impl<'de> Deserialize<'de> for HistogramSnapshot {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// The count is left unread: it follows from the buckets.
        #[derive(Deserialize)]
        struct Told {
            sum: u64,
            buckets: Vec<(Option<u64>, u64)>,
        }
        let told = Told::deserialize(deserializer)?;
        let mut counts = vec![0u64; BUCKETS];
        for (bound, count) in told.buckets {
            let bucket = bound.map_or(BUCKETS - 1, bucket_of);
            if let Some(here) = counts.get_mut(bucket) {
                *here = here.saturating_add(count);
            }
        }
        Ok(Self::from_counts(told.sum, counts))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Histogram;
    use super::*;
    use proptest::prelude::*;

    fn of(values: &[u64]) -> HistogramSnapshot {
        let histogram = Histogram::new();
        values.iter().for_each(|value| histogram.record_value(*value));
        histogram.snapshot()
    }

    #[test]
    fn nothing_recorded_has_no_quantile() {
        let empty = of(&[]);
        assert_eq!((empty.count(), empty.quantile(0.5), empty.mean()), (0, None, None));
        assert!(empty.is_empty());
    }

    #[test]
    fn what_a_user_reads_off_a_thousand_even_values() {
        let values: Vec<u64> = (1..=1000).map(|step| step * 10_000).collect();
        let even = of(&values);
        for (q, truth) in [(0.5, 5_000_000u64), (0.9, 9_000_000), (0.99, 9_900_000)] {
            let told = even.quantile(q).unwrap();
            assert!(told.abs_diff(truth) * 10 < truth, "p{q}: {told} instead of {truth}");
        }
        assert_eq!(even.mean(), Some(5_005_000.0));
    }

    fn values() -> impl Strategy<Value = Vec<u64>> {
        prop::collection::vec(
            (any::<u32>(), 0u32..32).prop_map(|(value, shift)| (u64::from(value) << 8) >> shift),
            0..200,
        )
    }

    proptest! {
        #[test]
        fn a_quantile_is_in_the_bucket_of_the_true_one(mut values in values(), q in 0.0f64..=1.0) {
            prop_assume!(!values.is_empty());
            let told = of(&values).quantile(q).unwrap();
            values.sort_unstable();
            let rank = ((q * values.len() as f64).max(1.0).ceil() as usize).min(values.len());
            let truth = values[rank - 1];
            let bucket = bucket_of(truth);
            prop_assert!(told >= lower(bucket) && upper(bucket).is_none_or(|bound| told <= bound), "{} for {}", told, truth);
        }

        #[test]
        fn since_takes_off_what_merge_adds(first in values(), second in values()) {
            let (earlier, more) = (of(&first), of(&second));
            let mut both = earlier.clone();
            both.merge(&more);
            prop_assert_eq!(both.count(), (first.len() + second.len()) as u64);
            prop_assert_eq!(both.since(&earlier), more);
        }

        #[test]
        fn json_keeps_everything(values in values()) {
            let snapshot = of(&values);
            let json = serde_json::to_string(&snapshot).unwrap();
            prop_assert_eq!(serde_json::from_str::<HistogramSnapshot>(&json).unwrap(), snapshot);
        }
    }

    #[test]
    fn hostile_json_is_taken_without_harm() {
        let told = r#"{"count":1,"sum":18446744073709551615,"buckets":[[0,18446744073709551615],[null,18446744073709551615]]}"#;
        let mut snapshot: HistogramSnapshot = serde_json::from_str(told).unwrap();
        snapshot.merge(&snapshot.clone());
        assert_eq!((snapshot.count(), snapshot.sum()), (u64::MAX, u64::MAX));
        assert!(snapshot.quantile(1.0).is_some());
    }
}
