//! Reading an access log.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::totals::Totals;
use crate::daemon::operations::{Entry, OTHERS, Table};
use crate::failure::{Context, Failure};
use crate::output;

/// Longest line; those that are written here are a tenth of it.
const LINE_MAX: u64 = 4096;

/// Sums of single operations.
#[derive(Debug, Default)]
pub struct Sums {
    table: Table<(u32, String, String)>,
    totals: Totals,
}

impl Sums {
    /// Adds an operation.
    pub fn add(&mut self, entry: &Entry) {
        let key = (entry.pid, entry.process.clone(), entry.operation.to_string());
        self.table.add(key, entry.duration(), entry.bytes, entry.error.is_some());
    }

    /// Time went by, and operations that are not here.
    pub fn passed(&mut self, seconds: f64, dropped: u64) {
        self.totals.seconds += seconds;
        self.totals.dropped = self.totals.dropped.saturating_add(dropped);
    }

    /// All of it.
    pub fn totals(mut self) -> Totals {
        for (key, figures) in self.table.into_rows() {
            let (pid, process, operation) = key.unwrap_or((0, OTHERS.to_owned(), OTHERS.to_owned()));
            self.totals.add_row(pid, &process, &operation, &figures);
        }
        self.totals
    }
}

/// Adds an access log up. The time is that from its first operation to the end of its last.
pub fn read(path: &Path) -> Result<Totals, Failure> {
    let shown = output::path(path);
    let what = || format!("cannot read {shown}");
    let mut file = BufReader::new(File::open(path).context(what)?);
    let mut sums = Sums::default();
    let mut times: Option<(SystemTime, SystemTime)> = None;
    let mut line = Vec::new();
    for number in 1_u64.. {
        line.clear();
        let len = (&mut file).take(LINE_MAX).read_until(b'\n', &mut line).context(what)?;
        if len == 0 {
            break;
        }
        let entry = match serde_json::from_slice::<Entry>(&line) {
            Ok(entry) => entry,
            // It is being written, or its writer was killed.
            Err(_) if !line.ends_with(b"\n") && (len as u64) < LINE_MAX => break,
            Err(e) => {
                return Err(Failure::new(format!("line {number} of {shown} is not that of an access log"))
                    .because(&e)
                    .advise("An access log is what \"headrace profile MOUNTPOINT --record FILE\" writes."));
            }
        };
        sums.add(&entry);
        let end = entry.at.checked_add(entry.duration()).unwrap_or(entry.at);
        times = Some(match times {
            Some((first, last)) => (first.min(entry.at), last.max(end)),
            None => (entry.at, end),
        });
    }
    let passed = times.and_then(|(first, last)| last.duration_since(first).ok());
    sums.passed(passed.unwrap_or(Duration::ZERO).as_secs_f64(), 0);
    Ok(sums.totals())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"at":"2026-11-22T05:00:01.000000Z","duration_ns":1000000,"operation":"read","pid":7,"process":"cat","tid":8,"uid":0,"inode":12,"bytes":4096}"#;

    fn written(text: &str) -> Result<Totals, Failure> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        read(file.path())
    }

    #[test]
    fn lines_are_added_up_and_one_that_is_cut_short_is_left_out() {
        let later = LINE.replace("05:00:01", "05:00:03");
        let totals = written(&format!("{LINE}\n{later}\n{}", &LINE[..40])).unwrap();
        assert_eq!((totals.all().count(), totals.all().bytes), (2, 8192));
        assert!((totals.seconds - 2.001).abs() < 1e-9);
        assert_eq!(written("").unwrap().all().count(), 0);
    }

    #[test]
    fn another_file_is_refused_with_the_line() {
        let failure = written(&format!("{LINE}\nhello\n")).unwrap_err();
        assert!(failure.message().starts_with("line 2 of "), "{failure}");
        assert!(written(&"x".repeat(100_000)).is_err());
    }
}
