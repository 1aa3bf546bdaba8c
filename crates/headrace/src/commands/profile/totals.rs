//! Operations summed up over time and grouped as a person wants to see them.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;

use crate::cli::values::BadValue;
use crate::daemon::operations::{Figures, OTHERS, Part};

/// Processes and operations that are told apart; what is beyond is summed up.
const KEYS_MAX: usize = 8192;

/// By what operations are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct By {
    /// Process by process.
    pub process: bool,
    /// All processes of one name together.
    pub command: bool,
    /// Operation by operation.
    pub operation: bool,
}

impl By {
    const fn of(process: bool, command: bool, operation: bool) -> By {
        By { process, command, operation }
    }

    /// The groupings a key press goes through.
    const ROUND: [By; 5] = [
        By::of(true, false, true),
        By::of(true, false, false),
        By::of(false, true, true),
        By::of(false, true, false),
        By::of(false, false, true),
    ];

    /// The one after this.
    pub fn next(self) -> By {
        let at = By::ROUND.iter().position(|by| *by == self).map_or(0, |at| at + 1);
        By::ROUND.get(at).copied().unwrap_or(By::ROUND[0])
    }
}

impl FromStr for By {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<By, BadValue> {
        let mut by = By::of(false, false, false);
        for word in text.split(',').map(str::trim) {
            match word {
                "process" => by.process = true,
                "command" => by.command = true,
                "operation" => by.operation = true,
                _ => {
                    return Err(BadValue(format!(
                        "\"{word}\" is none of process, command and operation, or several of them with commas between"
                    )));
                }
            }
        }
        Ok(by)
    }
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = [(self.process, "process"), (self.command, "command"), (self.operation, "operation")];
        let words: Vec<&str> = words.into_iter().filter(|(on, _)| *on).map(|(_, word)| word).collect();
        f.write_str(&words.join(","))
    }
}

/// What comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// What took the most time
    Time,
    /// What was done most often
    Count,
    /// What moved the most data
    Bytes,
    /// What failed most often
    Errors,
}

impl Sort {
    /// The one after this.
    pub fn next(self) -> Sort {
        match self {
            Sort::Time => Sort::Count,
            Sort::Count => Sort::Bytes,
            Sort::Bytes => Sort::Errors,
            Sort::Errors => Sort::Time,
        }
    }

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Sort::Time => "time",
            Sort::Count => "count",
            Sort::Bytes => "bytes",
            Sort::Errors => "errors",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    pid: u32,
    process: String,
    operation: String,
}

/// What happened in some time.
#[derive(Debug, Default)]
pub struct Totals {
    /// How long that is.
    pub seconds: f64,
    /// Operations that happened but are not in here.
    pub dropped: u64,
    rows: HashMap<Key, Figures>,
}

/// Operations that are told together.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Group {
    /// The process, where processes are told apart.
    pub pid: Option<u32>,
    /// Its name, where that is told.
    pub process: Option<String>,
    /// The operation, where operations are told apart.
    pub operation: Option<String>,
    /// How often, how long.
    pub figures: Figures,
}

impl Totals {
    /// Adds what happened after.
    pub fn add(&mut self, part: &Part) {
        self.seconds += part.seconds;
        self.dropped = self.dropped.saturating_add(part.dropped);
        for row in &part.rows {
            self.add_row(row.pid, &row.process, &row.operation, &row.figures);
        }
    }

    /// Adds operations.
    pub fn add_row(&mut self, pid: u32, process: &str, operation: &str, figures: &Figures) {
        let mut key = Key { pid, process: process.to_owned(), operation: operation.to_owned() };
        if self.rows.len() >= KEYS_MAX && !self.rows.contains_key(&key) {
            key = Key { pid: 0, process: OTHERS.to_owned(), operation: OTHERS.to_owned() };
        }
        self.rows.entry(key).or_default().merge(figures);
    }

    /// Everything together.
    pub fn all(&self) -> Figures {
        let mut all = Figures::default();
        self.rows.values().for_each(|figures| all.merge(figures));
        all
    }

    /// Grouped and sorted.
    pub fn groups(&self, by: By, sort: Sort) -> Vec<Group> {
        let mut groups: BTreeMap<_, Group> = BTreeMap::new();
        for (key, figures) in &self.rows {
            let pid = by.process.then_some(key.pid);
            let process = (by.process || by.command).then(|| key.process.clone());
            let operation = by.operation.then(|| key.operation.clone());
            let group = groups.entry((pid, process.clone(), operation.clone())).or_insert_with(|| Group {
                pid,
                process,
                operation,
                ..Group::default()
            });
            group.figures.merge(figures);
        }
        let mut groups: Vec<Group> = groups.into_values().collect();
        // Stable, so that what is alike does not change places.
        groups.sort_by_key(|group| {
            let figures = &group.figures;
            let first = match sort {
                Sort::Time => figures.time().as_nanos(),
                Sort::Count => figures.count().into(),
                Sort::Bytes => figures.bytes.into(),
                Sort::Errors => figures.errors.into(),
            };
            std::cmp::Reverse((first, figures.time()))
        });
        groups
    }

