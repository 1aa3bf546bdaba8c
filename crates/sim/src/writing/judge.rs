//! How good a run was.

use super::families::Family;
use super::gate::{Gate, Program};
use super::run::{Outcome, Setup, run};
use crate::drive::measure::{Series, jain};
use crate::engine::random::seconds;
use serde::Serialize;
use std::fmt::Write as _;

/// A gate may take so long to find its rate, seconds.
pub const CONVERGE: f64 = 2.0;
/// Waits are looked at over such pieces of time, seconds.
const PIECE: f64 = 0.25;

/// A situation, and the pieces of time in which nothing changes.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// The situation.
    pub setup: Setup,
    /// From, until, seconds; judged [`CONVERGE`] after each begin.
    pub judged: Vec<(f64, f64)>,
    /// Bytes per second that are possible, beside the store's rate.
    pub possible: f64,
}

/// One run. Of several judged pieces of time, the worst.
#[derive(Debug, Clone, Serialize)]
pub struct Judgement {
    /// What decided its numbers.
    pub seed: u64,
    /// Stored beside what the store takes.
    pub ratio: f64,
    /// Median of what is in flight, in seconds of what the store takes.
    pub queue: f64,
    /// Its 99th percentile.
    pub queue_p99: f64,
    /// Coefficient of variation of the time from acceptance to acknowledgement.
    pub delay_varies: f64,
    /// The same of the time until acceptance, in means over 250 ms.
    pub wait_varies: f64,
    /// Jain's index of what writers had accepted.
    pub jain: f64,
    /// Most memory that was used, as a share of the ceiling at first.
    pub memory: f64,
    /// Bytes that were accepted and lost.
    pub lost: u64,
    /// Acknowledgements that came again.
    pub again: u64,
    /// Writes that were given up.
    pub given_up: u64,
    /// What the gate did that it must not.
    pub violations: Vec<String>,
}

fn moments(values: impl IntoIterator<Item = f64>) -> (f64, f64) {
    let values: Vec<f64> = values.into_iter().collect();
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
    (mean, if mean > 0.0 { variance.sqrt() / mean } else { 0.0 })
}

/// The value that so many of all are at most.
pub fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let index = (values.len() as f64 * share) as usize;
    values.get(index.min(values.len().saturating_sub(1))).copied().unwrap_or(0.0)
}

/// Means over [`PIECE`] of what happened between two times.
fn pieces(values: &[(f64, f64)], from: f64, until: f64) -> Vec<f64> {
    let count = ((until - from) / PIECE) as usize;
    let mut sums = vec![(0.0, 0.0); count];
    for (at, value) in values.iter().filter(|(at, _)| (from..until).contains(at)) {
        if let Some(sum) = sums.get_mut(((at - from) / PIECE) as usize) {
            *sum = (sum.0 + value, sum.1 + 1.0);
        }
    }
    sums.into_iter().filter(|sum| sum.1 > 0.0).map(|sum| sum.0 / sum.1).collect()
}

/// Judges a run.
pub fn judge(scenario: &Scenario, outcome: &Outcome) -> Judgement {
    let setup = &scenario.setup;
    let mut judgement = Judgement {
        seed: setup.seed,
        ratio: f64::INFINITY,
        queue: 0.0,
        queue_p99: 0.0,
        delay_varies: 0.0,
        wait_varies: 0.0,
        jain: 1.0,
        memory: outcome.peak as f64 / setup.memory as f64,
        lost: outcome.lost,
        again: outcome.again,
        given_up: outcome.given_up,
        violations: outcome.violations.clone(),
    };
    for &(begin, until) in &scenario.judged {
        let from = begin + CONVERGE;
        let rate = setup.backend.rate(from).min(scenario.possible);
        let (start, end) = (seconds(from), seconds(until));
        judgement.ratio = judgement.ratio.min(outcome.stored.rate(start, end) / rate);
        let within = |at: f64| (from..until).contains(&at);
        let samples = outcome.samples.iter().filter(|sample| within(sample.at));
        let mut queue: Vec<f64> = samples.map(|sample| sample.in_flight as f64 / rate).collect();
        judgement.queue = judgement.queue.max(quantile(&mut queue, 0.5));
        judgement.queue_p99 = judgement.queue_p99.max(quantile(&mut queue, 0.99));
        let delays = outcome.delays.iter().filter(|(at, _)| within(*at)).map(|(_, delay)| *delay);
        judgement.delay_varies = judgement.delay_varies.max(moments(delays).1);
        let (_, varies) = moments(pieces(&outcome.waits, from, until));
        judgement.wait_varies = judgement.wait_varies.max(varies);
        let of = |series: &Series| series.rate(start, end);
        let shares: Vec<f64> = outcome.writers.iter().map(of).collect();
        judgement.jain = judgement.jain.min(jain(&shares));
    }
    judgement
}

