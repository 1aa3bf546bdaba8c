//! Looks for the [`Parameters`] with which the model gives both of the ticket's tables.
//!
//! A seeded random search within the plausible bounds, then coordinate descent with steps of several
//! parameters at random in between. One set of parameters serves both tables. A candidate is dropped as
//! soon as the cells so far make it worse than the best, which changes nothing but the time it takes.

use std::time::{Duration, Instant};

use super::client::Settings;
use super::grid::{Effort, Grid, mean};
use super::parameters::{FIELDS, Field, Parameters};
use super::random::Random;
use super::server::Variant;

/// What order brings at least with the prefetcher on, MB/s: about the ticket's best cell.
const ORDERED: f64 = 900.0;

/// Weight of falling short of it, beside the errors of the tables.
const IMPLAUSIBLE: f64 = 0.3;

/// Where a search starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Start {
    /// The parameters that are kept in the program.
    Kept,
    /// What the parts are known to take.
    Guess,
}

/// What `headrace-sim fit-lustre` takes.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// The same seed and number of evaluations give the same result
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Stop after so many seconds
    #[arg(long, default_value_t = 60.0)]
    pub seconds: f64,
    /// Stop after so many candidates
    #[arg(long, default_value_t = u64::MAX, hide_default_value = true)]
    pub evaluations: u64,
    /// Part of the candidates that are looked for all over the plausible range, before the best is refined
    #[arg(long, default_value_t = 0.3)]
    pub explore: f64,
    /// Where to start
    #[arg(long, value_enum, default_value = "guess")]
    pub from: Start,
    /// Rows (max_rpcs_in_flight) to fit without and to test on
    #[arg(long, value_delimiter = ',')]
    pub hold_out: Vec<usize>,
}

/// What a search found.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The best parameters.
    pub parameters: Parameters,
    /// Candidates looked at.
    pub evaluations: u64,
    /// Mean |log error| with the prefetcher on and off, over the rows that were fitted, as shown
    /// ([`Effort::SHOWN`], other seeds than the fit's).
    pub fitted: [f64; 2],
    /// The same over the rows held out, if any were.
    pub held_out: Option<[f64; 2]>,
}

/// Searches until the time or the evaluations are used up; `report` is told of every improvement.
pub fn fit(options: &Options, report: &mut dyn FnMut(u64, f64)) -> Outcome {
    let tickets = [Grid::ticket(true), Grid::ticket(false)];
    let mut search = Search {
        random: Random::new(options.seed),
        cells: cells(&tickets, &options.hold_out),
        best: match options.from {
            Start::Kept => Parameters::FITTED,
            Start::Guess => Parameters::GUESS,
        },
        cost: f64::INFINITY,
        evaluations: 0,
        limit: options.evaluations,
        deadline: Instant::now() + Duration::from_secs_f64(options.seconds.clamp(0.0, 1e6)),
        started: Instant::now(),
        report,
    };
    search.consider(search.best);
    search.explore(options.explore.clamp(0.0, 1.0));
    search.refine();
    let parameters = search.best;
    let evaluations = search.evaluations;
    let held = |rpcs: usize| options.hold_out.contains(&rpcs);
    let models = [true, false].map(|on| Grid::model(&parameters, on, Variant::Ticket, Effort::SHOWN));
    let errors = |rows: &dyn Fn(usize) -> bool| [0, 1].map(|grid| models[grid].error(&tickets[grid], rows));
    Outcome {
        parameters,
        evaluations,
        fitted: errors(&|rpcs| !held(rpcs)),
        held_out: (!options.hold_out.is_empty()).then(|| errors(&held)),
    }
}

struct Cell {
    prefetch: bool,
    settings: Settings,
    ticket: f64,
}

/// The cells to fit, of both tables in turn, those that tell most about the rest first.
fn cells(tickets: &[Grid; 2], hold_out: &[usize]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for column in [4, 1, 0, 3, 2] {
        for row in [0, 6, 2, 4, 8, 1, 3, 5, 7] {
            for (ticket, prefetch) in tickets.iter().zip([true, false]) {
                let figure = ticket.cells.get(row).and_then(|cells| cells.get(column));
                let (Some(&rpcs), Some(&readahead_mib), Some(&ticket)) =
                    (ticket.rpcs.get(row), ticket.readahead_mib.get(column), figure)
                else {
                    continue;
                };
                if !hold_out.contains(&rpcs) {
                    cells.push(Cell { prefetch, settings: Settings { rpcs, readahead_mib }, ticket });
                }
            }
        }
    }
    cells
}

struct Search<'a> {
    random: Random,
    cells: Vec<Cell>,
    best: Parameters,
    cost: f64,
    evaluations: u64,
    limit: u64,
    started: Instant,
    deadline: Instant,
    report: &'a mut dyn FnMut(u64, f64),
}

