//! LU-9194 with the default controller: told nothing, on the model's server with its prefetcher on, off, and switched meanwhile.

use super::founding::{Founding, Row};
use crate::drive::{Controller, Outcome, Plant, ReaderSpec, Series, Setup, default_controller, run};
use crate::models::backend::{FILE, FileServer};
use crate::models::lustre::{BLOCK, Parameters, reader_per_block};
use crate::plot::{Axis, Chart, Line};
use headrace_flow::reading::Limits;
use std::time::Duration;

/// As much as the ticket's best cells have for one file.
const MEMORY: u64 = 256 << 20;
/// Runs whose mean is taken: one alone is up to 3 % above or below.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=6;

fn limits() -> Limits {
    // The file server's own reads are of one block.
    Limits { memory: MEMORY, request_max: BLOCK, requests: 256 }
}

fn speed(
    prefetch: bool,
    switches: &[(Duration, bool)],
    until: u64,
    controller: Box<dyn Controller>,
    seed: u64,
) -> Outcome {
    let store = FileServer::new(&Parameters::FITTED, prefetch, switches, seed);
    let mut plant = Plant::new(vec![controller], Box::new(store));
    let copy_rate = (BLOCK as f64 / reader_per_block().as_secs_f64()) as u64;
    let readers = vec![ReaderSpec { len: FILE, ..ReaderSpec::sequential(1, copy_rate) }];
    let setup = Setup { readers, memory: MEMORY, duration: Duration::from_secs(until), ..Setup::default() };
    run(&setup, &mut plant, seed)
}

fn mb(total: &Series, from: u64, until: u64) -> f64 {
    total.rate(Duration::from_secs(from), Duration::from_secs(until)) / 1e6
}

/// Mean MB/s of several runs.
fn mean(runs: &[Outcome], from: u64, until: u64) -> f64 {
    runs.iter().map(|run| mb(&run.total(), from, until)).sum::<f64>() / runs.len().max(1) as f64
}

/// A run in which the prefetcher is switched off and on again.
fn over_time(run: &Outcome, switches: &[(Duration, bool)], best_on: f64, best_off: f64) -> Chart {
    let total = run.total();
    let rate = |second: u64| (second as f64 + 0.5, mb(&total, second, second + 1));
    let mut best = vec![(0.0, best_on)];
    for &(at, prefetch) in switches {
        let before = best.last().map_or(best_on, |last| last.1);
        best.extend([before, if prefetch { best_on } else { best_off }].map(|rate| (at.as_secs_f64(), rate)));
    }
    best.push((90.0, best.last().map_or(best_on, |last| last.1)));
    let title = "Prefetcher on, off, on";
    let mut chart = Chart::new(title, Axis::linear("seconds"), Axis::linear("MB/s"))
        .with(Line::through("default", (0..90).map(rate)))
        .with(Line::reference("model's best cell", best));
    chart.changes = switches.iter().map(|(at, _)| at.as_secs_f64()).collect();
    chart
}

/// `best_on`, `best_off`: the model's best cells, MB/s.
pub fn table(best_on: f64, best_off: f64) -> Founding {
    let title = "LU-9194, the default controller on the model's server (document, model: best cells)";
    let mut table = Founding::new(title, "MB/s");
    let runs = |prefetch, switches: &[(Duration, bool)], until| {
        let one = |seed| speed(prefetch, switches, until, default_controller(limits()), seed);
        SEEDS.map(one).collect::<Vec<_>>()
    };
    let minutes = [(Duration::from_secs(30), false), (Duration::from_secs(60), true)];
    let switched = runs(true, &minutes, 90);
    table.charts.extend(switched.first().map(|run| over_time(run, &minutes, best_on, best_off)));
    // Until it is switched nothing tells these runs from others.
    let on = mean(&switched, 3, 30);
    for (setting, document, best, reached) in [
        ("prefetcher on", 910.0, best_on, on),
        ("prefetcher off", 1100.0, best_off, mean(&runs(false, &[], 30), 3, 30)),
        ("on, before it is switched", 910.0, best_on, on),
        ("off, from 3 s after that", 1100.0, best_off, mean(&switched, 33, 60)),
        ("on again, from 3 s after that", 910.0, best_on, mean(&switched, 63, 90)),
    ] {
        let share = reached / best;
        table.check(share >= 0.95, format!("{setting}: {:.1} % of the best cell", share * 100.0));
        let setting = setting.to_owned();
        table.rows.push(Row { setting, document: Some(document), model: Some(best), default: Some(reached) });
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::fixed::{Fixed, Settings};

    /// With the prefetcher, before and after it was switched off, what is asked for; without it, what is reached of the best that a fixed
    /// window of 200 MiB and 64 fetches have here.
    #[test]
    fn the_default_finds_both_optima_and_goes_from_one_to_the_other() {
        let fixed = Settings { window: 200 << 20, concurrency: 64, part: BLOCK, memory: MEMORY };
        let hand = |prefetch, concurrency| {
            let fixed = Settings { concurrency, ..fixed };
            mb(&speed(prefetch, &[], 10, Box::new(Fixed::new(fixed)), 1).total(), 3, 10)
        };
        let table = table(hand(true, 1), hand(false, 64));
        let shares: Vec<f64> =
            table.rows.iter().map(|row| row.default.unwrap_or(0.0) / row.model.unwrap_or(1.0)).collect();
        let [on, off, before, switched, again] = shares[..] else { panic!("five rows") };
        assert!(on >= 0.95 && before >= 0.95 && again >= 0.95, "{}", table.text());
        assert!(off >= 0.98 && switched >= 0.98, "{}", table.text());
    }

    /// The server through a plant: its prefetcher makes one at a time fast; without it only many are.
    #[test]
    fn fixed_settings_show_both_optima() {
        let fixed = |prefetch, concurrency| {
            let hand = Settings { window: 200 << 20, concurrency, part: BLOCK, memory: MEMORY };
            let outcome = speed(prefetch, &[], 4, Box::new(Fixed::new(hand)), 1);
            assert_eq!(outcome.violations, Vec::<String>::new());
            mb(&outcome.total(), 1, 4)
        };
        let [on_one, on_many, off_one, off_many] =
            [(true, 1), (true, 64), (false, 1), (false, 64)].map(|(p, c)| fixed(p, c));
        // A window that is topped up with each read sends little out of order: many do not hurt here as they do in the ticket.
        let ordered = on_one > 3.0 * off_one && on_one > 0.9 * on_many;
        assert!(ordered && off_many > 3.0 * off_one, "{on_one} {on_many} {off_one} {off_many}");
    }
}