    /// The same as JSON.
    pub fn report(&self, by: By, sort: Sort) -> Report {
        let rows = self.groups(by, sort).into_iter().map(|group| {
            let figures = group.figures;
            let quantile = |q| figures.quantile(q).map_or(0.0, |d: Duration| d.as_secs_f64());
            ReportRow {
                count: figures.count(),
                errors: figures.errors,
                bytes: figures.bytes,
                time_seconds: figures.time().as_secs_f64(),
                p50_seconds: quantile(0.5),
                p99_seconds: quantile(0.99),
                max_seconds: Duration::from_nanos(figures.max_ns).as_secs_f64(),
                pid: group.pid,
                process: group.process,
                operation: group.operation,
            }
        });
        Report { seconds: self.seconds, dropped: self.dropped, rows: rows.collect() }
    }
}

/// What happened in some time, for scripts.
#[derive(Debug, Serialize)]
pub struct Report {
    seconds: f64,
    dropped: u64,
    rows: Vec<ReportRow>,
}

#[derive(Debug, Serialize)]
struct ReportRow {
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    process: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    operation: Option<String>,
    count: u64,
    errors: u64,
    bytes: u64,
    time_seconds: f64,
    p50_seconds: f64,
    p99_seconds: f64,
    max_seconds: f64,
}

#[cfg(test)]
mod tests {
    use headrace_metrics::Histogram;

    use super::*;

    fn figures(millis: u64, bytes: u64) -> Figures {
        let histogram = Histogram::new();
        histogram.record(Duration::from_millis(millis));
        Figures { errors: 0, bytes, max_ns: millis * 1_000_000, duration: histogram.snapshot() }
    }

    fn totals() -> Totals {
        let mut totals = Totals::default();
        totals.add_row(1, "cc", "read", &figures(10, 100));
        totals.add_row(1, "cc", "open", &figures(1, 0));
        totals.add_row(2, "cc", "read", &figures(5, 1000));
        totals.add_row(3, "ld", "write", &figures(7, 1));
        totals
    }

    #[test]
    fn groups_are_sums_and_the_largest_comes_first() {
        let totals = totals();
        let by = |text: &str, sort| -> Vec<String> {
            let groups = totals.groups(text.parse().unwrap(), sort);
            let text = |g: Group| {
                let pid = g.pid.map(|pid| pid.to_string());
                [pid, g.process, g.operation, Some(g.figures.time().as_millis().to_string())]
                    .into_iter()
                    .flatten()
                    .collect::<Vec<_>>()
                    .join(" ")
            };
            groups.into_iter().map(text).collect()
        };
        assert_eq!(by("command", Sort::Time), ["cc 16", "ld 7"]);
        assert_eq!(by("operation", Sort::Time), ["read 15", "write 7", "open 1"]);
        assert_eq!(by("process", Sort::Bytes), ["2 cc 5", "1 cc 11", "3 ld 7"]);
        assert_eq!(
            by("process,operation", Sort::Time),
            ["1 cc read 10", "3 ld write 7", "2 cc read 5", "1 cc open 1"]
        );
        assert!("file".parse::<By>().unwrap_err().to_string().contains("\"file\""));
    }

    #[test]
    fn a_key_press_goes_through_all_groupings() {
        let mut by: By = "process,operation".parse().unwrap();
        let mut seen = Vec::new();
        for _ in 0..By::ROUND.len() {
            assert_eq!(by.to_string().parse::<By>().unwrap(), by);
            seen.push(by);
            by = by.next();
        }
        assert_eq!((seen.as_slice(), by), (&By::ROUND[..], By::ROUND[0]));
    }

    #[test]
    fn memory_is_bounded_and_nothing_is_lost() {
        let mut totals = Totals::default();
        let one = figures(1, 1);
        for pid in 0..KEYS_MAX as u32 + 100 {
            totals.add_row(pid, "x", "read", &one);
        }
        assert_eq!(totals.rows.len(), KEYS_MAX + 1);
        assert_eq!(totals.all().bytes, KEYS_MAX as u64 + 100);
    }
}
