//! `bench-check`: reads what the micro-benchmarks print and compares it with the recorded baseline. See scripts/bench-check,
//! which runs both.

use std::io::Read as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use headrace_microbench::baseline::{Baseline, Measurements};
use headrace_microbench::compare::{Row, TOLERANCE, compare};
use headrace_microbench::environment::Environment;
use headrace_microbench::{summary, table};

/// Compares the micro-benchmarks' output, on standard input, with the recorded one.
#[derive(Parser)]
struct Arguments {
    /// The recorded one.
    #[arg(long, value_name = "FILE")]
    baseline: PathBuf,

    /// Record what was measured, whatever it is, instead of judging it.
    #[arg(long)]
    update: bool,

    /// Only look whether the baseline was made by the same tools, and measure nothing.
    #[arg(long, conflicts_with = "update")]
    environment: bool,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("bench-check: {error}");
            ExitCode::from(2)
        }
    }
}

/// Whether all is as it was, or better.
fn run(arguments: &Arguments) -> Result<bool, String> {
    let here = Environment::gather()?;
    let recorded = Baseline::read(&arguments.baseline).map_err(|e| e.to_string());
    if arguments.update {
        return update(arguments, here, recorded.ok().flatten());
    }
    let recorded = recorded?.ok_or_else(|| {
        format!("{}: no such file; `make bench-check UPDATE=1` records one", arguments.baseline.display())
    })?;
    let differences = here.differences(&recorded.environment);
    if !differences.is_empty() {
        let said: Vec<_> = differences
            .iter()
            .map(|d| format!("  {}: recorded with {:?}, here it is {:?}", d.what, d.recorded, d.here))
            .collect();
        return Err(format!(
            "the baseline was made elsewhere, so that a comparison would say nothing:\n{}\n\
             Record one here from the version to compare with: `make bench-check UPDATE=1`",
            said.join("\n")
        ));
    }
    if arguments.environment {
        return Ok(true);
    }
    let now = measurements()?;
    let rows = compare(&recorded.benchmarks, &now);
    println!("{}", table::comparison(&rows));
    println!("{}", table::per_byte(&now));
    Ok(judge(&rows))
}

fn update(arguments: &Arguments, here: Environment, recorded: Option<Baseline>) -> Result<bool, String> {
    let now = measurements()?;
    let old = recorded.map(|recorded| recorded.benchmarks).unwrap_or_default();
    println!("{}", table::comparison(&compare(&old, &now)));
    println!("{}", table::per_byte(&now));
    let count = now.len();
    Baseline::new(here, now).write(&arguments.baseline).map_err(|e| e.to_string())?;
    println!("Recorded {count} benchmarks in {}", arguments.baseline.display());
    Ok(true)
}

fn measurements() -> Result<Measurements, String> {
    let mut output = String::new();
    std::io::stdin().read_to_string(&mut output).map_err(|e| format!("standard input: {e}"))?;
    let now = summary::parse(&output).map_err(|e| e.to_string())?;
    if now.is_empty() {
        return Err("the benchmarks printed nothing: did they run?".to_owned());
    }
    Ok(now)
}

fn judge(rows: &[Row]) -> bool {
    let failures: Vec<_> = rows.iter().filter_map(Row::failure).collect();
    let better = rows.iter().filter(|row| row.is_better()).count();
    if better > 0 {
        println!("{better} became better: `make bench-check UPDATE=1` records it, so that it stays");
    }
    if failures.is_empty() {
        println!("No regression beyond {} %", TOLERANCE * 100.0);
        return true;
    }
    println!("{} of {} fail (beyond {} %):", failures.len(), rows.len(), TOLERANCE * 100.0);
    for failure in &failures {
        println!("  {failure}");
    }
    println!("If that is meant, record it with `make bench-check UPDATE=1` and say why in the commit.");
    false
}