/// All runs of a family.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    /// Its name.
    pub family: &'static str,
    /// How many.
    pub runs: usize,
    /// Median of [`Judgement::ratio`].
    pub ratio: f64,
    /// The least.
    pub worst: f64,
    /// Median of [`Judgement::queue`].
    pub queue: f64,
    /// The most.
    pub queue_worst: f64,
    /// Most that any delay varied.
    pub delay_varies: f64,
    /// Most that any mean wait varied.
    pub wait_varies: f64,
    /// The least index.
    pub jain: f64,
    /// Most memory.
    pub memory: f64,
    /// Bytes lost, of all runs.
    pub lost: u64,
    /// What gates did that they must not, of all runs.
    pub violations: Vec<String>,
    /// Which bounds are broken.
    pub broken: Vec<&'static str>,
}

impl Summary {
    fn of(family: &Family, runs: &[Judgement]) -> Summary {
        let all = |value: fn(&Judgement) -> f64| runs.iter().map(value).collect::<Vec<f64>>();
        let most = |value: fn(&Judgement) -> f64| all(value).into_iter().fold(0.0, f64::max);
        let least = |value: fn(&Judgement) -> f64| all(value).into_iter().fold(f64::INFINITY, f64::min);
        let mut summary = Summary {
            family: family.name,
            runs: runs.len(),
            ratio: quantile(&mut all(|run| run.ratio), 0.5),
            worst: least(|run| run.ratio),
            queue: quantile(&mut all(|run| run.queue), 0.5),
            queue_worst: most(|run| run.queue),
            delay_varies: most(|run| run.delay_varies),
            wait_varies: most(|run| run.wait_varies),
            jain: least(|run| run.jain),
            memory: most(|run| run.memory),
            lost: runs.iter().map(|run| run.lost).sum(),
            violations: runs.iter().flat_map(|run| run.violations.clone()).take(10).collect(),
            broken: Vec::new(),
        };
        for (name, holds) in [
            ("ratio", summary.worst >= 0.95),
            ("queue", summary.queue_worst <= 0.25 || !family.short),
            ("varies", summary.delay_varies < 0.1 || !family.even),
            ("jain", summary.jain >= 0.95 || !family.fair),
            ("memory", summary.memory <= 1.0),
            ("lost", summary.lost == 0),
            ("violations", summary.violations.is_empty()),
        ] {
            if !holds {
                summary.broken.push(name);
            }
        }
        summary
    }

    /// Above [`line`](Summary::line).
    pub fn heading() -> &'static str {
        "scenario      runs  ratio  worst  queue s  worst s  delay cv  wait cv   jain  memory  lost  broken"
    }

    /// In a table.
    pub fn line(&self) -> String {
        let mut line = format!(
            "{:13} {:4}  {:5.3}  {:5.3}  {:7.3}  {:7.3}  {:8.3}  {:7.3}  {:5.3}  {:6.3}  {:4}",
            self.family,
            self.runs,
            self.ratio,
            self.worst,
            self.queue,
            self.queue_worst,
            self.delay_varies,
            self.wait_varies,
            self.jain,
            self.memory,
            self.lost,
        );
        for broken in &self.broken {
            let _ = write!(line, "  {broken}");
        }
        for violation in &self.violations {
            let _ = write!(line, "\n    {violation}");
        }
        line
    }
}

/// The program's own gate in a scenario.
pub fn run_program(scenario: &Scenario) -> Outcome {
    let setup = &scenario.setup;
    let gate: &mut dyn Gate = &mut Program::new(setup.memory, setup.part);
    run(setup, gate)
}

/// Each family with seeds `first..first + seeds`.
pub fn run_all(families: &[Family], first: u64, seeds: u64) -> Vec<Summary> {
    let of = |family: &Family| {
        let runs: Vec<u64> = (first..first.saturating_add(seeds)).collect();
        let judgements = crate::scenarios::in_parallel(&runs, |&seed| {
            let scenario = family.draw(seed);
            judge(&scenario, &run_program(&scenario))
        });
        Summary::of(family, &judgements)
    };
    families.iter().map(of).collect()
}
