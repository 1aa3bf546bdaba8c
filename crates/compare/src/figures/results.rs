//! What was found, every single figure of it, as JSON. `docs/benchmarks/reads.md` describes it.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::SystemTime;

use headrace_bench::report::Spread;
use serde::{Deserialize, Serialize};

use super::PartName;
use crate::failure::Result;
use crate::report::file;
use crate::report::results::Machine;
use crate::worker::WRONG_DATA;

/// Changes when a field changes its meaning or goes.
const VERSION: u32 = 1;

/// All of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Results<P> {
    /// Of this schema: 1.
    pub version: u32,
    /// When it ended, UTC.
    pub date: String,
    /// How long it took, with all preparations.
    pub took_seconds: f64,
    /// What it ran on.
    pub machine: Machine,
    /// What served the objects.
    pub server: String,
    /// What Headrace says its version is.
    pub headrace: String,
    /// Every single figure.
    pub samples: Vec<Sample<P>>,
    /// What was left out, and why.
    pub not_measured: Vec<String>,
}

/// One row with one contender, once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample<P> {
    /// The part.
    pub part: P,
    /// What is compared within.
    pub row: String,
    /// What was measured: `default`, fixed settings, a peer.
    pub contender: String,
    /// From 0.
    pub repetition: u32,
    /// Why there is nothing. Contains `WRONG DATA` when something else was read than was written.
    pub failed: Option<String>,
    /// By name; the report says in which units.
    pub values: BTreeMap<String, f64>,
    /// Million bytes per second of each tenth of a second, where throughput over time matters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<f64>,
}

impl<P: PartName> Results<P> {
    /// Empty ones, of now.
    pub fn now() -> Results<P> {
        Results {
            version: VERSION,
            date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            took_seconds: 0.0,
            machine: Machine::default(),
            server: String::new(),
            headrace: String::new(),
            samples: Vec::new(),
            not_measured: Vec::new(),
        }
    }

    /// Reads a file that [`Self::save`] wrote.
    ///
    /// # Errors
    /// When it cannot be read, or is of another version of this program.
    pub fn load(path: &Path) -> Result<Results<P>> {
        file::load(path, VERSION, |results: &Results<P>| results.version)
    }

    /// Writes them.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        file::save(self, path)
    }

    /// Takes in what another run found, as further repetitions.
    pub fn merge(&mut self, other: Results<P>) {
        let first = self.samples.iter().map(|sample| sample.repetition + 1).max().unwrap_or(0);
        let later = |sample: Sample<P>| Sample { repetition: sample.repetition + first, ..sample };
        self.samples.extend(other.samples.into_iter().map(later));
        // What one run had no time for another one has measured.
        let both = |line: &String| other.not_measured.contains(line);
        self.not_measured.retain(both);
        self.date = self.date.clone().max(other.date);
        self.took_seconds += other.took_seconds;
    }

    /// Reads that gave something else than was written.
    pub fn wrong_data(&self) -> Vec<&Sample<P>> {
        let wrong = |sample: &&Sample<P>| sample.failed.as_ref().is_some_and(|why| why.contains(WRONG_DATA));
        self.samples.iter().filter(wrong).collect()
    }

    /// Rows of a part, in the order in which they were first measured.
    pub fn rows(&self, part: P) -> Vec<&str> {
        distinct(self.samples.iter().filter(|one| one.part == part).map(|one| one.row.as_str()))
    }

    /// Who was measured in a row.
    pub fn contenders(&self, part: P, row: &str) -> Vec<&str> {
        let here = self.samples.iter().filter(|one| one.part == part && one.row == row);
        distinct(here.map(|one| one.contender.as_str()))
    }

    /// One value of a contender in a row, over all repetitions.
    pub fn value(&self, part: P, row: &str, contender: &str, name: &str) -> Option<Spread> {
        Spread::of(self.values(part, row, contender, name).map(|(_, value)| value))
    }

    /// The same by repetition: those of one were measured within minutes, and may be compared where the machine differs from hour to hour. Of
    /// several in one repetition the last counts.
    pub fn repeated(&self, part: P, row: &str, contender: &str, name: &str) -> BTreeMap<u32, f64> {
        self.values(part, row, contender, name).collect()
    }

    /// The same one by one, as they were measured, each with its repetition.
    fn values(&self, part: P, row: &str, contender: &str, name: &str) -> impl Iterator<Item = (u32, f64)> {
        let here = move |one: &&Sample<P>| one.part == part && one.row == row && one.contender == contender;
        self.samples.iter().filter(here).filter_map(move |one| Some((one.repetition, *one.values.get(name)?)))
    }
}

fn distinct<'a>(all: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for one in all {
        if !seen.contains(&one) {
            seen.push(one);
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
    enum Part {
        Matrix,
    }

    fn sample(row: &str, contender: &str, value: f64) -> Sample<Part> {
        Sample {
            part: Part::Matrix,
            row: row.into(),
            contender: contender.into(),
            repetition: 0,
            failed: None,
            values: BTreeMap::from([("rate".into(), value)]),
            series: Vec::new(),
        }
    }

    #[test]
    fn repetitions_of_several_runs_are_put_together() {
        let mut one = Results::now();
        one.samples = vec![sample("a", "x", 1.0), sample("b", "x", 9.0), sample("a", "y", 5.0)];
        one.not_measured = vec!["c: no time was left".into()];
        let mut other = Results::now();
        other.samples = vec![sample("a", "x", 3.0)];
        one.merge(other);
        let got = one.value(Part::Matrix, "a", "x", "rate").unwrap();
        assert_eq!((got.min, got.median, got.max, got.samples), (1.0, 2.0, 3.0, 2));
        assert_eq!(one.rows(Part::Matrix), ["a", "b"]);
        assert_eq!(one.contenders(Part::Matrix, "a"), ["x", "y"]);
        assert_eq!(one.repeated(Part::Matrix, "a", "x", "rate"), BTreeMap::from([(0, 1.0), (1, 3.0)]));
        assert!(one.not_measured.is_empty());
        assert_eq!(one.samples.last().map(|last| last.repetition), Some(1));
        let text = serde_json::to_string(&one).unwrap();
        assert_eq!(serde_json::from_str::<Results<Part>>(&text).unwrap(), one);
    }
}
