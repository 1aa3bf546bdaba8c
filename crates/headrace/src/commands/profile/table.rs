//! The table of operations, as wide as there is room.

use super::totals::{By, Sort, Totals};
use crate::output::human;
use crate::output::table::{Align, Table};

/// How much of it there is room for.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// Columns of the terminal.
    pub width: usize,
    /// Rows of the table.
    pub rows: usize,
}

/// As much as a person reads where nothing limits it.
pub const PAGE: Room = Room { width: usize::MAX, rows: 40 };

/// Columns that are left out, in this order, where there is no room for them.
const DISPENSABLE: [&str; 4] = ["MAX", "ERRORS", "P99", "DATA/S"];

/// One line over all.
pub fn summary(totals: &Totals) -> String {
    let all = totals.all();
    let per_second = |n: f64| if totals.seconds > 0.0 { n / totals.seconds } else { 0.0 };
    let mut text = format!(
        "{} op/s, {}/s, {:.1} at a time",
        human::rate(per_second(all.count() as f64)),
        human::bytes(per_second(all.bytes as f64) as u64),
        per_second(all.time().as_secs_f64()),
    );
    if totals.dropped > 0 {
        text.push_str(&format!(", {} more not seen", human::count(totals.dropped)));
    }
    text
}

/// The table, a line each, headings first.
pub fn lines(totals: &Totals, by: By, sort: Sort, room: Room) -> Vec<String> {
    let mut left_out = 0;
    loop {
        let (without, _) = DISPENSABLE.split_at(left_out);
        let text = table(totals, by, sort, room.rows, without).render(0);
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let fits = lines.iter().all(|line| line.chars().count() <= room.width);
        if fits || left_out == DISPENSABLE.len() {
            return lines;
        }
        left_out += 1;
    }
}

fn table(totals: &Totals, by: By, sort: Sort, rows: usize, without: &[&str]) -> Table {
    let columns = [
        ("PID", Align::Right, by.process),
        ("COMMAND", Align::Left, by.process || by.command),
        ("OPERATION", Align::Left, by.operation),
        ("OP/S", Align::Right, true),
        ("TIME", Align::Right, true),
        ("MEAN", Align::Right, true),
        ("P99", Align::Right, true),
        ("MAX", Align::Right, true),
        ("DATA/S", Align::Right, true),
        ("ERRORS", Align::Right, true),
    ];
    let shown = columns.map(|(name, _, wanted)| wanted && !without.contains(&name));
    let mut pick = shown.iter();
    let headings: Vec<(&str, Align)> = columns
        .iter()
        .filter(|_| pick.next() == Some(&true))
        .map(|(name, align, _)| (*name, *align))
        .collect();
    let mut table = Table::new(&headings);
    let all = totals.all().time().as_secs_f64();
    let per_second = |n: u64| if totals.seconds > 0.0 { n as f64 / totals.seconds } else { 0.0 };
    for group in totals.groups(by, sort).into_iter().take(rows) {
        let figures = &group.figures;
        let time = if all > 0.0 { figures.time().as_secs_f64() / all * 100.0 } else { 0.0 };
        let latency = |d: Option<std::time::Duration>| d.map_or_else(|| "-".to_owned(), human::latency);
        let dash = || "-".to_owned();
        let cells = [
            group.pid.filter(|pid| *pid > 0).map_or_else(dash, |pid| pid.to_string()),
            match group.process {
                // The kernel itself: it writes back, reads ahead and forgets on nobody's behalf.
                Some(name) if name.is_empty() && group.pid.unwrap_or(0) == 0 => "(kernel)".to_owned(),
                Some(name) if name.is_empty() => "(gone)".to_owned(),
                Some(name) => name,
                None => String::new(),
            },
            group.operation.unwrap_or_default(),
            human::rate(per_second(figures.count())),
            format!("{time:.1}%"),
            latency(figures.duration.mean_duration()),
            latency(figures.quantile(0.99)),
            human::latency(std::time::Duration::from_nanos(figures.max_ns)),
            if figures.bytes > 0 { human::bytes(per_second(figures.bytes) as u64) } else { dash() },
            if figures.errors > 0 { human::count(figures.errors) } else { dash() },
        ];
        let mut pick = shown.iter();
        table.row(cells.into_iter().filter(|_| pick.next() == Some(&true)).collect());
    }
    table
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use headrace_metrics::Histogram;

    use super::*;
    use crate::daemon::operations::{Figures, Part};

    fn totals() -> Totals {
        let mut totals = Totals::default();
        totals.add(&Part { seconds: 2.0, dropped: 0, rows: Vec::new(), entries: Vec::new() });
        let histogram = Histogram::new();
        (0..500).for_each(|_| histogram.record(Duration::from_micros(300)));
        let figures =
            Figures { errors: 3, bytes: 500 << 20, max_ns: 300_000, duration: histogram.snapshot() };
        totals.add_row(4_000_000, "fifteen-letters", "copy_file_range_64", &figures);
        totals.add_row(0, "", "forget", &Figures { bytes: 0, errors: 0, ..figures });
        totals
    }

    #[test]
    fn it_fits_any_usual_width_and_says_the_most_important() {
        let totals = totals();
        let by = "process,operation".parse().unwrap();
        for width in [60, 72, 80, 100, 132] {
            let lines = lines(&totals, by, Sort::Time, Room { width, rows: 10 });
            assert_eq!(lines.len(), 3, "{lines:#?}");
            assert!(
                width < 80 || lines.iter().all(|line| line.chars().count() <= width),
                "{width}: {lines:#?}"
            );
            for heading in ["PID", "COMMAND", "OPERATION", "OP/S", "TIME", "MEAN"] {
                assert!(lines[0].contains(heading), "{lines:#?}");
            }
        }
        let all = lines(&totals, by, Sort::Errors, PAGE);
        assert!(all[1].contains("fifteen-letters  copy_file_range_64") && all[1].ends_with('3'), "{all:#?}");
        assert!(all[2].contains("(kernel)"), "{all:#?}");
        assert_eq!(summary(&totals), "500 op/s, 250.0 MiB/s, 0.1 at a time");
    }
}
