//! The tables of LU-9194: the ticket's figures beside the model's, by cell, and what decides.

use std::fmt::Write as _;

use serde::Serialize;

use super::founding::Founding;
use crate::plot::{Axis, Chart, Figure, Line};

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

impl Report {
    /// Both tables, each through the ticket's best cell, and what the default reaches on that server (see
    /// [`file_server`](super::file_server)).
    pub fn figure(&self, default: &Founding) -> Figure {
        let mut charts: Vec<Chart> = Vec::new();
        // The server's prefetcher is on in the first row and off in the second.
        for (index, table) in self.tables.iter().enumerate() {
            charts.extend(table.charts(default.rows.get(index).and_then(|row| row.default)));
        }
        charts.extend(default.charts.iter().cloned());
        Figure {
            name: "table-lustre".to_owned(),
            title: "LU-9194: ticket, model and default".to_owned(),
            charts,
        }
    }
}

impl Table {
    /// Over the requests in flight and over the read-ahead, each through the ticket's best cell.
    fn charts(&self, default: Option<f64>) -> [Chart; 2] {
        let state = if self.prefetch { "on" } else { "off" };
        let ticket = &self.ticket;
        let cells = ticket.cells.iter().enumerate();
        let (row, column, _) = cells
            .flat_map(|(row, cells)| {
                cells.iter().enumerate().map(move |(column, speed)| (row, column, *speed))
            })
            .max_by(|a, b| a.2.total_cmp(&b.2))
            .unwrap_or((0, 0, 0.0));
        let rpcs: Vec<f64> = ticket.rpcs.iter().map(|rpcs| *rpcs as f64).collect();
        let windows: Vec<f64> = ticket.readahead_mib.iter().map(|mib| *mib as f64).collect();
        let of_column = |grid: &Grid| grid.cells.iter().filter_map(|row| row.get(column).copied()).collect();
        let of_row = |grid: &Grid| grid.cells.get(row).cloned().unwrap_or_default();
        let at = |values: &[f64], index: usize| values.get(index).copied().unwrap_or(0.0);
        let title = |what: &str, value: f64| format!("Server's prefetcher {state}, {what} {value}");
        let chart = |title: String, label: &str, xs: &[f64], ours: Vec<f64>, theirs: Vec<f64>| {
            let series = |ys: Vec<f64>| xs.iter().copied().zip(ys).collect::<Vec<_>>();
            let ends = (at(xs, 0), xs.last().copied().unwrap_or(0.0));
            let chart = Chart::new(title, Axis::doublings(label, xs.to_vec()), Axis::linear("MB/s"))
                .with(Line::through("ticket", series(theirs)))
                .with(Line::through("model", series(ours)));
            match default {
                Some(default) => chart.with(Line::level("default", ends.0, ends.1, default)),
                None => chart,
            }
        };
        [
            chart(
                title("read-ahead in MB:", at(&windows, column)),
                "max_rpcs_in_flight",
                &rpcs,
                of_column(&self.model),
                of_column(ticket),
            ),
            chart(
                title("max_rpcs_in_flight:", at(&rpcs, row)),
                "max_read_ahead_per_file_mb",
                &windows,
                of_row(&self.model),
                of_row(ticket),
            ),
        ]
    }

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
        let plot = report.figure(&Founding::new("", "MB/s"));
        let [on, _, off, windows] = &plot.charts[..] else { panic!("two charts of each table") };
        assert_eq!((on.lines[0].points[0], off.lines[0].points[6]), ((1.0, 910.0), (64.0, 1100.0)));
        assert_eq!(windows.lines[0].points.last(), Some(&(256.0, 1100.0)));
        let drawn = plot.text();
        for part in ["max_rpcs_in_flight", "max_read_ahead_per_file_mb", "MB/s", "ticket"] {
            assert!(drawn.contains(part), "{part}: {drawn}");
        }
        let rpcs = ["1", "2", "4", "8", "16", "32", "64", "128", "256"];
        assert!(drawn.lines().any(|line| line.split_whitespace().eq(rpcs)), "{drawn}");
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["tables"][1]["ticket"]["cells"][6][4], 1100.0);
    }
}
