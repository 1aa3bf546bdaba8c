//! Medians and spreads, as a Markdown table and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Value, json};

use crate::place::Kind;
use crate::work::Sizes;

/// One line of the table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Row {
    Create,
    ListCold,
    StatCold,
    StatWarm,
    ReadSmallCold,
    ReadSmallWarm,
    Delete,
    GitClone,
    GitStatus,
    WriteLarge,
    ReadLargeCold,
    ReadLargeWarm,
}

impl Row {
    /// What it is, its unit, and whether more is better.
    fn describe(self) -> (&'static str, &'static str, bool) {
        match self {
            Row::Create => ("create 4 KiB files", "files/s", true),
            Row::ListCold => ("list, cold", "files/s", true),
            Row::StatCold => ("stat, cold", "files/s", true),
            Row::StatWarm => ("stat, warm", "files/s", true),
            Row::ReadSmallCold => ("read 4 KiB files, cold", "files/s", true),
            Row::ReadSmallWarm => ("read 4 KiB files, warm", "files/s", true),
            Row::Delete => ("delete", "files/s", true),
            Row::GitClone => ("git clone, 5,000 files", "s", false),
            Row::GitStatus => ("git status, cold", "s", false),
            Row::WriteLarge => ("sequential write and fsync", "MB/s", true),
            Row::ReadLargeCold => ("sequential read, cold", "MB/s", true),
            Row::ReadLargeWarm => ("sequential read, warm", "MB/s", true),
        }
    }
}

/// All figures of all runs.
pub struct Report {
    targets: Vec<Kind>,
    files: u64,
    large: u64,
    figures: BTreeMap<(Row, Kind), Vec<f64>>,
}

impl Report {
    pub fn new(targets: &[Kind], sizes: &Sizes) -> Report {
        Report { targets: targets.to_vec(), files: sizes.files, large: sizes.large, figures: BTreeMap::new() }
    }

    pub fn add(&mut self, target: Kind, row: Row, value: f64) {
        self.figures.entry((row, target)).or_default().push(value);
    }

    /// Median, least and greatest.
    fn figure(&self, row: Row, target: Kind) -> Option<(f64, f64, f64)> {
        let mut values = self.figures.get(&(row, target))?.clone();
        values.sort_by(f64::total_cmp);
        let (first, last) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median =
            if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 };
        Some((median, first, last))
    }

    fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<_> = self.figures.keys().map(|(row, _)| *row).collect();
        rows.dedup();
        rows
    }

    /// A row per kind of work, a column per target: median (least-greatest), and how many times as good as the first.
    pub fn markdown(&self) -> String {
        let runs = self.figures.values().map(Vec::len).max().unwrap_or(0);
        let mut text = format!(
            "{} files of 4 KiB; {} GiB sequentially; median of {runs} interleaved runs (least-greatest); x: times as good as {}\n\n",
            self.files,
            self.large >> 30,
            self.targets[0]
        );
        let columns: Vec<_> = self.targets.iter().map(ToString::to_string).collect();
        let _ = writeln!(text, "| | unit | {} |", columns.join(" | "));
        let _ = writeln!(text, "|---|---|{}", "---|".repeat(columns.len()));
        for row in self.rows() {
            let (what, unit, more_is_better) = row.describe();
            let _ = write!(text, "| {what} | {unit} |");
            let base = self.figure(row, self.targets[0]).map(|(median, ..)| median);
            for target in &self.targets {
                match self.figure(row, *target) {
                    None => text.push_str(" - |"),
                    Some((median, least, greatest)) => {
                        let _ = write!(text, " {} ({}-{})", short(median), short(least), short(greatest));
                        if let Some(base) = base.filter(|_| *target != self.targets[0]) {
                            let ratio = if more_is_better { median / base } else { base / median };
                            let _ = write!(text, " x{ratio:.2}");
                        }
                        text.push_str(" |");
                    }
                }
            }
            text.push('\n');
        }
        text
    }

    pub fn json(&self) -> Value {
        let rows: Vec<_> = self
            .figures
            .iter()
            .map(|((row, target), values)| {
                let (what, unit, more_is_better) = row.describe();
                let median = self.figure(*row, *target).map(|(median, ..)| median);
                json!({
                    "what": what, "unit": unit, "more_is_better": more_is_better,
                    "target": target.to_string(), "median": median, "values": values,
                })
            })
            .collect();
        json!({ "files": self.files, "large_bytes": self.large, "figures": rows })
    }
}

/// Three significant digits or so.
fn short(value: f64) -> String {
    match value {
        v if v >= 10_000.0 => format!("{:.1}k", v / 1_000.0),
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}
