//! The tables of LU-9194: the ticket's figures beside the model's, by cell, and what decides.

use std::fmt::Write as _;

use serde::Serialize;

use crate::models::lustre::fit::{self, Options};
use crate::models::lustre::{Effort, Grid, Parameters, Settings, Variant, grid};

/// One table of the ticket and the model's.
#[derive(Debug, Clone, Serialize)]
pub struct Table {
    /// Whether the server's prefetcher is on.
    pub prefetch: bool,
    /// The ticket's figures, MB/s.
    pub ticket: Grid,
    /// The model's, MB/s.
    pub model: Grid,
    /// Mean |ln(model / ticket)| over all cells.
    pub error: f64,
    /// The largest of them.
    pub worst: f64,
    /// The model's best cell, MB/s: what a controller that is told nothing is measured against.
    pub best: f64,
}

/// What the model makes of one change to the server, prefetcher on, 256 MiB of read-ahead, MB/s.
#[derive(Debug, Clone, Serialize)]
pub struct Ablation {
    /// What was changed.
    pub change: &'static str,
    /// max_rpcs_in_flight and MB/s.
    pub cells: Vec<(usize, f64)>,
}

/// All of it.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Prefetcher on, then off.
    pub tables: Vec<Table>,
    /// Order kept, tolerant prefetcher, neither.
    pub ablations: Vec<Ablation>,
}

/// Simulates both tables and the ablations with the kept parameters; a second or two.
pub fn report(effort: Effort) -> Report {
    let parameters = Parameters::FITTED;
    let tables = [true, false].map(|prefetch| {
        let ticket = Grid::ticket(prefetch);
        let model = Grid::model(&parameters, prefetch, Variant::Ticket, effort);
        let worst = (model.cells.iter().flatten().zip(ticket.cells.iter().flatten()))
            .map(|(ours, theirs)| (ours / theirs).ln().abs())
            .fold(0.0, f64::max);
        Table { prefetch, error: model.error(&ticket, |_| true), worst, best: model.best(), ticket, model }
    });
    let changes = [
        ("as in the ticket", Variant::Ticket),
        ("arrival order kept", Variant::OrderKept),
        ("prefetcher tolerates disorder", Variant::Tolerant),
    ];
    let ablations = changes.map(|(change, variant)| Ablation {
        change,
        cells: [1, 2, 8, 32, 128]
            .map(|rpcs| {
                let settings = Settings { rpcs, readahead_mib: 256 };
                (rpcs, grid::mean(&parameters, settings, true, variant, effort))
            })
            .to_vec(),
    });
    Report { tables: tables.to_vec(), ablations: ablations.to_vec() }
}

impl Report {
    /// As text, ticket and model in each cell.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for table in &self.tables {
            table.write(&mut out);
        }
        let _ = writeln!(out, "What decides (model, MB/s, prefetch on, read-ahead 256 MiB)");
        let rpcs = self.ablations.first().map(|a| a.cells.iter().map(|(rpcs, _)| rpcs).collect::<Vec<_>>());
        let _ = write!(out, "{:>32}", "rpcs");
        for rpcs in rpcs.unwrap_or_default() {
            let _ = write!(out, "{rpcs:>8}");
        }
        out.push('\n');
        for ablation in &self.ablations {
            let _ = write!(out, "{:>32}", ablation.change);
            for (_, speed) in &ablation.cells {
                let _ = write!(out, "{speed:>8.0}");
            }
            out.push('\n');
        }
        out
    }
}

impl Table {
    fn write(&self, out: &mut String) {
        let state = if self.prefetch { "on" } else { "off" };
        let _ = writeln!(out, "LU-9194, ZFS prefetch {state}: MB/s of the ticket / of the model");
        let _ = write!(out, "{:>6}", "rpcs");
        for readahead in &self.ticket.readahead_mib {
            let _ = write!(out, "{:>16}", format!("{readahead} MB"));
        }
        out.push('\n');
        for (rpcs, (theirs, ours)) in
            self.ticket.rpcs.iter().zip(self.ticket.cells.iter().zip(&self.model.cells))
        {
            let _ = write!(out, "{rpcs:>6}");
            for (ticket, model) in theirs.iter().zip(ours) {
                let _ = write!(out, "{:>16}", format!("{ticket:.0} / {model:.0}"));
            }
            out.push('\n');
        }
        let _ = writeln!(
            out,
            "mean |log error| {:.3}, worst cell {:.3}; best cell {:.0} / {:.0}\n",
            self.error,
            self.worst,
            self.ticket.best(),
            self.best
        );
    }
}

/// Runs the fit, telling of progress on standard error, and returns what it found as text.
pub fn fit_text(options: &Options) -> String {
    let outcome = fit::fit(options, &mut |evaluations, cost| eprintln!("{evaluations:>8} {cost:.4}"));
    let mut out = String::new();
    let _ = writeln!(out, "{}", outcome.parameters.lines());
    let _ = writeln!(out, "candidates {}", outcome.evaluations);
    let [on, off] = outcome.fitted;
    let _ = writeln!(out, "mean |log error| of the rows fitted: prefetch on {on:.3}, off {off:.3}");
    if let Some([on, off]) = outcome.held_out {
        let rows: Vec<_> = options.hold_out.iter().map(ToString::to_string).collect();
        let rows = rows.join(", ");
        let _ = writeln!(out, "of the rows held out ({rows}): prefetch on {on:.3}, off {off:.3}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::lustre::client::Length;

    #[test]
    fn the_report_shows_every_cell_of_both_tables() {
        let effort = Effort { length: Length { warm_mib: 16, measured_mib: 64 }, seeds: 1, first_seed: 1 };
        let report = report(effort);
        let text = report.text();
        assert_eq!(text.matches(" / ").count(), 2 * (45 + 2), "{text}");
        assert!(text.contains("1100 / ") && text.contains("910 / "));
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["tables"][1]["ticket"]["cells"][6][4], 1100.0);
    }
}
