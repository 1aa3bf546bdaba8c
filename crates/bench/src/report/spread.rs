//! Repeated measurements as a median and how far they lie apart.

use serde::{Deserialize, Serialize};

/// Median and extremes of repeated measurements of one quantity. Few repetitions make no distribution: no mean, no deviation.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Smallest.
    pub min: f64,
    /// The middle one; of an even number, the mean of the two in the middle.
    pub median: f64,
    /// Largest.
    pub max: f64,
    /// Measurements.
    pub samples: usize,
}

impl Spread {
    /// Of these measurements; those that are no finite number are left out. `None` if none is left.
    pub fn of(samples: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut sorted: Vec<f64> = samples.into_iter().filter(|sample| sample.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let upper = *sorted.get(sorted.len() / 2)?;
        let lower = *sorted.get((sorted.len() - 1) / 2)?;
        Some(Spread { min, median: lower + (upper - lower) / 2.0, max, samples: sorted.len() })
    }

    /// A quantity that was measured once.
    pub fn single(value: f64) -> Spread {
        Spread { min: value, median: value, max: value, samples: 1 }
    }

    /// The largest distance from the median as a part of it: 0.05 is ±5 %. `None` where the median is 0.
    pub fn relative(&self) -> Option<f64> {
        let distance = (self.max - self.median).max(self.median - self.min);
        (self.median != 0.0).then(|| distance / self.median.abs())
    }

    /// All three values by `map`, which must keep or reverse their order (a unit, a reciprocal).
    pub fn map(&self, map: impl Fn(f64) -> f64) -> Spread {
        let (a, b) = (map(self.min), map(self.max));
        Spread { min: a.min(b), median: map(self.median), max: a.max(b), samples: self.samples }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(
            Spread::of([3.0, 1.0, 2.0]).unwrap(),
            Spread { min: 1.0, median: 2.0, max: 3.0, samples: 3 }
        );
        assert_eq!(Spread::of([4.0, 1.0]).unwrap().median, 2.5);
        assert_eq!(Spread::of([f64::NAN, 7.0, f64::INFINITY]).unwrap(), Spread::single(7.0));
        assert_eq!(Spread::of([]), None);
    }

    #[test]
    fn the_relative_spread_is_of_the_median() {
        let spread = Spread::of([90.0, 100.0, 120.0]).unwrap();
        assert!((spread.relative().unwrap() - 0.2).abs() < 1e-12);
        assert_eq!(Spread::single(0.0).relative(), None);
        let rate = Spread::of([1.0, 2.0, 4.0]).unwrap().map(|seconds| 1.0 / seconds);
        assert_eq!((rate.min, rate.median, rate.max), (0.25, 0.5, 1.0));
    }

    proptest! {
        #[test]
        fn a_spread_is_in_order_and_holds_every_sample(samples in prop::collection::vec(-1e12f64..1e12, 1..40)) {
            let spread = Spread::of(samples.iter().copied()).unwrap();
            prop_assert!(spread.min <= spread.median && spread.median <= spread.max);
            prop_assert!(samples.iter().all(|sample| (spread.min..=spread.max).contains(sample)));
            let below = samples.iter().filter(|sample| **sample < spread.median).count();
            let above = samples.iter().filter(|sample| **sample > spread.median).count();
            prop_assert!(below * 2 <= samples.len() && above * 2 <= samples.len());
        }
    }
}
