//! A run as a plot: what was stored, what was in flight, how long writes waited.

use super::families::Family;
use super::judge::{Judgement, Scenario};
use super::run::{Outcome, Sample};
use crate::drive::measure::STEADY;
use crate::engine::random::seconds;
use crate::plot::{Axis, Chart, Figure, Line};

const MIB: f64 = (1 << 20) as f64;

/// Draws it. Dotted lines are where the situation changes.
pub fn figure(family: &Family, scenario: &Scenario, outcome: &Outcome, judgement: &Judgement) -> Figure {
    let setup = &scenario.setup;
    let chart = |title: &str, unit: &str| {
        let mut chart = Chart::new(title, Axis::linear("seconds"), Axis::linear(unit));
        chart.changes = scenario.judged.iter().map(|judged| judged.0).collect();
        chart
    };
    let pieces = (setup.duration / STEADY.as_secs_f64()) as u32;
    let stored = (0..pieces).map(|piece| {
        let (from, until) = (STEADY * piece, STEADY * (piece + 1));
        ((from + STEADY / 2).as_secs_f64(), outcome.stored.rate(from, until) / MIB)
    });
    let takes = (0..pieces).map(|piece| {
        let at = (STEADY * piece + STEADY / 2).as_secs_f64();
        (at, setup.backend.rate(at) / MIB)
    });
    let of = |value: fn(&Sample) -> Option<u64>| {
        let samples =
            outcome.samples.iter().step_by(5).filter(|sample| seconds(sample.at) <= seconds(setup.duration));
        samples.filter_map(move |sample| Some((sample.at, value(sample)? as f64 / MIB))).collect::<Vec<_>>()
    };
    let rate = chart("Stored", "MiB/s")
        .with(Line::through("all writers", stored))
        .with(Line::reference("what the store takes", takes));
    let queue = chart("Queue", "MiB")
        .with(Line::through("in flight", of(|sample| Some(sample.in_flight))))
        .with(Line::through("and not committed", of(|sample| Some(sample.held))))
        .with(Line::reference("window", of(|sample| sample.window)));
    let (name, seed, writers) = (family.name, setup.seed, setup.writers.len());
    Figure {
        name: format!("writing-{name}-{seed}"),
        title: format!(
            "{name}, seed {seed}, writers: {writers}; {:.3} of what the store takes, {:.3} s of it in flight",
            judgement.ratio, judgement.queue
        ),
        charts: vec![rate, queue],
    }
}
