//! How good a run was.

use super::catalogue::Family;
use super::scenario::Scenario;
use crate::drive::Outcome;
use crate::drive::measure::{Series, jain};
use serde::Serialize;
use std::time::Duration;

/// A controller may take so long to find its rate.
pub const CONVERGE: Duration = Duration::from_secs(2);
/// It has found it when it takes this share of what is possible.
const FOUND: f64 = 0.9;

/// One run.
#[derive(Debug, Clone, Serialize)]
pub struct Judgement {
    /// What decided the numbers.
    pub seed: u64,
    /// Throughput beside the oracle's, of the worst judged piece of time, after [`CONVERGE`].
    pub ratio: f64,
    /// When that piece begins, seconds.
    pub worst_from: f64,
    /// Bytes per second that the oracle has there.
    pub possible: f64,
    /// Longest time until its rate was found, seconds; none if it never was.
    pub converged: Option<f64>,
    /// Jain's index of what each reader got beside what it could get; the worst piece of time.
    pub fairness: f64,
    /// Coefficient of variation of throughput, where it is even by nature.
    pub variation: Option<f64>,
    /// The same of what came over the network: what readers take varies besides, since what is ahead of a missing part is taken with it.
    pub network: Option<f64>,
    /// Share of the bytes that were fetched in vain.
    pub wasted: f64,
    /// The largest part of the ceiling that was used.
    pub memory: f64,
    /// By how much the ceiling was passed, bytes.
    pub above_ceiling: u64,
    /// Second attempts, as a share of all fetches.
    pub hedged: f64,
    /// Reads that failed.
    pub errors: u64,
    /// What the controller did that it must not.
    pub violations: Vec<String>,
}

/// Judges a run of a scenario.
pub fn judge(scenario: &Scenario, outcome: &Outcome) -> Judgement {
    let mut ratio = f64::INFINITY;
    let (mut worst_from, mut possible) = (0.0, 0.0);
    let mut converged = Some(0.0f64);
    let mut fairness = 1.0f64;
    let (mut variation, mut network) = (None, None);
    let arrived = outcome.arrived();
    for &judged in &scenario.judged {
        let present = scenario.present(judged);
        let best = scenario.best(judged);
        let could: f64 = best.iter().sum();
        if could <= 0.0 {
            continue;
        }
        let from = judged.from + CONVERGE;
        let rates: Vec<f64> =
            present.iter().map(|&index| outcome.readers[index].rate(from, judged.until)).collect();
        let total = Series::sum(present.iter().map(|&index| &outcome.readers[index]));
        let reached = rates.iter().sum::<f64>() / could;
        if reached < ratio {
            ratio = reached;
            (worst_from, possible) = (judged.from.as_secs_f64(), could);
        }
        let shares: Vec<f64> = rates.iter().zip(&best).map(|(rate, best)| rate / best).collect();
        fairness = fairness.min(jain(&shares));
        let found = total.reaches(FOUND * could, judged.from, judged.until).map(|time| time.as_secs_f64());
        converged = converged.zip(found).map(|(a, b)| a.max(b));
        if scenario.even {
            for (most, of) in [(&mut variation, &total), (&mut network, &arrived)] {
                let varies = of.variation(from, judged.until);
                *most = Some(most.map_or(varies, |before: f64| before.max(varies)));
            }
        }
    }
    Judgement {
        seed: scenario.seed,
        ratio,
        worst_from,
        possible,
        converged,
        fairness,
        variation,
        network,
        wasted: outcome.wasted,
        memory: outcome.peak as f64 / scenario.limits.memory as f64,
        above_ceiling: outcome.above_ceiling,
        hedged: outcome.hedges as f64 / outcome.fetches.max(1) as f64,
        errors: outcome.errors,
        violations: outcome.violations.clone(),
    }
}

/// All runs of one family. "Worst" is over all seeds.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    /// The family.
    pub family: &'static str,
    /// How many runs.
    pub runs: usize,
    /// Median of the throughput beside the oracle's.
    pub median: f64,
    /// The worst of it, and its seed.
    pub worst: f64,
    /// See `worst`.
    pub worst_seed: u64,
    /// Longest time to find the rate, seconds; none if it was not found in some run.
    pub converged: Option<f64>,
    /// Least Jain index.
    pub fairness: f64,
    /// Largest coefficient of variation.
    pub variation: Option<f64>,
    /// The same of what came over the network.
    pub network: Option<f64>,
    /// Largest share of bytes fetched in vain.
    pub wasted: f64,
    /// Largest part of the ceiling used.
    pub memory: f64,
    /// Most bytes above the ceiling.
    pub above_ceiling: u64,
    /// Largest share of second attempts.
    pub hedged: f64,
    /// Reads that failed, in all runs.
    pub errors: u64,
    /// What controllers did that they must not; the first few.
    pub violations: Vec<String>,
    /// The bounds that it breaks; empty if it is as it must be.
    pub broken: Vec<&'static str>,
}

