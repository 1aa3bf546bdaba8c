//! What gungraun prints: a JSON object per benchmark and line, of which only the totals matter here.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::baseline::{Cost, Measurements};

/// The version of the form that this knows; the runner's version is fixed, so it changes only on purpose.
const VERSION: &str = "7";

/// Why output is not understood.
#[derive(Debug, thiserror::Error)]
pub enum SummaryError {
    /// A line is not a summary.
    #[error("line {line} of the benchmarks' output is no summary: {error}")]
    Malformed {
        /// Which, from 1.
        line: usize,
        /// Why.
        error: serde_json::Error,
    },
    /// A line is a summary of another version.
    #[error(
        "the benchmarks' output has version {found}, and {VERSION} is known: gungraun and its runner are others than \
             scripts/install-test-tools installs"
    )]
    Version {
        /// Its version.
        found: String,
    },
    /// A measurement is not there.
    #[error("{benchmark}: no figure {figure} in the benchmarks' output")]
    Missing {
        /// Whose.
        benchmark: String,
        /// Which.
        figure: &'static str,
    },
    /// Two benchmarks have one name.
    #[error("{0}: two benchmarks of this name")]
    Twice(String),
}

#[derive(Deserialize)]
struct Summary {
    version: String,
    module_path: String,
    id: Option<String>,
    profiles: Vec<Profile>,
}

#[derive(Deserialize)]
struct Profile {
    tool: String,
    data: Data,
}

#[derive(Deserialize)]
struct Data {
    total: Total,
}

#[derive(Deserialize)]
struct Total {
    metrics: BTreeMap<String, Metric>,
}

#[derive(Deserialize)]
struct Metric {
    values: Values,
}

/// Of this run, and of the one before it if the runner still has that.
#[derive(Deserialize)]
struct Values {
    new: Option<Value>,
}

/// The measurements in `output`; lines that do not begin an object are somebody else's.
///
/// # Errors
/// [`SummaryError`].
pub fn parse(output: &str) -> Result<Measurements, SummaryError> {
    let mut measurements = Measurements::new();
    for (number, line) in output.lines().enumerate().filter(|(_, line)| line.starts_with('{')) {
        let summary: Summary = serde_json::from_str(line)
            .map_err(|error| SummaryError::Malformed { line: number + 1, error })?;
        if summary.version != VERSION {
            return Err(SummaryError::Version { found: summary.version });
        }
        let name = match &summary.id {
            Some(id) => format!("{}::{id}", summary.module_path),
            None => summary.module_path.clone(),
        };
        let figure = |tool: &str, key: &str, figure| {
            summary
                .profiles
                .iter()
                .find(|profile| profile.tool.eq_ignore_ascii_case(tool))
                .and_then(|profile| profile.data.total.metrics.get(key)?.values.new.as_ref()?.as_u64())
                .ok_or_else(|| SummaryError::Missing { benchmark: name.clone(), figure })
        };
        let cost = Cost {
            instructions: figure("callgrind", "Ir", "instructions")?,
            bytes_copied: figure("dhat", "TotalBytes", "bytes copied")?,
            copies: figure("dhat", "TotalBlocks", "copies")?,
        };
        if measurements.insert(name.clone(), cost).is_some() {
            return Err(SummaryError::Twice(name));
        }
    }
    Ok(measurements)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line as gungraun 0.20 prints it, without what is not read.
    fn line(version: &str, id: &str, instructions: u64) -> String {
        let dhat = r#"{"values":{"new":4096,"old":9}}"#;
        format!(
            r#"{{"version":"{version}","id":"{id}","kind":"LibraryBenchmark","module_path":"data::ways::read","profiles":[
            {{"tool":"Callgrind","data":{{"parts":[],"total":{{"metrics":{{"Ir":{{"values":{{"new":{instructions}}}}}}},
            "regressions":[]}}}}}},
            {{"tool":"DHAT","data":{{"parts":[],"total":{{"metrics":{{"TotalBytes":{dhat},
            "TotalBlocks":{{"values":{{"new":2}}}}}},"regressions":[]}}}}}}]}}"#
        )
        .replace('\n', "")
    }

    #[test]
    fn totals_are_found_by_name() {
        let output =
            format!("noise\n{}\n\n{}\n", line("7", "packed_4_kib", 5000), line("7", "inline_4_kib", 6000));
        let measured = parse(&output).expect("two summaries");
        assert_eq!(measured.len(), 2);
        assert_eq!(
            measured["data::ways::read::packed_4_kib"],
            Cost { instructions: 5000, bytes_copied: 4096, copies: 2 }
        );
        assert_eq!(measured["data::ways::read::inline_4_kib"].instructions, 6000);
    }

    #[test]
    fn what_cannot_be_compared_is_an_error_and_no_zero() {
        assert!(matches!(parse(&line("8", "a", 1)), Err(SummaryError::Version { found }) if found == "8"));
        let without = line("7", "a", 1).replace("TotalBlocks", "Others");
        assert!(matches!(parse(&without), Err(SummaryError::Missing { figure: "copies", .. })));
        let twice = format!("{}\n{}", line("7", "a", 1), line("7", "a", 2));
        assert!(matches!(parse(&twice), Err(SummaryError::Twice(name)) if name == "data::ways::read::a"));
        assert!(matches!(parse("{not JSON"), Err(SummaryError::Malformed { line: 1, .. })));
        assert!(parse("").expect("nothing").is_empty());
    }
}
