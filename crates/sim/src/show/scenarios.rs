//! Drawn situations.

use super::plots::Plots;
use headrace_flow::reading::Limits;
use headrace_sim::drive::fixed::{Fixed, Settings};
use headrace_sim::drive::measure::STEADY;
use headrace_sim::drive::{Controller, Outcome, default_controller};
use headrace_sim::scenarios::{Family, Summary, figure, judge, run_all};
use serde_json::json;
use std::process::ExitCode;
use std::time::Duration;

/// MB/s of all readers together, by [`STEADY`].
fn rates(outcome: &Outcome, duration: Duration) -> Vec<u64> {
    let total = outcome.total();
    let count = duration.as_millis() / STEADY.as_millis();
    (0..count as u32).map(|step| (total.rate(STEADY * step, STEADY * (step + 1)) / 1e6) as u64).collect()
}

/// What of scenarios is printed, and how.
#[derive(Clone, Copy)]
pub struct Show<'a> {
    /// Every run, not only each family's summary.
    pub runs: bool,
    /// With each run MB/s over time.
    pub series: bool,
    /// As JSON.
    pub json: bool,
    /// Plots of each run.
    pub plots: &'a Plots,
}

/// Runs them. Fails if a bound is broken and no single runs are asked for.
pub fn run(
    families: &[Family],
    first: u64,
    seeds: u64,
    fixed: Option<(u64, usize)>,
    show: Show<'_>,
) -> ExitCode {
    let Show { runs, series, json, plots } = show;
    let make = |limits: Limits| -> Box<dyn Controller> {
        match fixed {
            None => default_controller(limits),
            Some((window, concurrency)) => Box::new(Fixed::new(Settings {
                window: window << 20,
                concurrency,
                part: 1 << 20,
                memory: limits.memory,
            })),
        }
    };
    if runs {
        for family in families {
            for seed in first..first.saturating_add(seeds) {
                let scenario = family.draw(seed);
                let outcome = scenario.run(&make);
                let judgement = judge(&scenario, &outcome);
                let rates = if series { rates(&outcome, scenario.setup.duration) } else { Vec::new() };
                if plots.are_wanted()
                    && let Err(error) = plots.show(&figure(family, &scenario, &outcome, &judgement))
                {
                    return super::fail(&error);
                }
                if json {
                    say!("{}", json!({ "family": family.name, "run": judgement, "mb_per_second": rates }));
                } else {
                    say!("{} {judgement:?}", family.name);
                    if series {
                        say!("    {}", rates.iter().map(u64::to_string).collect::<Vec<_>>().join(" "));
                    }
                }
            }
        }
        return ExitCode::SUCCESS;
    }
    let mut holds = true;
    let mut summaries = Vec::new();
    if !json {
        say!("{}", Summary::heading());
    }
    for family in families {
        // One at a time: a long list shows its first lines at once.
        for summary in run_all(&[*family], first, seeds, &make) {
            holds &= summary.broken.is_empty();
            if json {
                summaries.push(summary);
            } else {
                say!("{}", summary.line());
            }
        }
    }
    if json {
        say!("{:#}", json!(summaries));
    }
    if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
