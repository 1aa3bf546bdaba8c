//! Prints what the models and the default controller reach.

mod show;

use clap::{Parser, Subcommand};
use headrace_sim::models::lustre::fit;
use headrace_sim::scenarios::sensitivity::{self, Constant};
use headrace_sim::scenarios::{FAMILIES, Family};
use headrace_sim::tables;
use show::plots::Plots;
use show::say;
use std::process::ExitCode;

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
        #[command(flatten)]
        plots: Plots,
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
        #[command(flatten)]
        plots: Plots,
    },
    /// Many drawn situations of writers, beside what the store takes
    Writing {
        /// How many seeds of each
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
        seeds: u64,
        /// The first seed
        #[arg(long, default_value_t = 0)]
        first: u64,
        /// Only these; may be given several times
        #[arg(long)]
        only: Vec<String>,
        /// Show every run, not only each family's summary
        #[arg(long)]
        runs: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        plots: Plots,
    },
    /// What it changes when a constant of the control laws is four times as large, or a quarter
    Sensitivity {
        /// How many seeds of each scenario
        #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
        seeds: u64,
        /// Only these scenarios; may be given several times
        #[arg(long)]
        only: Vec<String>,
        /// Only these constants, or all below a name, as `order` or `endpoint.limit`; may be given several times
        #[arg(long)]
        constants: Vec<String>,
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
        Command::Tables { only, json, plots } => show::tables::run(only.as_deref(), json, &plots),
        Command::Scenarios { runs: false, plots, .. } | Command::Writing { runs: false, plots, .. }
            if plots.are_wanted() =>
        {
            show::fail(
                &"--plot and --plot-dir draw single runs: add --runs, and --only, --first and --seeds to choose which",
            )
        }
        Command::Scenarios { seeds, first, only, fixed, runs, series, json, plots } => {
            match families(&only) {
                Ok(families) => {
                    let show = show::scenarios::Show { runs, series, json, plots: &plots };
                    show::scenarios::run(&families, first, seeds, fixed, show)
                }
                Err(error) => show::fail(&error),
            }
        }
        Command::Writing { seeds, first, only, runs, json, plots } => {
            let show = show::writing::Show { runs, json, plots: &plots };
            show::writing::run(&only, first, seeds, show)
        }
        Command::Sensitivity { seeds, only, constants, json } => {
            match families(&only).and_then(|families| Ok((families, find_constants(&constants)?))) {
                Ok((families, constants)) => show::sensitivity::run(&constants, &families, seeds, json),
                Err(error) => show::fail(&error),
            }
        }
        Command::FitLustre(options) => {
            say!("{}", tables::lustre::fit_text(&options));
            ExitCode::SUCCESS
        }
    }
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

/// The constants of these names; all if there are none.
fn find_constants(names: &[String]) -> Result<Vec<Constant>, String> {
    sensitivity::constants(names).map_err(|unknown| {
        let known: Vec<_> = sensitivity::CONSTANTS.iter().map(|constant| constant.name).collect();
        format!("there is no constant {unknown}; there are: {}", known.join(", "))
    })
}
