//! A run in progress: time, noise, and what was found so far.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use super::results::{Results, Sample};
use super::{Pace, PartName};
use crate::account::{Others, wait_quiet};
use crate::failure::Result;
use crate::runner;

/// How often a figure is taken at most.
const ATTEMPTS: u32 = 3;
/// How long a quiet machine is waited for.
const PATIENCE: Duration = Duration::from_secs(20);
/// Name of the value that says how noisy it was.
pub const OTHERS: &str = "others";

/// Where a figure belongs.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a, P> {
    /// The part.
    pub part: P,
    /// The row.
    pub row: &'a str,
    /// Who is measured.
    pub contender: &'a str,
    /// From 0.
    pub repetition: u32,
}

/// A figure's values, and throughput over time if that matters.
pub type Figure = (BTreeMap<&'static str, f64>, Vec<f64>);

/// A run.
#[derive(Debug)]
pub struct Run<'a, P> {
    /// What was asked for.
    pub pace: &'a Pace,
    results: Results<P>,
    started: Instant,
    done: usize,
    expected: usize,
    terminal: bool,
}

impl<'a, P: PartName> Run<'a, P> {
    /// Nothing is measured yet but what an earlier run found.
    pub fn new(pace: &'a Pace, earlier: Option<Results<P>>, started: Instant) -> Run<'a, P> {
        let terminal = std::io::stderr().is_terminal();
        let results = earlier.unwrap_or_else(Results::now);
        Run {
            pace,
            results: Results { not_measured: Vec::new(), ..results },
            started,
            done: 0,
            expected: 0,
            terminal,
        }
    }

    /// The repetitions of a part that are to be done.
    pub fn repetitions(&self, part: P) -> std::ops::Range<u32> {
        let done = self.results.samples.iter().filter(|sample| sample.part == part);
        let first = done.map(|sample| sample.repetition + 1).max().unwrap_or(0);
        first..first + self.pace.repeat
    }

    /// What it runs on.
    pub fn describe(&mut self, dir: &Path, server: String, headrace: String) {
        self.results.machine = runner::machine(dir);
        (self.results.server, self.results.headrace) = (server, headrace);
    }

    /// Whose figures are to be taken in a row, in turns: another one begins each time.
    pub fn in_turns<T>(&mut self, contenders: &mut [T], turn: usize) {
        contenders.rotate_left(turn % contenders.len().max(1));
        self.expect(contenders.len());
    }

    /// So many figures more are to be taken.
    pub fn expect(&mut self, figures: usize) {
        self.expected += figures;
    }

    /// Whether a row was asked for.
    pub fn wants(&self, row: &str) -> bool {
        self.pace.rows.is_empty() || self.pace.rows.iter().any(|begin| row.starts_with(begin.as_str()))
    }

    /// Whether a contender was asked for.
    pub fn wants_contender(&self, contender: &str) -> bool {
        let wanted = &self.pace.contenders;
        wanted.is_empty() || wanted.iter().any(|begin| contender.starts_with(begin.as_str()))
    }

    /// What was found so far.
    pub fn results(&self) -> &Results<P> {
        &self.results
    }

    /// Time that is left.
    pub fn left(&self) -> Duration {
        self.pace.budget.saturating_sub(self.started.elapsed())
    }

    /// Takes a figure, on a machine that is as quiet as it gets: noisy ones are taken again, and the quietest one counts. A failure is a
    /// result too.
    pub fn take(&mut self, place: Place<'_, P>, body: impl Fn() -> Result<Figure>) {
        self.done += 1;
        if self.left().is_zero() {
            self.missed(place.part, place.row);
            return;
        }
        self.show(&format!("{:?} {} {}", place.part, place.row, place.contender));
        let mut best: Option<(f64, Figure)> = None;
        let (mut failed, noise) = (None, self.pace.noise);
        for attempt in 0..ATTEMPTS {
            if attempt > 0 && self.left().is_zero() {
                break;
            }
            wait_quiet(noise, PATIENCE.min(self.left()));
            let watch = Others::watch();
            match body() {
                Ok(figure) => {
                    let others = watch.cores();
                    if best.as_ref().is_none_or(|(least, _)| others < *least) {
                        best = Some((others, figure));
                    }
                    if others < noise {
                        break;
                    }
                }
                Err(failure) => {
                    failed = Some(failure.to_string());
                    break;
                }
            }
        }
        // What failed once counts, though another attempt did not.
        let (others, (values, series)) = match (best, &failed) {
            (Some((others, figure)), None) => (Some(others), figure),
            _ => (None, Figure::default()),
        };
        let mut values: BTreeMap<String, f64> =
            values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        values.extend(others.map(|others| (OTHERS.to_owned(), others)));
        self.add(place, failed, values, series);
    }

    /// Takes down what was measured elsewhere.
    pub fn add(
        &mut self,
        place: Place<'_, P>,
        failed: Option<String>,
        values: BTreeMap<String, f64>,
        series: Vec<f64>,
    ) {
        let said: Vec<String> = values.iter().map(|(name, value)| format!("{name} {value:.3}")).collect();
        let what = failed.as_ref().map_or(said.join(", "), |why| format!("failed: {why}"));
        self.line(&format!("{:?} {} {}: {what}", place.part, place.row, place.contender));
        self.results.samples.push(Sample {
            part: place.part,
            row: place.row.to_owned(),
            contender: place.contender.to_owned(),
            repetition: place.repetition,
            failed,
            values,
            series,
        });
        // The whole is saved at the end, and a failure told then.
        let _ = std::fs::create_dir_all(self.pace.partial.parent().unwrap_or(Path::new(".")));
        let _ = self.results.save(&self.pace.partial);
    }

    /// Says why something was left out.
    pub fn leave_out(&mut self, why: String) {
        if !self.results.not_measured.contains(&why) {
            self.line(&format!("not measured: {why}"));
            self.results.not_measured.push(why);
        }
    }

    /// There is no time for a row; that it was measured less often than asked is not worth a word.
    fn missed(&mut self, part: P, row: &str) {
        if !self.results.rows(part).contains(&row) {
            self.leave_out(format!("{part:?} {row}: no time was left"));
        }
    }

    /// The end.
    pub fn finish(mut self) -> Results<P> {
        self.show("");
        self.results.took_seconds += self.started.elapsed().as_secs_f64();
        Results { date: Results::<P>::now().date, ..self.results }
    }

    fn line(&self, text: &str) {
        self.show("");
        let passed = humantime::format_duration(Duration::from_secs(self.started.elapsed().as_secs()));
        eprintln!("{passed:>8}  [{}/{}] {text}", self.done, self.expected.max(self.done));
    }

    /// What is being done: one line that is written over, on a terminal only.
    fn show(&self, text: &str) {
        if self.terminal {
            let left = self.left().as_secs();
            let line = if text.is_empty() { String::new() } else { format!("{text} ... ({left} s left)") };
            let _ = write!(std::io::stderr(), "\r\x1b[K{line}");
        }
    }
}
