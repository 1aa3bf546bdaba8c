//! Latencies: constant, and with the tails that real services have.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::quantity::{ParseError, duration, duration_text};
use crate::random::Rng;

/// No latency is more than this many times its base, however heavy its tail: a run must end.
pub const MOST_OF_BASE: f64 = 100.0;

/// How long something takes.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Latency {
    /// The least, for a log-normal tail the median.
    pub base: Duration,
    /// How single ones differ from it.
    pub tail: Tail,
}

/// How single latencies differ from the base.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Tail {
    /// They do not.
    #[default]
    None,
    /// Up to so much more, each as likely as the next.
    Uniform(Duration),
    /// Log-normal: the base is the median, `sigma` the deviation of the logarithm. 0.5 puts the 99th percentile at 3.2
    /// times the median.
    LogNormal {
        /// Deviation of the natural logarithm, above 0, 3 at most.
        sigma: f64,
    },
    /// Pareto: the base is the least, and `shape` says how fast the tail ends. 1.5 puts the median at 1.6 times, the 99th
    /// percentile at 22 times the base.
    Pareto {
        /// Above 1, so that there is a mean; 100 at most.
        shape: f64,
    },
}

impl Latency {
    /// Always `time`.
    pub fn constant(time: Duration) -> Latency {
        Latency { base: time, tail: Tail::None }
    }

    /// Whether nothing waits.
    pub fn is_none(&self) -> bool {
        self.base.is_zero() && !matches!(self.tail, Tail::Uniform(most) if !most.is_zero())
    }

    /// The next one.
    pub fn draw(&self, rng: &mut Rng) -> Duration {
        let times = match self.tail {
            Tail::None => return self.base,
            Tail::Uniform(most) => return self.base.saturating_add(most.mul_f64(rng.unit())),
            Tail::LogNormal { sigma } => (sigma * rng.normal()).exp(),
            Tail::Pareto { shape } => (1.0 - rng.unit()).powf(-1.0 / shape),
        };
        // NaN, from a shape that no parser lets through, becomes the base.
        self.base.mul_f64(if times.is_nan() { 1.0 } else { times.min(MOST_OF_BASE) })
    }
}

/// `20ms`, `20ms,uniform=5ms`, `20ms,lognormal=0.5`, `20ms,pareto=1.5`.
impl FromStr for Latency {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Latency, ParseError> {
        let Some((base, tail)) = text.split_once(',') else {
            return Ok(Latency::constant(duration(text)?));
        };
        let number = |text: &str, least: f64, most: f64| {
            text.trim().parse::<f64>().ok().filter(|number| *number > least && *number <= most)
        };
        let tail = match tail.trim().split_once('=') {
            Some(("uniform", most)) => Some(Tail::Uniform(duration(most)?)),
            Some(("lognormal", sigma)) => number(sigma, 0.0, 3.0).map(|sigma| Tail::LogNormal { sigma }),
            Some(("pareto", shape)) => number(shape, 1.0, 100.0).map(|shape| Tail::Pareto { shape }),
            _ => None,
        };
        let wrong = || {
            let known =
                "uniform=TIME, lognormal=SIGMA (above 0, up to 3) and pareto=SHAPE (above 1, up to 100)";
            ParseError::new(text, format!("not a tail; known are {known}"))
        };
        Ok(Latency { base: duration(base)?, tail: tail.ok_or_else(wrong)? })
    }
}

impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&duration_text(self.base))?;
        match self.tail {
            Tail::None => Ok(()),
            Tail::Uniform(most) => write!(f, ",uniform={}", duration_text(most)),
            Tail::LogNormal { sigma } => write!(f, ",lognormal={sigma}"),
            Tail::Pareto { shape } => write!(f, ",pareto={shape}"),
        }
    }
}

impl TryFrom<String> for Latency {
    type Error = ParseError;

    fn try_from(text: String) -> Result<Latency, ParseError> {
        text.parse()
    }
}

impl From<Latency> for String {
    fn from(latency: Latency) -> String {
        latency.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Rng;
    use proptest::prelude::*;

    fn sorted(text: &str) -> Vec<f64> {
        let latency: Latency = text.parse().unwrap();
        let mut rng = Rng::new(7);
        let mut all: Vec<f64> = (0..50_000).map(|_| latency.draw(&mut rng).as_secs_f64() * 1e3).collect();
        all.sort_by(f64::total_cmp);
        all
    }

    fn assert_near(found: f64, wanted: f64, share: f64) {
        assert!((found / wanted - 1.0).abs() < share, "{found} is not {wanted}");
    }

    #[test]
    fn a_constant_is_constant() {
        let all = sorted("20ms");
        assert_eq!((all[0], all[all.len() - 1]), (20.0, 20.0));
    }

    #[test]
    fn a_uniform_one_stays_in_its_bounds() {
        let all = sorted("20ms,uniform=10ms");
        assert!(all[0] >= 20.0 && all[all.len() - 1] <= 30.0);
        assert_near(all[25_000], 25.0, 0.01);
    }

    #[test]
    fn a_lognormal_one_has_its_median_and_its_tail() {
        let all = sorted("20ms,lognormal=0.5");
        assert_near(all[25_000], 20.0, 0.02);
        // exp(0.5 * 2.3263)
        assert_near(all[49_500], 64.0, 0.05);
    }

    #[test]
    fn a_pareto_one_has_its_least_its_median_its_tail_and_an_end() {
        let all = sorted("20ms,pareto=1.5");
        assert!(all[0] >= 20.0);
        assert_near(all[25_000], 20.0 * 2f64.powf(1.0 / 1.5), 0.02);
        assert_near(all[49_500], 20.0 * 100f64.powf(1.0 / 1.5), 0.1);
        assert!(all[49_999] <= 2000.0, "{}", all[49_999]);
    }

    proptest! {
        #[test]
        fn a_latency_as_text_is_the_same(nanos in 0u64..60_000_000_000, kind in 0..4, tail in 1.01f64..3.0) {
            let tail = match kind {
                0 => Tail::None,
                1 => Tail::Uniform(Duration::from_nanos(nanos / 3)),
                2 => Tail::LogNormal { sigma: tail },
                _ => Tail::Pareto { shape: tail },
            };
            let latency = Latency { base: Duration::from_nanos(nanos), tail };
            prop_assert_eq!(latency.to_string().parse::<Latency>().unwrap(), latency);
        }
    }
}
