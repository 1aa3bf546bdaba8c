//! The figures as a table, and what to know about them.

use std::time::Duration;

use super::caches::Caches;
use super::outcome::{Directory, Figures, Ratio, Report};
use super::phases::Unit;
use crate::report::human;
use crate::report::{Align, Cell, Fields, Spread, Style, Table};

impl Report {
    /// For a person; with `colour`, for one at a terminal.
    pub fn text(&self, colour: bool) -> String {
        let mut out = self.heading();
        out.push('\n');
        let table = match self.directories.as_slice() {
            [first, second] => comparison(first, second, &self.ratios),
            [first, ..] => single(first),
            [] => return out,
        };
        out.push_str(&table.render_in(0, colour));
        for note in &self.notes {
            out.push_str(&format!("\n{}", Style::Dim.paint(note, colour)));
        }
        if !self.notes.is_empty() {
            out.push('\n');
        }
        out
    }

    /// The table in Markdown.
    pub fn markdown(&self) -> String {
        match self.directories.as_slice() {
            [first, second] => comparison(first, second, &self.ratios).markdown(),
            [first, ..] => single(first).markdown(),
            [] => String::new(),
        }
    }

    fn heading(&self) -> String {
        let mut fields = Fields::default();
        for (label, directory) in labels(&self.directories) {
            let on = &directory.file_system;
            fields.add(label, format!("{} ({}, {})", printable(&directory.path), on.kind, on.source));
        }
        let options = &self.options;
        let mut work = Vec::new();
        if options.big_size > 0 {
            work.push(format!(
                "{} in blocks of {}",
                human::size(options.big_size),
                human::size(options.block_size)
            ));
        }
        if options.small_count > 0 {
            let files = human::plural(u64::from(options.small_count), "file", "files");
            let synced = if options.fsync { ", each synced" } else { "" };
            work.push(format!("{files} of {}{synced}", human::size(options.small_size)));
        }
        let threads = human::plural(u64::from(options.threads), "thread", "threads");
        fields.add("work", format!("{threads}, each with {}", work.join(" and ")));
        if options.repeat > 1 {
            fields.add("repeated", format!("{} times; medians, ± the largest distance", options.repeat));
        }
        fields.render(0)
    }
}

fn labels(directories: &[Directory]) -> impl Iterator<Item = (&'static str, &Directory)> {
    let labels: &[_] = if directories.len() == 1 { &["directory"] } else { &["A", "B"] };
    labels.iter().copied().zip(directories)
}

/// A directory and the type of its file system, for the legend of a picture.
pub(super) fn label(directory: &Directory) -> String {
    format!("{} ({})", printable(&directory.path), directory.file_system.kind)
}

/// A path on one line, whatever is in it.
fn printable(path: &std::path::Path) -> String {
    path.to_string_lossy()
        .chars()
        .flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] })
        .collect()
}

fn single(directory: &Directory) -> Table {
    let mut table = Table::new(&[
        ("PHASE", Align::Left),
        ("CACHES", Align::Left),
        ("RATE", Align::Right),
        ("", Align::Left),
        ("MEAN", Align::Right),
        ("P50", Align::Right),
        ("P90", Align::Right),
        ("P99", Align::Right),
        ("P99.9", Align::Right),
        ("MAX", Align::Right),
    ]);
    for figures in &directory.phases {
        let latency = &figures.latency;
        let times = [latency.mean, latency.p50, latency.p90, latency.p99, latency.p999, latency.max];
        let mut row: Vec<Cell> = vec![
            figures.phase.title().into(),
            Cell::new(caches(figures.caches), Style::Dim),
            Cell::new(rate(figures), Style::Bold),
            unit(figures.unit).into(),
        ];
        row.extend(times.map(|t| Cell::from(seconds(t))));
        table.styled_row(row);
    }
    table
}