impl Search<'_> {
    fn done(&self) -> bool {
        self.evaluations >= self.limit || Instant::now() >= self.deadline
    }

    /// Keeps `candidate` if it is better.
    fn consider(&mut self, candidate: Parameters) -> bool {
        self.evaluations += 1;
        let cost = self.evaluate(&candidate);
        if cost >= self.cost {
            return false;
        }
        self.best = candidate;
        self.cost = cost;
        (self.report)(self.evaluations, cost);
        true
    }

    /// The larger of both tables' mean errors, half their sum, and what speaks against the candidate
    /// otherwise; infinite once it cannot be the best.
    fn evaluate(&self, candidate: &Parameters) -> f64 {
        let per_table = (self.cells.len() as f64 / 2.0).max(1.0);
        let mut sums = [0.0; 2];
        let implausible = IMPLAUSIBLE * implausibility(candidate);
        let mut cost = implausible;
        for cell in &self.cells {
            let model = mean(candidate, cell.settings, cell.prefetch, Variant::Ticket, Effort::FIT);
            sums[usize::from(cell.prefetch)] += (model / cell.ticket).ln().abs() / per_table;
            cost = implausible + f64::max(sums[0], sums[1]) + 0.5 * (sums[0] + sums[1]);
            if cost >= self.cost {
                return f64::INFINITY;
            }
        }
        cost
    }

    /// All over the plausible range, half of the candidates uniformly, half around the best.
    fn explore(&mut self, part: f64) {
        let limit = (self.limit as f64 * part) as u64;
        let time = (self.deadline - self.started).mul_f64(part);
        while self.evaluations < limit && self.started.elapsed() < time && !self.done() {
            let mut candidate = self.best;
            let all = self.random.unit() < 0.5;
            for field in FIELDS {
                let value = if all {
                    let (low, high) = (field.low.ln(), field.high.ln());
                    (low + self.random.unit() * (high - low)).exp()
                } else {
                    (field.get)(&self.best) * (0.4 * self.random.normal()).exp()
                };
                set(field, &mut candidate, value);
            }
            self.consider(candidate);
        }
    }

    /// One parameter after another, up and down, with steps that adapt; between rounds several at once.
    fn refine(&mut self) {
        let mut steps = vec![0.25; FIELDS.len()];
        let mut spread = 0.15;
        while !self.done() {
            for (field, step) in FIELDS.iter().zip(&mut steps) {
                let up = self.random.unit() < 0.5;
                let better = [up, !up].iter().any(|&up| !self.done() && self.nudge(field, *step, up));
                *step = if better { f64::min(*step * 1.6, 0.8) } else { f64::max(*step * 0.6, 0.01) };
            }
            for _ in 0..FIELDS.len() {
                if self.done() {
                    return;
                }
                let mut candidate = self.best;
                for _ in 0..2 + self.random.below(3) {
                    let field = &FIELDS[self.random.below(FIELDS.len())];
                    let value = (field.get)(&candidate) * (spread * self.random.normal()).exp();
                    set(field, &mut candidate, value);
                }
                spread = if self.consider(candidate) {
                    f64::min(spread * 1.5, 0.5)
                } else {
                    f64::max(spread * 0.95, 0.02)
                };
            }
            // A search that found nothing for long looks further away again.
            if spread <= 0.02 {
                spread = 0.3;
                steps.fill(0.25);
            }
        }
    }

    fn nudge(&mut self, field: &Field, step: f64, up: bool) -> bool {
        let before = (field.get)(&self.best);
        let factor = if up { step.exp() } else { (-step).exp() };
        let mut value = before * factor;
        if field.whole && value.round() == before {
            value = if up { before + 1.0 } else { before - 1.0 };
        }
        let mut candidate = self.best;
        set(field, &mut candidate, value);
        (field.get)(&candidate) != before && self.consider(candidate)
    }
}

/// How far the speed falls short of what order, or a prefetcher that tolerates disorder, must bring with many
/// RPCs in flight, as a mean |log|. Parameters that give both tables for another reason are not wanted.
fn implausibility(candidate: &Parameters) -> f64 {
    let mut sum = 0.0;
    for variant in [Variant::OrderKept, Variant::Tolerant] {
        for rpcs in [8, 32] {
            let settings = Settings { rpcs, readahead_mib: 256 };
            let speed = mean(candidate, settings, true, variant, Effort::FIT);
            sum += f64::max((ORDERED / speed).ln(), 0.0);
        }
    }
    sum / 4.0
}

fn set(field: &Field, parameters: &mut Parameters, value: f64) {
    let value = value.clamp(field.low, field.high);
    (field.set)(parameters, if field.whole { value.round() } else { value });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(evaluations: u64) -> Options {
        Options {
            seed: 3,
            seconds: 1e6,
            evaluations,
            explore: 0.5,
            from: Start::Guess,
            hold_out: vec![4, 32],
        }
    }

    #[test]
    fn a_search_is_repeatable_improves_and_stays_within_the_bounds() {
        let mut costs = Vec::new();
        let mut run = || {
            costs.clear();
            let tickets = [Grid::ticket(true), Grid::ticket(false)];
            let mut cells = cells(&tickets, &options(0).hold_out);
            assert_eq!(cells.len(), 70, "two rows of five in two tables are held out");
            // A corner of the tables, to be quick.
            cells.truncate(8);
            let mut report = |_, cost| costs.push(cost);
            let mut search = Search {
                random: Random::new(3),
                cells,
                best: Parameters::GUESS,
                cost: f64::INFINITY,
                evaluations: 0,
                limit: 40,
                started: Instant::now(),
                deadline: Instant::now() + Duration::from_secs(3600),
                report: &mut report,
            };
            search.consider(Parameters::GUESS);
            search.explore(0.5);
            search.refine();
            assert_eq!(search.evaluations, 40);
            search.best
        };
        let best = run();
        assert_eq!(best, run());
        assert!(costs.len() > 1 && costs.windows(2).all(|pair| pair[1] < pair[0]), "{costs:?}");
        for field in FIELDS {
            assert!((field.low..=field.high).contains(&(field.get)(&best)), "{}", field.name);
        }
    }
}
