//! Situations of writers.

use super::plots::Plots;
use headrace_sim::writing::judge::run_program;
use headrace_sim::writing::{FAMILIES, Family, Summary, figure, judge, run_all};
use serde_json::json;
use std::process::ExitCode;

/// What is printed, and how.
#[derive(Clone, Copy)]
pub struct Show<'a> {
    /// Every run, not only each family's summary.
    pub runs: bool,
    /// As JSON.
    pub json: bool,
    /// Plots of each run.
    pub plots: &'a Plots,
}

/// Runs them. Fails if a bound is broken and no single runs are asked for.
pub fn run(only: &[String], first: u64, seeds: u64, show: Show<'_>) -> ExitCode {
    let families = match families(only) {
        Ok(families) => families,
        Err(error) => return super::fail(&error),
    };
    if show.runs {
        for family in &families {
            for seed in first..first.saturating_add(seeds) {
                let scenario = family.draw(seed);
                let outcome = run_program(&scenario);
                let judgement = judge(&scenario, &outcome);
                if show.plots.are_wanted()
                    && let Err(error) = show.plots.show(&figure(family, &scenario, &outcome, &judgement))
                {
                    return super::fail(&error);
                }
                if show.json {
                    say!("{}", json!({ "family": family.name, "run": judgement }));
                } else {
                    say!("{} {judgement:?}", family.name);
                }
            }
        }
        return ExitCode::SUCCESS;
    }
    let mut summaries = Vec::new();
    if !show.json {
        say!("{}", Summary::heading());
    }
    for family in families {
        for summary in run_all(&[family], first, seeds) {
            if !show.json {
                say!("{}", summary.line());
            }
            summaries.push(summary);
        }
    }
    if show.json {
        say!("{:#}", json!(summaries));
    }
    let holds = summaries.iter().all(|summary| summary.broken.is_empty());
    if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The families of these names; all if there are none.
fn families(names: &[String]) -> Result<Vec<Family>, String> {
    if names.is_empty() {
        return Ok(FAMILIES.to_vec());
    }
    let known = || FAMILIES.iter().map(|family| family.name).collect::<Vec<_>>().join(", ");
    let find = |name: &String| {
        let found = FAMILIES.iter().find(|family| family.name == *name).copied();
        found.ok_or_else(|| format!("there is no situation {name}; there are: {}", known()))
    };
    names.iter().map(find).collect()
}
