//! Prints what the models and the default controller reach.

use clap::{Parser, Subcommand};
use headrace_flow::reading::Limits;
use headrace_sim::drive::fixed::{Fixed, Settings};
use headrace_sim::drive::measure::STEADY;
use headrace_sim::drive::{Controller, Outcome, default_controller};
use headrace_sim::models::lustre::{Effort, fit};
use headrace_sim::scenarios::{FAMILIES, Family, Summary, judge, run_all, sensitivity};
use headrace_sim::tables;
use serde_json::json;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

/// Prints a line. Whoever reads may stop reading (`| head`): that ends the program, and is no error.
macro_rules! say {
    ($($text:tt)*) => {
        if writeln!(std::io::stdout(), $($text)*).is_err() {
            std::process::exit(0);
        }
    };
}

/// Flow control in virtual time: founding tables, scenarios, fits.
#[derive(Parser)]
#[command(name = "headrace-sim", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Each founding table beside the model's and the default controller's result
    Tables {
        /// Only this one: juicefs, mountpoint or lustre
        #[arg(long)]
        only: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Many drawn situations, beside what an oracle reaches
    Scenarios {
        /// How many seeds of each
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
        seeds: u64,
        /// The first seed
        #[arg(long, default_value_t = 0)]
        first: u64,
        /// Only these; may be given several times
        #[arg(long)]
        only: Vec<String>,
        /// A fixed window instead of the default controller: MiB ahead of each reader and fetches at once, as in 64,32
        #[arg(long, value_parser = parse_fixed)]
        fixed: Option<(u64, usize)>,
        /// Show every run, not only each family's summary
        #[arg(long)]
        runs: bool,
        /// With each run show MB/s over time, every 250 ms
        #[arg(long, requires = "runs")]
        series: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// What it changes when a constant of the control laws is four times as large, or a quarter
    Sensitivity {
        /// How many seeds of each scenario
        #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
        seeds: u64,
        /// Only these scenarios; may be given several times
        #[arg(long)]
        only: Vec<String>,
        /// Print JSON, one line for each change
        #[arg(long)]
        json: bool,
    },
    /// Search for the parameters of the Lustre model; they are kept in the source
    FitLustre(fit::Options),
}

fn parse_fixed(text: &str) -> Result<(u64, usize), String> {
    let parsed = text
        .split_once(',')
        .and_then(|(window, fetches)| Some((window.parse().ok()?, fetches.parse().ok()?)));
    parsed
        .filter(|&(window, fetches): &(u64, usize)| (1..=1 << 20).contains(&window) && fetches > 0)
        .ok_or_else(|| "expected MiB and a number of fetches, as in 64,32".to_owned())
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Tables { only, json } => show_tables(only.as_deref(), json),
        Command::Scenarios { seeds, first, only, fixed, runs, series, json } => match families(&only) {
            Ok(families) => {
                let show = Show { runs, series, json };
                show_scenarios(&families, first, seeds, fixed, show)
            }
            Err(error) => refuse(&error),
        },
        Command::Sensitivity { seeds, only, json } => match families(&only) {
            Ok(families) => show_sensitivity(&families, seeds, json),
            Err(error) => refuse(&error),
        },
        Command::FitLustre(options) => {
            say!("{}", tables::lustre::fit_text(&options));
            ExitCode::SUCCESS
        }
    }
}

fn refuse(error: &str) -> ExitCode {
    eprintln!("headrace-sim: {error}");
    ExitCode::from(2)
}

/// The families of these names; all if there are none.
fn families(names: &[String]) -> Result<Vec<Family>, String> {
    if names.is_empty() {
        return Ok(FAMILIES.to_vec());
    }
    let find = |name: &String| FAMILIES.iter().find(|family| family.name == *name).copied();
    names
        .iter()
        .map(|name| {
            let known = || FAMILIES.iter().map(|family| family.name).collect::<Vec<_>>().join(", ");
            find(name).ok_or_else(|| format!("there is no scenario {name}; there are: {}", known()))
        })
        .collect()
}

/// The median of a scenario may move by so much.
const SENSITIVE: f64 = 0.05;

fn show_sensitivity(families: &[Family], seeds: u64, json: bool) -> ExitCode {
    let baseline = sensitivity::baseline(families, seeds);
    let mut holds = true;
    for constant in sensitivity::CONSTANTS {
        for factor in [0.25, 4.0] {
            let effect = sensitivity::effect(constant, factor, families, seeds, &baseline);
            let small = effect.moved.abs() <= SENSITIVE;
            holds &= small;
            if json {
                say!("{}", json!(effect));
            } else {
                let (name, family) = (effect.constant, effect.family);
                let broken = if small { "" } else { "  BROKEN" };
                say!("{name:32} x{factor:<5} {:+6.1} % of {family}{broken}", effect.moved * 100.0);
            }
        }
    }
    if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn show_tables(only: Option<&str>, json: bool) -> ExitCode {
    let wanted = |name: &str| only.is_none_or(|only| only == name);
    let mut holds = true;
    let mut values = serde_json::Map::new();
    type Simulate = fn() -> tables::Founding;
    let simple: [(&str, Simulate); 2] =
        [("mountpoint", tables::mountpoint::table), ("juicefs", tables::juicefs::table)];
    for (name, table) in simple {
        if !wanted(name) {
            continue;
        }
        let table = table();
        holds &= table.holds();
        if json {
            values.insert(name.to_owned(), json!(table));
        } else {
            say!("{}", table.text());
        }
    }
    if wanted("lustre") {
        let report = tables::lustre::report(Effort::SHOWN);
        let best = |prefetch| {
            report.tables.iter().find(|table| table.prefetch == prefetch).map_or(0.0, |table| table.best)
        };
        let default = tables::file_server::table(best(true), best(false));
        holds &= default.holds();
        if json {
            values.insert("lustre".to_owned(), json!({ "grids": report, "default": default }));
        } else {
            say!("{}\n{}", report.text(), default.text());
        }
    }
    if json {
        say!("{:#}", serde_json::Value::Object(values));
    }
    if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// MB/s of all readers together, by [`STEADY`].
fn rates(outcome: &Outcome, duration: Duration) -> Vec<u64> {
    let total = outcome.total();
    let count = duration.as_millis() / STEADY.as_millis();
    (0..count as u32).map(|step| (total.rate(STEADY * step, STEADY * (step + 1)) / 1e6) as u64).collect()
}

/// What of scenarios is printed, and how.
#[derive(Clone, Copy)]
struct Show {
    runs: bool,
    series: bool,
    json: bool,
}

fn show_scenarios(
    families: &[Family],
    first: u64,
    seeds: u64,
    fixed: Option<(u64, usize)>,
    show: Show,
) -> ExitCode {
    let Show { runs, series, json } = show;
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
