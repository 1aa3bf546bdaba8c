//! What came of all files, and how it is shown.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::daemon::warming::Work;
use crate::output::table::{Align, Table};
use crate::output::{self, human};

/// Failures that are kept to be shown as JSON; more are only counted.
const FAILURES_KEPT: usize = 10_000;

/// Sums over files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Sums {
    /// Files that were dealt with.
    pub files: u64,
    /// Those that are completely cached.
    pub complete: u64,
    /// Bytes in them; of what was dropped, the bytes dropped.
    pub bytes: u64,
    /// Bytes that are cached.
    pub cached: u64,
    /// Files and directories that could not be dealt with.
    pub failed: u64,
}

impl Sums {
    fn add(&mut self, bytes: u64, cached: u64) {
        self.files += 1;
        self.complete += u64::from(cached >= bytes);
        self.bytes = self.bytes.saturating_add(bytes);
        self.cached = self.cached.saturating_add(cached);
    }
}

/// What was named, and what came of it.
#[derive(Debug, Serialize)]
struct Named {
    path: String,
    #[serde(flatten)]
    sums: Sums,
}

/// Something that could not be dealt with.
#[derive(Debug, Serialize)]
struct Failed {
    path: String,
    why: String,
}

/// What came of all.
#[derive(Serialize)]
pub struct Tally {
    /// Says something to the person at the terminal.
    #[serde(skip)]
    say: Box<dyn Fn(&str)>,
    work: Work,
    #[serde(flatten)]
    total: Sums,
    seconds: f64,
    /// Not everything was looked at.
    interrupted: bool,
    paths: Vec<Named>,
    failures: Vec<Failed>,
}

impl Tally {
    /// Nothing yet; `paths` are what was named, `say` says what fails.
    pub fn new(work: Work, paths: impl Iterator<Item = PathBuf>, say: Box<dyn Fn(&str)>) -> Tally {
        let named =
            |path: PathBuf| Named { path: path.to_string_lossy().into_owned(), sums: Sums::default() };
        Tally {
            say,
            work,
            total: Sums::default(),
            seconds: 0.0,
            interrupted: false,
            paths: paths.map(named).collect(),
            failures: Vec::new(),
        }
    }

    /// A file was dealt with that belongs to what was named there.
    pub fn add(&mut self, named: usize, bytes: u64, cached: u64) {
        self.total.add(bytes, cached);
        if let Some(named) = self.paths.get_mut(named) {
            named.sums.add(bytes, cached);
        }
    }

    /// Something could not be dealt with. Said at once, for the rest may take long.
    pub fn fail(&mut self, named: usize, path: &Path, why: &str) {
        let shown = output::path(path);
        // Some reasons name it themselves.
        let about = if why.contains(&shown) { String::new() } else { format!("{shown}: ") };
        (self.say)(&format!("headrace: {about}{why}"));
        self.total.failed += 1;
        if let Some(named) = self.paths.get_mut(named) {
            named.sums.failed += 1;
        }
        if self.failures.len() < FAILURES_KEPT {
            self.failures.push(Failed { path: path.to_string_lossy().into_owned(), why: why.to_owned() });
        }
    }

    /// All is done, or was interrupted.
    pub fn end(&mut self, seconds: f64, interrupted: bool) {
        (self.seconds, self.interrupted) = (seconds, interrupted);
    }

    /// All sums.
    pub fn total(&self) -> &Sums {
        &self.total
    }

    /// Whether what was asked for is so now.
    pub fn is_good(&self) -> bool {
        let complete = self.work == Work::Evict || self.total.complete == self.total.files;
        !self.interrupted && self.total.failed == 0 && complete
    }

    /// For a person.
    pub fn render(&self) -> String {
        let total = &self.total;
        let files = human::plural(total.files, "file", "files");
        let mut text = match self.work {
            Work::Check => self.table(),
            Work::Evict => format!("Dropped {} of {files} from the cache.\n", human::bytes(total.bytes)),
            Work::Fill | Work::Pin => format!(
                "{} of {files} {} cached{}, after {}.\n",
                human::bytes(total.cached),
                if total.files == 1 { "is" } else { "are" },
                if self.work == Work::Pin { " and pinned" } else { "" },
                human::seconds(self.seconds),
            ),
        };
        if total.failed > 0 {
            let failed = human::plural(total.failed, "failure", "failures");
            text.push_str(&format!("There {} {failed}.\n", if total.failed == 1 { "was" } else { "were" }));
        }
        if self.interrupted {
            text.push_str("Interrupted before all was done.\n");
        }
        text
    }

