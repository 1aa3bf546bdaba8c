//! What a run found: the report's data, and its form in JSON (described in `docs/objbench.md`).

use std::time::Duration;

use headrace_metrics::HistogramSnapshot;
use headrace_store::Capabilities;
use serde::Serialize;

use super::operation::Operation;
use super::options::Options;
use crate::files::Machine;

/// Form and version of the report in JSON. Fields may be added without a new one.
pub const SCHEMA: &str = "headrace-objbench-1";

/// What a run found.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Form and version of this: [`SCHEMA`].
    pub schema: &'static str,
    /// Version of the program.
    pub version: String,
    /// The store, without credentials.
    pub url: String,
    /// When it began, RFC 3339.
    pub started: String,
    /// How long it took, with checks and cleaning up.
    pub seconds: f64,
    /// What it ran on.
    pub machine: Machine,
    /// What was asked for.
    pub options: Options,
    /// What a volume depends on.
    pub capabilities: Capabilities,
    /// One by one, whether the store does what it should.
    pub checks: Vec<Check>,
    /// In the order in which they were made.
    pub measurements: Vec<Measurement>,
    /// What became of the objects.
    pub cleanup: Cleanup,
    /// It was ended early.
    pub interrupted: bool,
}

/// Whether a store does one thing as it should.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What was tried.
    pub name: &'static str,
    /// It did.
    pub passed: bool,
    /// A volume cannot do without it.
    pub required: bool,
    /// What it did instead.
    pub detail: Option<String>,
}

/// One operation at one level of concurrency.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measurement {
    /// Which requests.
    pub operation: Operation,
    /// Bytes of an object.
    pub object_bytes: u64,
    /// Bytes asked for by one request that moves a body.
    pub body_bytes: u64,
    /// Requests at a time.
    pub concurrency: usize,
    /// Why it was not made, if it was not: then the rest is nothing.
    pub left_out: Option<String>,
    /// Requests that were answered as they should.
    pub requests: u64,
    /// Objects written, read, listed or deleted.
    pub objects: u64,
    /// Bytes of bodies.
    pub bytes: u64,
    /// From the first request to the last answer.
    pub seconds: f64,
    /// Processor time of this process meanwhile: when it nears the time by the processors, the client is the limit.
    pub cpu_seconds: f64,
    /// How long requests took; nothing if none was answered.
    pub latency: Option<Latency>,
    /// Requests that failed, by kind; `wrong_data` are those that brought something else than was written.
    pub errors: Vec<ErrorCount>,
    /// Attempts made again by the client before a request was answered or failed.
    pub retries: u64,
}

/// Failures of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ErrorCount {
    /// Which.
    pub kind: String,
    /// How many.
    pub count: u64,
    /// The first.
    pub example: String,
}

/// How long requests took, in seconds, without the comparison of what they brought. Percentiles are estimated from a histogram whose
/// buckets are up to a quarter wide; least and longest are exact.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Latency {
    /// The shortest.
    pub min: f64,
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

/// What became of the objects of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Cleanup {
    /// All of them are below this.
    pub prefix: String,
    /// Objects removed at the end, beside those whose deletion was measured.
    pub deleted: u64,
    /// Objects that are still there, as far as that is known.
    pub left: u64,
    /// Why some are.
    pub error: Option<String>,
}

impl Latency {
    pub(super) fn of(histogram: &HistogramSnapshot, shortest: Duration, longest: Duration) -> Latency {
        let (min, max) = (shortest.min(longest).as_secs_f64(), longest.as_secs_f64());
        let quantile = |q| histogram.quantile_duration(q).unwrap_or_default().as_secs_f64().clamp(min, max);
        Latency {
            min,
            mean: histogram.mean_duration().unwrap_or_default().as_secs_f64(),
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            p999: quantile(0.999),
            max,
        }
    }
}

impl Measurement {
    /// One that was not made.
    pub(super) fn left_out(
        operation: Operation,
        object_bytes: u64,
        concurrency: usize,
        why: String,
    ) -> Measurement {
        Measurement {
            operation,
            object_bytes,
            body_bytes: object_bytes,
            concurrency,
            left_out: Some(why),
            requests: 0,
            objects: 0,
            bytes: 0,
            seconds: 0.0,
            cpu_seconds: 0.0,
            latency: None,
            errors: Vec::new(),
            retries: 0,
        }
    }

    /// Bytes of bodies a second.
    pub fn bytes_per_second(&self) -> Option<f64> {
        (self.operation.moves_bodies() && self.seconds > 0.0 && self.bytes > 0)
            .then(|| self.bytes as f64 / self.seconds)
    }

    /// Objects a second.
    pub fn objects_per_second(&self) -> Option<f64> {
        (self.seconds > 0.0 && self.objects > 0).then(|| self.objects as f64 / self.seconds)
    }

    /// Time for an object when all requests at a time share the work: the reciprocal of the rate, not a latency.
    pub fn seconds_per_object(&self) -> Option<f64> {
        self.objects_per_second().map(f64::recip)
    }

    /// Processors kept busy by this process.
    pub fn processors(&self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.cpu_seconds / self.seconds)
    }

    /// Failures of all kinds.
    pub fn failures(&self) -> u64 {
        self.errors.iter().map(|error| error.count).sum()
    }
}

impl Report {
    /// Why the store, or the run, is not in order; empty if it is.
    pub fn problems(&self) -> Vec<String> {
        let mut problems: Vec<String> = self
            .checks
            .iter()
            .filter(|check| check.required && !check.passed)
            .map(|check| {
                format!(
                    "the store fails the check \"{}\": {}",
                    check.name,
                    check.detail.as_deref().unwrap_or("no")
                )
            })
            .collect();
        let failures = |wrong: bool| -> u64 {
            let errors = self.measurements.iter().flat_map(|measurement| &measurement.errors);
            errors.filter(|error| (error.kind == "wrong_data") == wrong).map(|error| error.count).sum()
        };
        for (count, what) in
            [(failures(true), "brought something else than was written"), (failures(false), "failed")]
        {
            if count > 0 {
                problems
                    .push(format!("{} {what}", crate::report::human::plural(count, "request", "requests")));
            }
        }
        if self.cleanup.left > 0 || self.cleanup.error.is_some() {
            let why = self.cleanup.error.as_deref().unwrap_or("their deletion did not last");
            problems.push(format!(
                "objects of this run are left below {}/{}: {why}",
                self.url.trim_end_matches('/'),
                self.cleanup.prefix
            ));
        }
        problems
    }
}
