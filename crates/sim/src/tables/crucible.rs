//! Crucible: random writes of 1 MiB, delayed by a law that counts what is in flight, with or without what is done and not flushed.
//!
//! Why counting what is done is wrong: it stays until a flush, so the delay is a sawtooth that has nothing to do with how long a write takes.
//! Constants:
//! - [`RATE`]: what the store takes. The document says "above 700".
//! - The law and what it counts are those of the document; the budgets of #1515 are those of its change. See [`gate`].
//! - [`FLUSH`]: Crucible flushes half a second after the last flush. How long a flush takes is not in the document: it is chosen such
//!   that the law that counts what is done reaches the document's 550. It is the only fitted constant.

use super::founding::{Founding, Row, csv};
use crate::plot::{Axis, Chart, Figure, Line};
use crate::writing::backend::Spec;
use crate::writing::gate::{DelayLaw, Gate, Permits, Program};
use crate::writing::judge::quantile;
use crate::writing::{Flush, Outcome, Setup, Writer, run};
use std::time::Duration;

const MIB: u64 = 1 << 20;
const MIB_S: f64 = (1 << 20) as f64;
/// MiB per second.
const RATE: f64 = 710.0;
/// See the [module](self).
const FLUSH: Flush = Flush { every: 0.5, takes: 0.36 };
/// What is measured of a run, seconds.
const JUDGED: (f64, f64) = (10.0, 30.0);

const DATA: &str = include_str!("../../data/crucible-write-backpressure.csv");

/// What admits writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Law {
    /// A delay that counts what is in flight and what is done (#1192).
    AndDone,
    /// A delay that counts what is in flight (#1208).
    InFlight,
    /// Permits (#1515).
    Permits,
    /// The program's own.
    Default,
}

impl Law {
    const ALL: [Law; 4] = [Law::AndDone, Law::InFlight, Law::Permits, Law::Default];

    fn name(self) -> &'static str {
        match self {
            Law::AndDone => "delay, in flight and done (#1192)",
            Law::InFlight => "delay, in flight only (#1208)",
            Law::Permits => "permits (#1515)",
            Law::Default => "default",
        }
    }

    /// For a legend.
    fn short(self) -> &'static str {
        match self {
            Law::AndDone => "#1192",
            Law::InFlight => "#1208",
            Law::Permits => "#1515",
            Law::Default => "default",
        }
    }

    fn gate(self) -> Box<dyn Gate> {
        match self {
            Law::AndDone => Box::new(DelayLaw::new(true)),
            Law::InFlight => Box::new(DelayLaw::new(false)),
            Law::Permits => Box::new(Permits::new()),
            Law::Default => Box::new(Program::new(4 << 30, MIB)),
        }
    }
}

/// What one run showed.
#[derive(Debug, Clone, Copy)]
pub struct Shown {
    /// MiB per second.
    pub rate: f64,
    /// Median of what is in flight, in seconds of what the store takes.
    pub queue: f64,
    /// Its 99th percentile.
    pub queue_p99: f64,
}

/// One writer of writes of 1 MiB, and a store that takes so many MiB per second.
fn simulate(law: Law, rate: f64, flush: Flush, seed: u64) -> Outcome {
    let setup = Setup {
        writers: vec![Writer { think: 20e-6, ..Writer::greedy(MIB) }],
        backend: Spec::steady(rate * MIB_S),
        part: MIB,
        memory: 16 << 30,
        memory_steps: Vec::new(),
        flush,
        replay: 0.0,
        hedge: 0.0,
        duration: JUDGED.1,
        seed,
    };
    run(&setup, law.gate().as_mut())
}