    fn table(&self) -> String {
        let mut table = Table::new(&[
            ("CACHED", Align::Right),
            ("", Align::Right),
            ("SIZE", Align::Right),
            ("FILES", Align::Right),
            ("PATH", Align::Left),
        ]);
        let mut row = |sums: &Sums, path: String| {
            table.row(vec![
                percent(sums),
                human::bytes(sums.cached),
                human::bytes(sums.bytes),
                format!("{} of {}", human::count(sums.complete), human::count(sums.files)),
                path,
            ]);
        };
        for named in &self.paths {
            row(&named.sums, output::name(named.path.as_bytes()));
        }
        if self.paths.len() > 1 {
            row(&self.total, "total".to_owned());
        }
        table.render(0)
    }
}

/// How much is cached, rounded down: 100 % is everything.
fn percent(sums: &Sums) -> String {
    match (u128::from(sums.cached) * 100).checked_div(u128::from(sums.bytes)) {
        Some(percent) => format!("{} %", percent.min(100)),
        // Nothing is missing of nothing.
        None => "100 %".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(work: Work) -> Tally {
        Tally::new(work, ["a", "b\n"].map(PathBuf::from).into_iter(), Box::new(|_| ()))
    }

    #[test]
    fn what_is_cached_is_shown_by_what_was_named_and_in_all() {
        let mut tally = tally(Work::Check);
        tally.add(0, 1000, 1000);
        tally.add(1, 999, 0);
        tally.add(1, 1 << 20, (1 << 20) - 1);
        tally.end(0.1, false);
        let lines: Vec<String> = tally.render().lines().map(str::to_owned).collect();
        assert!(lines[1].contains("100 %") && lines[1].contains("1 of 1") && lines[1].ends_with("a"));
        // A single missing byte is not 100 %.
        assert!(lines[2].contains("99 %") && lines[2].contains("0 of 2") && lines[2].ends_with("b\\n"));
        assert!(lines[3].contains("1 of 3") && lines[3].ends_with("total"), "{lines:?}");
        assert!(!tally.is_good());
    }

    #[test]
    fn only_what_is_complete_is_good() {
        for (work, good) in
            [(Work::Fill, false), (Work::Pin, false), (Work::Check, false), (Work::Evict, true)]
        {
            let mut tally = tally(work);
            assert!(tally.is_good(), "{work:?}");
            tally.add(0, 0, 0);
            assert!(tally.is_good() && percent(tally.total()) == "100 %", "{work:?}");
            tally.add(0, 10, 0);
            assert_eq!(tally.is_good(), good, "{work:?}");
        }
        let mut failed = tally(Work::Evict);
        failed.fail(1, Path::new("x"), "no");
        assert!(!failed.is_good() && failed.render().contains("1 failure"));
        let mut interrupted = tally(Work::Evict);
        interrupted.end(1.0, true);
        assert!(!interrupted.is_good() && interrupted.render().contains("Interrupted"));
    }

    #[test]
    fn json_has_everything() {
        let mut tally = tally(Work::Pin);
        tally.add(0, 10, 10);
        tally.fail(1, Path::new("b/x"), "it is gone");
        tally.end(0.5, false);
        let json = serde_json::to_value(&tally).unwrap();
        assert_eq!((&json["work"], &json["files"], &json["bytes"]), (&"pin".into(), &1.into(), &10.into()));
        assert_eq!((&json["cached"], &json["complete"], &json["failed"]), (&10.into(), &1.into(), &1.into()));
        assert_eq!(json["paths"][0]["cached"], 10);
        assert_eq!(json["paths"][1]["failed"], 1);
        assert_eq!(json["failures"][0]["why"], "it is gone");
        assert_eq!(json["interrupted"], false);
    }
}