fn comparison(first: &Directory, second: &Directory, ratios: &[Ratio]) -> Table {
    let mut table = Table::new(&[
        ("PHASE", Align::Left),
        ("CACHES", Align::Left),
        ("A", Align::Right),
        ("B", Align::Right),
        ("", Align::Left),
        ("A/B", Align::Right),
        ("A P50", Align::Right),
        ("B P50", Align::Right),
        ("A P99", Align::Right),
        ("B P99", Align::Right),
    ]);
    for ((a, b), ratio) in first.phases.iter().zip(&second.phases).zip(ratios) {
        // Only a difference that every repetition shows is one.
        let style = match ratio.apart {
            true if ratio.rate > 1.0 => Style::Good,
            true => Style::Bad,
            false => Style::Plain,
        };
        let emptied = match (caches(a.caches), caches(b.caches)) {
            (a, b) if a == b => a.to_owned(),
            (a, b) => format!("{a}, {b}"),
        };
        table.styled_row(vec![
            a.phase.title().into(),
            Cell::new(emptied, Style::Dim),
            rate(a).into(),
            rate(b).into(),
            unit(a.unit).into(),
            Cell::new(human::measured(ratio.rate), style),
            seconds(a.latency.p50).into(),
            seconds(b.latency.p50).into(),
            seconds(a.latency.p99).into(),
            seconds(b.latency.p99).into(),
        ]);
    }
    table
}

fn caches(caches: Option<Caches>) -> &'static str {
    match caches {
        None => "",
        Some(Caches::Dropped) => "dropped",
        Some(Caches::ContentsDropped) => "contents dropped",
        Some(Caches::Refused) => "not dropped",
        Some(Caches::Kept) => "kept",
    }
}

fn rate(figures: &Figures) -> String {
    let scale = match figures.unit {
        Unit::Bytes => f64::from(1 << 20),
        Unit::Operations | Unit::Files => 1.0,
    };
    spread(&figures.rate.map(|rate| rate / scale))
}

fn spread(spread: &Spread) -> String {
    match spread.relative() {
        Some(relative) if spread.samples > 1 => {
            format!("{} ±{:.0}%", human::measured(spread.median), relative * 100.0)
        }
        _ => human::measured(spread.median),
    }
}

fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Bytes => "MiB/s",
        Unit::Operations => "ops/s",
        Unit::Files => "files/s",
    }
}

fn seconds(seconds: f64) -> String {
    human::latency(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
}

/// Above this share of the time, checking what was read is worth a note.
const MUCH_CHECKING: f64 = 0.05;

/// What a reader of the figures should know.
pub(super) fn notes(directories: &[Directory]) -> Vec<String> {
    let mut notes = Vec::new();
    let any = |wanted: Caches| directories.iter().any(|d| d.phases.iter().any(|f| f.caches == Some(wanted)));
    if any(Caches::Refused) {
        notes.push(
            "Caches \"not dropped\": emptying the kernel's takes root, so these phases may have been served from memory."
                .to_owned(),
        );
    }
    if any(Caches::ContentsDropped) {
        notes.push(
            "Caches \"contents dropped\": without root, only what the large files hold was dropped from the kernel's caches."
                .to_owned(),
        );
    }
    for directory in directories {
        let kind = &directory.file_system.kind;
        if any(Caches::Dropped) && (kind.starts_with("fuse") || kind.starts_with("nfs") || kind == "9p") {
            notes.push(format!(
                "{} is {kind}: only the kernel's caches were dropped, not those of the daemon or server behind it.",
                printable(&directory.path)
            ));
        }
        if matches!(kind.as_str(), "tmpfs" | "ramfs") {
            notes.push(format!(
                "{} is {kind}: its files are in memory, whatever is dropped.",
                printable(&directory.path)
            ));
        }
    }
    let much: Vec<String> = directories
        .iter()
        .flat_map(|d| &d.phases)
        .filter_map(|f| {
            let checking: f64 = f.runs.iter().map(|r| r.checking_seconds).sum();
            let share = checking / (checking + f.latency.mean * f.latency.count as f64);
            (share > MUCH_CHECKING).then(|| format!("{} {:.0} %", f.phase.title(), share * 100.0))
        })
        .collect();
    if !much.is_empty() {
        notes.push(format!("Time spent checking what was read, not in the rates: {}.", much.join(", ")));
    }
    notes
}
