//! The report as a person reads it.

use std::fmt::Write;
use std::time::Duration;

use super::outcome::{Latency, Measurement, Report};
use crate::report::{Align, Cell, Fields, Style, Table, human};

impl Report {
    /// The whole report; with `colour`, for a terminal.
    pub fn text(&self, colour: bool) -> String {
        let mut head = Fields::default();
        head.add("Store", &self.url);
        head.add("When", format!("{}, {} in all", self.started, seconds(self.seconds)));
        head.add("From", self.from());
        let mut out = head.render(0);
        out.push_str("\nWhat the store does\n");
        for check in &self.checks {
            let (word, style) = match (check.passed, check.required) {
                (true, _) => ("ok  ", Style::Good),
                (false, true) => ("FAIL", Style::Bad),
                (false, false) => ("no  ", Style::Warning),
            };
            let detail = check.detail.as_ref().map(|detail| format!(": {detail}")).unwrap_or_default();
            // A string takes everything.
            let _ = writeln!(out, "  {}  {}{detail}", style.paint(word, colour), check.name);
        }
        for (large, table) in self.tables() {
            out.push('\n');
            out.push_str(&self.heading(large));
            out.push('\n');
            out.push_str(&table.render_in(2, colour));
        }
        for line in self.remarks() {
            let _ = writeln!(out, "\n{line}");
        }
        out
    }

    /// The tables alone, in Markdown.
    pub fn markdown(&self) -> String {
        let tables =
            self.tables().map(|(large, table)| format!("{}\n\n{}", self.heading(large), table.markdown()));
        tables.into_iter().collect::<Vec<_>>().join("\n")
    }

    /// What ran it: version, processors, memory, kernel.
    pub(super) fn from(&self) -> String {
        format!(
            "headrace {}, {}, {}, Linux {}",
            self.version,
            human::plural(self.machine.cpus as u64, "CPU", "CPUs"),
            human::size(self.machine.memory),
            self.machine.kernel
        )
    }

    fn heading(&self, large: bool) -> String {
        let options = &self.options;
        if large {
            format!("Objects of {}, ranges of {}", human::size(options.big_size), human::size(options.block))
        } else {
            format!("Objects of {}", human::size(options.small_size))
        }
    }

    fn tables(&self) -> [(bool, Table); 2] {
        [true, false].map(|large| {
            let mut table = Table::new(&[
                ("OPERATION", Align::Left),
                ("AT A TIME", Align::Right),
                ("MiB/s", Align::Right),
                ("OBJECTS/s", Align::Right),
                ("TIME/OBJECT", Align::Right),
                ("p50", Align::Right),
                ("p90", Align::Right),
                ("p99", Align::Right),
                ("p99.9", Align::Right),
                ("MAX", Align::Right),
                ("CPUs", Align::Right),
                ("ERRORS", Align::Right),
            ]);
            let mut rows: Vec<&Measurement> = self.of_size(large).collect();
            // By operation, so that levels can be compared; within one, in their order.
            let place = |row: &Measurement| rows_order(row);
            rows.sort_by_key(|row| place(row));
            for row in rows {
                table.styled_row(cells(row));
            }
            (large, table)
        })
    }

    /// The measurements of the large or the small objects. Where both are of one size, they come in turns.
    pub(super) fn of_size(&self, large: bool) -> impl Iterator<Item = &Measurement> {
        let at_level = 9;
        self.measurements
            .iter()
            .enumerate()
            .filter(move |(at, _)| (at % at_level < 4) == large)
            .map(|(_, measurement)| measurement)
    }

    fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        let left_out = self.measurements.iter().filter_map(|m| Some((m, m.left_out.as_ref()?)));
        for (measurement, why) in left_out {
            remarks.push(format!("Not measured: {}: {why}", measurement.describe()));
        }
        for measurement in &self.measurements {
            for error in &measurement.errors {
                remarks.push(format!(
                    "{} x {} in {}: {}",
                    human::count(error.count),
                    error.kind,
                    measurement.describe(),
                    error.example
                ));
            }
        }
        let retries: u64 = self.measurements.iter().map(|measurement| measurement.retries).sum();
        if retries > 0 {
            remarks.push(format!(
                "{} again before they were answered.",
                human::plural(retries, "attempt was made", "attempts were made")
            ));
        }
        if self.interrupted {
            remarks.push("Stopped early: not everything was measured.".to_owned());
        }
        remarks
    }
}

impl Measurement {
    /// `put of 4 MiB, 10 at a time`.
    pub(super) fn describe(&self) -> String {
        format!(
            "{} of {}, {} at a time",
            self.operation.name(),
            human::size(self.object_bytes),
            self.concurrency
        )
    }
}

fn rows_order(row: &Measurement) -> u8 {
    row.operation as u8
}

fn cells(row: &Measurement) -> Vec<Cell> {
    let mut cells = vec![Cell::from(row.operation.name()), row.concurrency.to_string().into()];
    if row.left_out.is_some() {
        cells.push(Cell::new("not measured", Style::Dim));
        return cells;
    }
    let number = |value: Option<f64>| value.map_or("-".to_owned(), human::measured);
    cells.push(number(row.bytes_per_second().map(|rate| rate / f64::from(1 << 20))).into());
    cells.push(number(row.objects_per_second()).into());
    cells.push(row.seconds_per_object().map_or("-".to_owned(), latency).into());
    let of =
        |which: fn(&Latency) -> f64| row.latency.as_ref().map_or("-".to_owned(), |all| latency(which(all)));
    cells.push(of(|all| all.p50).into());
    cells.push(of(|all| all.p90).into());
    cells.push(of(|all| all.p99).into());
    cells.push(of(|all| all.p999).into());
    cells.push(of(|all| all.max).into());
    cells.push(row.processors().map_or("-".to_owned(), |busy| format!("{busy:.2}")).into());
    let failures = row.failures();
    cells.push(Cell::new(human::count(failures), if failures > 0 { Style::Bad } else { Style::Plain }));
    cells
}

fn latency(seconds: f64) -> String {
    human::latency(Duration::try_from_secs_f64(seconds).unwrap_or_default())
}

fn seconds(seconds: f64) -> String {
    human::duration(Duration::try_from_secs_f64(seconds).unwrap_or_default())
}
