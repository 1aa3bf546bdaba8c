//! What a benchmark found, in the form in which it is written as JSON (`docs/bench.md` documents it).

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::caches::Caches;
use super::options::Options;
use super::phases::{Phase, Unit};
use super::place::FileSystem;
use super::worker::Timing;
use crate::report::Spread;

/// The name and number of the form. The number changes when a field changes its meaning or goes; new fields may come.
pub const SCHEMA: &str = "headrace-bench-1";

/// What a benchmark found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// The version of the program.
    pub version: String,
    /// When it began, in RFC 3339.
    pub started: String,
    /// What it ran on.
    pub machine: Machine,
    /// What was asked for.
    pub options: Options,
    /// The directory, and the one it is compared with, if any.
    pub directories: Vec<Directory>,
    /// The first directory against the second; empty if there is but one.
    pub ratios: Vec<Ratio>,
    /// What a reader of the figures should know, in sentences.
    pub notes: Vec<String>,
}

/// What a benchmark ran on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The kernel's release.
    pub kernel: String,
    /// Processors that this process may use.
    pub cpus: usize,
    /// Bytes of memory.
    pub memory: u64,
}

impl Machine {
    /// This one.
    pub fn this() -> Machine {
        let info = rustix::system::sysinfo();
        Machine {
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            memory: (info.totalram as u64).saturating_mul(u64::from(info.mem_unit)),
        }
    }
}

/// A directory and its figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Directory {
    /// Its path, without links.
    pub path: PathBuf,
    /// What holds it.
    pub file_system: FileSystem,
    /// Its phases, in the order in which they ran.
    pub phases: Vec<Figures>,
}

/// The figures of a phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Which.
    pub phase: Phase,
    /// What `rate` counts a second.
    pub unit: Unit,
    /// What was in the caches when it began; nothing for phases that take them as they are.
    pub caches: Option<Caches>,
    /// How much a second, over all repetitions.
    pub rate: Spread,
    /// How long its operations took, over all repetitions.
    pub latency: Latency,
    /// Each repetition.
    pub runs: Vec<Run>,
}

/// One repetition of a phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The time of the thread that took longest, in seconds, without what it spent making and checking content.
    pub seconds: f64,
    /// From the start to the end of the last thread, in seconds, everything included.
    pub wall_seconds: f64,
    /// Seconds that threads spent checking what they read, added up.
    pub checking_seconds: f64,
    /// Operations done.
    pub operations: u64,
    /// Bytes written or read.
    pub bytes: u64,
    /// `bytes`, `operations` or files (by the unit) divided by `seconds`.
    pub rate: f64,
}

impl Run {
    pub(super) fn new(timing: &Timing) -> Run {
        let seconds = timing.busy.as_secs_f64().max(1e-9);
        Run {
            seconds,
            wall_seconds: timing.wall.as_secs_f64(),
            checking_seconds: timing.checking.as_secs_f64(),
            operations: timing.operations,
            bytes: timing.bytes,
            rate: timing.done as f64 / seconds,
        }
    }
}

/// How long the operations of a phase took, in seconds. Percentiles come from a histogram whose buckets are up to a quarter wide.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// What was timed, in words.
    pub operation: String,
    /// How many.
    pub count: u64,
    /// The mean.
    pub mean: f64,
    /// Half of them took no longer.
    pub p50: f64,
    /// 90 % took no longer.
    pub p90: f64,
    /// 99 % took no longer.
    pub p99: f64,
    /// 99.9 % took no longer.
    pub p999: f64,
    /// The longest.
    pub max: f64,
}

impl Latency {
    pub(super) fn of(phase: Phase, timings: &[Timing]) -> Latency {
        let mut all = headrace_metrics::HistogramSnapshot::default();
        timings.iter().for_each(|timing| all.merge(&timing.latency));
        let longest = timings.iter().map(|timing| timing.longest).max().unwrap_or_default();
        let quantile = |q| all.quantile_duration(q).unwrap_or_default().min(longest).as_secs_f64();
        Latency {
            operation: phase.operation().to_owned(),
            count: all.count(),
            mean: all.mean_duration().unwrap_or(Duration::ZERO).as_secs_f64(),
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            p999: quantile(0.999),
            max: longest.as_secs_f64(),
        }
    }
}

/// The rate of the first directory divided by that of the second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// In which phase.
    pub phase: Phase,
    /// The medians divided: above 1, the first directory is faster.
    pub rate: f64,
    /// Whether every repetition on one directory was faster than every one on the other. Never with a single repetition, which
    /// cannot tell a difference from chance.
    pub apart: bool,
}

impl Ratio {
    pub(super) fn of(first: &Figures, second: &Figures) -> Ratio {
        let (a, b) = (&first.rate, &second.rate);
        let repeated = a.samples > 1 && b.samples > 1;
        Ratio {
            phase: first.phase,
            rate: a.median / b.median.max(f64::MIN_POSITIVE),
            apart: repeated && (a.min > b.max || b.min > a.max),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(rates: &[f64]) -> Figures {
        Figures {
            phase: Phase::Stat,
            unit: Unit::Files,
            caches: None,
            rate: Spread::of(rates.iter().copied()).unwrap(),
            latency: Latency::of(Phase::Stat, &[]),
            runs: Vec::new(),
        }
    }

    #[test]
    fn a_difference_counts_only_if_repetitions_never_overlap() {
        let ratio = |a: &[f64], b: &[f64]| Ratio::of(&figures(a), &figures(b));
        assert!(!ratio(&[10.0], &[1.0]).apart);
        assert!(ratio(&[10.0, 12.0], &[1.0, 9.0]).apart);
        assert!(ratio(&[1.0, 9.0], &[10.0, 12.0]).apart);
        assert!(!ratio(&[8.0, 12.0], &[1.0, 9.0]).apart);
        assert_eq!(ratio(&[10.0, 12.0], &[22.0, 22.0]).rate, 0.5);
    }

    #[test]
    fn a_rate_is_of_the_busiest_thread() {
        let timing = Timing {
            busy: Duration::from_secs(2),
            wall: Duration::from_secs(3),
            done: 100,
            ..Timing::default()
        };
        let run = Run::new(&timing);
        assert_eq!((run.rate, run.seconds, run.wall_seconds), (50.0, 2.0, 3.0));
        assert!(Run::new(&Timing::default()).rate.is_finite());
    }
}