/// What a controller must reach.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Median throughput beside the oracle's, at least.
    pub median: f64,
    /// The worst, at least.
    pub worst: f64,
    /// Jain's index, at least.
    pub fairness: f64,
    /// Variation, at most.
    pub variation: f64,
    /// Second attempts, at most.
    pub hedged: f64,
}

impl Default for Bounds {
    fn default() -> Bounds {
        // Hedges: a burst beyond the budget shows in short runs.
        Bounds { median: 0.97, worst: 0.90, fairness: 0.95, variation: 0.10, hedged: 0.025 }
    }
}

/// Sums up one family's runs.
pub fn summarise(family: &Family, judgements: &[Judgement]) -> Summary {
    let mut ratios: Vec<f64> = judgements.iter().map(|judgement| judgement.ratio).collect();
    ratios.sort_by(f64::total_cmp);
    let worst = judgements.iter().min_by(|a, b| a.ratio.total_cmp(&b.ratio));
    let most = |of: fn(&Judgement) -> f64| judgements.iter().map(of).fold(0.0, f64::max);
    let mut summary = Summary {
        family: family.name,
        runs: judgements.len(),
        median: ratios.get(ratios.len() / 2).copied().unwrap_or(0.0),
        worst: worst.map_or(0.0, |judgement| judgement.ratio),
        worst_seed: worst.map_or(0, |judgement| judgement.seed),
        converged: judgements
            .iter()
            .map(|judgement| judgement.converged)
            .try_fold(0.0, |most: f64, one| Some(most.max(one?))),
        fairness: judgements.iter().map(|judgement| judgement.fairness).fold(1.0, f64::min),
        variation: judgements.iter().filter_map(|judgement| judgement.variation).reduce(f64::max),
        network: judgements.iter().filter_map(|judgement| judgement.network).reduce(f64::max),
        wasted: most(|judgement| judgement.wasted),
        memory: most(|judgement| judgement.memory),
        above_ceiling: judgements.iter().map(|judgement| judgement.above_ceiling).max().unwrap_or(0),
        hedged: most(|judgement| judgement.hedged),
        errors: judgements.iter().map(|judgement| judgement.errors).sum(),
        violations: judgements
            .iter()
            .flat_map(|judgement| judgement.violations.iter().cloned())
            .take(5)
            .collect(),
        broken: Vec::new(),
    };
    summary.broken = summary.broken(family, &Bounds::default());
    summary
}

impl Summary {
    fn broken(&self, family: &Family, bounds: &Bounds) -> Vec<&'static str> {
        let mut broken = Vec::new();
        let mut check = |holds: bool, name| {
            if !holds {
                broken.push(name);
            }
        };
        check(self.median >= bounds.median, "median");
        check(self.worst >= bounds.worst, "worst");
        check(self.converged.is_some_and(|time| time <= CONVERGE.as_secs_f64()), "converged");
        check(self.fairness >= bounds.fairness, "fairness");
        check(self.variation.is_none_or(|variation| variation <= bounds.variation), "variation");
        check(self.wasted <= family.waste, "wasted");
        check(self.above_ceiling == 0, "memory");
        check(self.hedged <= bounds.hedged, "hedged");
        check(self.errors == 0, "errors");
        check(self.violations.is_empty(), "violations");
        broken
    }
}

impl Summary {
    /// The names of what [`line`](Summary::line) shows.
    pub fn heading() -> String {
        format!(
            "{:16}{:>6}{:>8}{:>8}{:>7}{:>8}{:>7}{:>9}{:>7}{:>7}{:>7}{:>7}  {}",
            "scenario",
            "runs",
            "median",
            "worst",
            "seed",
            "found s",
            "Jain",
            "varies",
            "network",
            "wasted",
            "memory",
            "hedged",
            "broken"
        )
    }

    /// As one line of text.
    pub fn line(&self) -> String {
        let maybe = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
        let mut line = format!(
            "{:16}{:>6}{:>8.3}{:>8.3}{:>7}{:>8}{:>7.3}{:>7}{:>9}{:>7.3}{:>7.2}{:>7.3}  {}",
            self.family,
            self.runs,
            self.median,
            self.worst,
            self.worst_seed,
            maybe(self.converged),
            self.fairness,
            maybe(self.variation),
            maybe(self.network),
            self.wasted,
            self.memory,
            self.hedged,
            self.broken.join(" ")
        );
        for violation in &self.violations {
            line.push_str("\n    ");
            line.push_str(violation);
        }
        line
    }
}
