//! A run as a plot: what it delivered beside the oracle, what was in flight, what was held.

use super::assess::Judgement;
use super::catalogue::Family;
use super::scenario::Scenario;
use crate::drive::measure::STEADY;
use crate::drive::{Outcome, Sample};
use crate::plot::{Axis, Chart, Figure, Line};

const MIB: f64 = (1 << 20) as f64;

/// Draws it. Dotted lines are where the situation changes; the oracle is known between them only.
pub fn figure(family: &Family, scenario: &Scenario, outcome: &Outcome, judgement: &Judgement) -> Figure {
    let chart = |title: &str, unit: &str| {
        let mut chart = Chart::new(title, Axis::linear("seconds"), Axis::linear(unit));
        chart.changes = scenario.judged.iter().map(|judged| judged.from.as_secs_f64()).collect();
        chart
    };
    let of = |value: fn(&Sample) -> Option<f64>| {
        outcome.samples.iter().filter_map(move |sample| Some((sample.at.as_secs_f64(), value(sample)?)))
    };
    let rate = chart("Delivered", "MB/s")
        .with(Line::through("all readers", delivered(outcome)))
        .with(Line::reference("oracle", oracle(scenario)));
    let fetches = chart("Fetches", "fetches")
        .with(Line::through("in flight", of(|sample| Some(sample.in_flight as f64))))
        .with(Line::reference("limit", of(|sample| Some(sample.gauges.limit? as f64))));
    let memory = chart("Memory", "MiB")
        .with(Line::through("there and on its way", of(|sample| Some(sample.held as f64 / MIB))))
        .with(Line::through("windows", of(|sample| Some(sample.gauges.windows? as f64 / MIB))))
        .with(Line::reference("ceiling", of(|sample| Some(sample.ceiling as f64 / MIB))));
    let (name, seed, readers) = (family.name, scenario.seed, scenario.setup.readers.len());
    Figure {
        name: format!("scenario-{name}-{seed}"),
        title: format!(
            "{name}, seed {seed}, readers: {readers}; {:.3} of the oracle from {} s on",
            judgement.ratio, judgement.worst_from
        ),
        charts: vec![rate, fetches, memory],
    }
}

/// Seconds and MB/s, by [`STEADY`], in its middle.
fn delivered(outcome: &Outcome) -> Vec<(f64, f64)> {
    let total = outcome.total();
    let end = outcome.samples.last().map_or(0.0, |sample| sample.at.as_secs_f64());
    let count = (end / STEADY.as_secs_f64()).ceil() as u32;
    (0..count)
        .map(|step| {
            let (from, until) = (STEADY * step, STEADY * (step + 1));
            ((from + STEADY / 2).as_secs_f64(), total.rate(from, until) / 1e6)
        })
        .collect()
}

/// Seconds and MB/s, level in each judged piece of time.
fn oracle(scenario: &Scenario) -> Vec<(f64, f64)> {
    let piece = |judged: &super::Judged| {
        let best = scenario.best(*judged).iter().sum::<f64>() / 1e6;
        let (from, until) = (judged.from.as_secs_f64(), judged.until.as_secs_f64());
        [(from, best), (until, best), (until, f64::NAN)]
    };
    scenario.judged.iter().flat_map(piece).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{FAMILIES, judge};
    use super::*;
    use crate::drive::default_controller;

    /// The network is ten times as fast between 5 and 10 s: the plot shows it, beside what is possible.
    #[test]
    fn a_run_of_rate_steps_shows_its_plateau_and_the_oracles() {
        let family = FAMILIES.iter().find(|family| family.name == "rate-steps").expect("known");
        let scenario = family.draw(1);
        let outcome = scenario.run(&default_controller);
        let judgement = judge(&scenario, &outcome);
        let figure = figure(family, &scenario, &outcome, &judgement);
        assert_eq!((figure.name.as_str(), figure.charts.len()), ("scenario-rate-steps-1", 3));
        let [rate, fetches, memory] = &figure.charts[..] else { panic!("three charts") };
        assert_eq!(rate.changes, [0.0, 5.0, 10.0]);
        let highest =
            |line: &Line| line.points.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1)).expect("points");
        let [delivered, oracle] = &rate.lines[..] else { panic!("two lines: {rate:?}") };
        assert!((5.0..10.5).contains(&highest(delivered).0), "{:?}", highest(delivered));
        let best = oracle.points.iter().map(|(_, y)| *y).filter(|y| y.is_finite()).fold(0.0, f64::max);
        assert!(highest(delivered).1 < 1.3 * best && highest(delivered).1 > 0.9 * best, "{best}");
        let names: Vec<_> =
            fetches.lines.iter().chain(&memory.lines).map(|line| line.name.as_str()).collect();
        assert_eq!(names, ["in flight", "limit", "there and on its way", "windows", "ceiling"]);
        let held = &memory.lines[0];
        let most = scenario.limits.memory as f64 / MIB;
        assert!(highest(held).1 <= most && highest(held).1 > 0.05 * most, "{:?} of {most}", highest(held));
    }
}
