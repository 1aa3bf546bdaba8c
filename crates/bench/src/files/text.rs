//! The figures as a table, and what to know about them.

use std::time::Duration;

use super::caches::Caches;
use super::outcome::{Directory, Figures, Ratio, Report};
use super::phases::{Phase, Unit};
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
        let quantiles = [latency.p50, latency.p90, latency.p99, latency.p999];
        let mut row: Vec<Cell> = vec![
            figures.phase.title().into(),
            Cell::new(caches(figures.caches), Style::Dim),
            Cell::new(rate(figures), Style::Bold),
            unit(figures.unit).into(),
        ];
        row.push(seconds(latency.mean).into());
        row.extend(quantiles.map(|time| Cell::from(quantile(time))));
        row.push(seconds(latency.max).into());
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
            quantile(a.latency.p50).into(),
            quantile(b.latency.p50).into(),
            quantile(a.latency.p99).into(),
            quantile(b.latency.p99).into(),
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

/// Of a histogram, which tells nothing apart below 1,024 ns.
fn quantile(time: f64) -> String {
    if time < 1.024e-6 { "<1 µs".to_owned() } else { seconds(time) }
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
    let mut much: Vec<(Phase, f64)> = Vec::new();
    for figures in directories.iter().flat_map(|directory| &directory.phases) {
        let checking: f64 = figures.runs.iter().map(|run| run.checking_seconds).sum();
        let share = checking / (checking + figures.latency.mean * figures.latency.count as f64);
        match much.iter_mut().find(|(phase, _)| *phase == figures.phase) {
            Some((_, most)) => *most = most.max(share),
            None => much.push((figures.phase, share)),
        }
    }
    much.retain(|(_, share)| *share > MUCH_CHECKING);
    if !much.is_empty() {
        let much: Vec<String> =
            much.iter().map(|(phase, share)| format!("{} {:.0} %", phase.title(), share * 100.0)).collect();
        notes.push(format!(
            "Part of the time that went into checking, not in the rates: {}.",
            much.join(", ")
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::super::{Options, Stop, run};

    #[test]
    fn the_table_has_every_phase_and_says_what_to_mind() {
        let directory = tempfile::tempdir().unwrap();
        let options = Options { small_count: 3, big_size: 1 << 16, keep_caches: true, ..Options::quick() };
        let report = run(directory.path(), None, &options, &Stop::default(), &mut |_| ()).unwrap();
        let text = report.text(false);
        let [found] = report.directories.as_slice() else { panic!("one directory") };
        for figures in &found.phases {
            let line = text.lines().find(|line| line.starts_with(figures.phase.title())).unwrap();
            assert_eq!(line.contains("kept"), figures.phase.is_cold(), "{line}");
        }
        assert!(
            text.contains("4 threads, each with 64 KiB in blocks of 1 MiB and 3 files of 128 KiB"),
            "{text}"
        );
        assert!(report.notes.iter().all(|note| text.contains(note)), "{text}");
        assert!(report.markdown().starts_with("| PHASE"));
        assert_eq!(text.matches('\x1b').count(), 0);
        assert!(report.text(true).contains("\x1b[1m"));
        assert!(report.figure().svg().unwrap().contains("delete one file"));
    }
}