fn shown(law: Law, rate: f64, flush: Flush, seed: u64) -> Shown {
    let outcome = simulate(law, rate, flush, seed);
    assert_eq!(outcome.violations, [""; 0], "{law:?}");
    let (from, until) = JUDGED;
    let samples = outcome.samples.iter().filter(|sample| (from..until).contains(&sample.at));
    let mut queue: Vec<f64> = samples.map(|sample| sample.in_flight as f64 / (rate * MIB_S)).collect();
    Shown {
        rate: outcome.stored.rate(Duration::from_secs_f64(from), Duration::from_secs_f64(until)) / MIB_S,
        queue: quantile(&mut queue, 0.5),
        queue_p99: quantile(&mut queue, 0.99),
    }
}

/// Intervals between flushes, seconds: from a twentieth of Crucible's to twenty times it.
const SWEEP: [f64; 7] = [0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

fn row(setting: &str, document: Option<f64>, law: Law, value: f64) -> Row {
    let default = (law == Law::Default).then_some(value);
    let model = (law != Law::Default).then_some(value);
    Row { setting: setting.to_owned(), document, model, default }
}

/// How fast one writes, by what is counted; and over the time between flushes.
pub fn table() -> Founding {
    let mut table = Founding::new("Crucible, random writes of 1 MiB", "MiB/s");
    let documents = csv(DATA);
    let of = |index: usize| documents.get(index).and_then(|row| row.get(1).copied());
    let mut rates = Vec::new();
    for law in Law::ALL {
        let document = match law {
            Law::AndDone => of(0),
            Law::InFlight => of(1),
            Law::Permits | Law::Default => None,
        };
        let Shown { rate, .. } = shown(law, RATE, FLUSH, 1);
        table.rows.push(row(law.name(), document, law, rate));
        if let Some(document) = document {
            let near = (rate / document - 1.0).abs() <= 0.05;
            table.check(near, format!("{}: {rate:.0}, the document {document:.0}", law.name()));
        }
        rates.push(rate);
    }
    table.check(rates[3] >= 700.0, format!("the default writes {:.0} of at least 700 MiB/s", rates[3]));
    let title = "Crucible, writes over the time between flushes";
    let ticks = SWEEP.map(|every| every * 1e3);
    let mut chart = Chart::new(title, Axis::doublings("ms between flushes", ticks), Axis::linear("MiB/s"));
    for law in [Law::AndDone, Law::InFlight, Law::Default] {
        let points: Vec<(f64, f64)> =
            SWEEP.map(|every| (every * 1e3, shown(law, RATE, Flush { every, ..FLUSH }, 1).rate)).to_vec();
        let spread = spread(&points);
        for &(every, rate) in &points {
            table.rows.push(row(&format!("{}, a flush every {every} ms", law.name()), None, law, rate));
        }
        if law == Law::Default {
            table.check(
                spread <= 0.01,
                format!("the default over all of them: {:.2} % apart", spread * 100.0),
            );
        }
        chart = chart.with(Line::through(law.short(), points));
    }
    table.charts.push(chart);
    table
}

fn spread(points: &[(f64, f64)]) -> f64 {
    let most = points.iter().map(|point| point.1).fold(0.0, f64::max);
    points.iter().map(|point| 1.0 - point.1 / most).fold(0.0, f64::max)
}

/// What stands in the queue, in seconds of what the store takes; beside what the laws say that it is.
pub fn queue_table() -> Founding {
    let mut table = Founding::new("Crucible, standing queue", "seconds of what the store takes");
    let mut lines: Vec<(Law, Vec<(f64, f64)>)> = Vec::new();
    for law in [Law::InFlight, Law::Permits, Law::Default] {
        let mut points = Vec::new();
        for rate in [70.0, 700.0] {
            let document = match (law, rate < 100.0) {
                (Law::InFlight, false) => Some(351.0 / 700.0),
                (Law::InFlight, true) => Some(1001.0 / 70.0),
                (Law::Permits, false) => Some(75.0 / 700.0),
                (Law::Permits, true) => Some(75.0 / 70.0),
                _ => None,
            };
            let Shown { queue, queue_p99, .. } = shown(law, rate, FLUSH, 1);
            table.rows.push(row(&format!("{}, {rate} MiB/s", law.name()), document, law, queue));
            points.push((rate, queue));
            if law == Law::Default {
                let what = format!(
                    "{rate} MiB/s: the default's is {queue:.3} s, 99 of 100 at most {queue_p99:.3} s"
                );
                table.check(queue <= 0.25 && queue_p99 <= 0.25, what);
            } else if let Some(document) = document {
                let near = (queue / document - 1.0).abs() <= 0.1;
                table.check(
                    near,
                    format!("{}, {rate} MiB/s: {queue:.2}, as the law says {document:.2}", law.name()),
                );
            }
        }
        lines.push((law, points));
    }
    let title = "Crucible, standing queue";
    let mut chart =
        Chart::new(title, Axis::doublings("MiB/s of the store", [70.0, 700.0]), Axis::linear("seconds"));
    for (law, points) in lines.into_iter().filter(|(law, _)| *law != Law::InFlight) {
        chart = chart.with(Line::through(law.short(), points));
    }
    table.charts.push(chart.with(Line::level("asked for", 70.0, 700.0, 0.25)));
    table
}

/// What is in flight with each law over the first seconds.
pub fn figure() -> Figure {
    let mut chart = Chart::new("In flight", Axis::linear("seconds"), Axis::linear("MiB"));
    for law in [Law::InFlight, Law::Permits, Law::Default] {
        let outcome = simulate(law, RATE, FLUSH, 1);
        let samples = outcome.samples.iter().take_while(|sample| sample.at < 10.0).step_by(5);
        let points = samples.map(|sample| (sample.at, sample.in_flight as f64 / MIB_S));
        chart = chart.with(Line::through(law.short(), points));
    }
    Figure {
        name: "table-crucible-over-time".to_owned(),
        title: format!("Crucible, {RATE} MiB/s"),
        charts: vec![chart],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counting_what_is_done_costs_a_fifth_and_the_default_does_not_count_it() {
        for seed in 0..7 {
            let rate = |law| shown(law, RATE, FLUSH, seed).rate;
            let (done, flight, default) = (rate(Law::AndDone), rate(Law::InFlight), rate(Law::Default));
            assert!((done / 550.0 - 1.0).abs() <= 0.05, "{seed}: {done}");
            assert!((flight / 700.0 - 1.0).abs() <= 0.05, "{seed}: {flight}");
            assert!(default >= 700.0, "{seed}: {default}");
        }
    }

    #[test]
    fn the_time_between_flushes_changes_the_law_that_counts_what_is_done_and_no_other() {
        for seed in 0..7 {
            let all = |law| {
                let run = |every| (every, shown(law, RATE, Flush { every, ..FLUSH }, seed).rate);
                spread(&[0.05, 0.5, 5.0].map(run))
            };
            assert!(all(Law::AndDone) > 0.5, "{seed}: {}", all(Law::AndDone));
            assert!(all(Law::InFlight) < 0.01 && all(Law::Default) < 0.01, "{seed}: {}", all(Law::Default));
        }
    }

    #[test]
    fn the_standing_queue_is_that_of_the_laws_and_the_default_has_a_quarter_of_a_second() {
        for seed in 0..7 {
            for (law, rate, least, most) in [
                (Law::InFlight, 700.0, 0.45, 0.55),
                (Law::InFlight, 70.0, 13.0, 15.0),
                (Law::Permits, 700.0, 0.10, 0.11),
                (Law::Permits, 70.0, 1.05, 1.08),
                (Law::Default, 700.0, 0.18, 0.25),
                (Law::Default, 70.0, 0.18, 0.25),
            ] {
                let Shown { queue, queue_p99, .. } = shown(law, rate, FLUSH, seed);
                assert!((least..=most).contains(&queue), "{seed} {law:?} {rate}: {queue}");
                assert!(law != Law::Default || queue_p99 <= most, "{seed} {rate}: {queue_p99}");
            }
        }
    }
}
