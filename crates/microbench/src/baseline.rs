//! The recorded measurements: a file in the repository.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::environment::Environment;

/// Version of the file's form.
const FORMAT: u32 = 1;

/// What one run of one benchmark costs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Cost {
    /// Instructions executed in user space.
    pub instructions: u64,
    /// Bytes that `memcpy`, `memmove` and their like moved. Copies so short that the compiler writes them out are not in it.
    pub bytes_copied: u64,
    /// Calls of those.
    pub copies: u64,
}

/// Benchmarks by name: `file::group::function`, then the case.
pub type Measurements = BTreeMap<String, Cost>;

/// Measurements and where they were made.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Baseline {
    format: u32,
    /// Where.
    pub environment: Environment,
    /// What.
    pub benchmarks: Measurements,
}

/// Why there is no baseline.
#[derive(Debug, thiserror::Error)]
pub enum BaselineError {
    /// The file cannot be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The file is something else.
    #[error("{}: not a baseline: {error}; `make bench-check UPDATE=1` records a new one", path.display())]
    Malformed {
        /// Which.
        path: PathBuf,
        /// Why.
        error: serde_json::Error,
    },
    /// The file is of another version.
    #[error("{}: a baseline of format {found}, and this program knows {FORMAT}", path.display())]
    Format {
        /// Which.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
}

impl Baseline {
    /// What was measured here.
    pub fn new(environment: Environment, benchmarks: Measurements) -> Baseline {
        Baseline { format: FORMAT, environment, benchmarks }
    }

    /// Reads a file; `None` if there is none.
    ///
    /// # Errors
    /// [`BaselineError`].
    pub fn read(path: &Path) -> Result<Option<Baseline>, BaselineError> {
        let file = |error| BaselineError::File { path: path.to_owned(), error };
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(file(error)),
        };
        let baseline: Baseline = serde_json::from_str(&text)
            .map_err(|error| BaselineError::Malformed { path: path.to_owned(), error })?;
        match baseline.format {
            FORMAT => Ok(Some(baseline)),
            found => Err(BaselineError::Format { path: path.to_owned(), found }),
        }
    }

    /// Writes the file, in an order that makes for small differences between versions.
    ///
    /// # Errors
    /// [`BaselineError::File`].
    pub fn write(&self, path: &Path) -> Result<(), BaselineError> {
        let file = |error| BaselineError::File { path: path.to_owned(), error };
        let mut text = serde_json::to_string_pretty(self).map_err(|error| file(error.into()))?;
        text.push('\n');
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(file)?;
        }
        std::fs::write(path, text).map_err(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn baseline() -> Baseline {
        let environment = Environment {
            target: "t".into(),
            rustc: "r".into(),
            libc: "l".into(),
            valgrind: "v".into(),
            cpu: "c".into(),
        };
        let cost = Cost { instructions: 1000, bytes_copied: 4096, copies: 2 };
        Baseline::new(environment, [("flow::admission::granted".to_owned(), cost)].into())
    }

    #[test]
    fn what_is_written_is_read() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("benches/baseline.json");
        assert_eq!(Baseline::read(&path).expect("no file is no error"), None);
        baseline().write(&path).expect("written");
        assert_eq!(Baseline::read(&path).expect("read"), Some(baseline()));
    }

    #[test]
    fn what_is_not_a_baseline_is_refused_by_name() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("baseline.json");
        std::fs::write(&path, "{}").expect("written");
        let error = Baseline::read(&path).expect_err("malformed").to_string();
        assert!(error.contains("baseline.json") && error.contains("not a baseline"), "{error}");
        std::fs::write(&path, serde_json::to_string(&Baseline { format: 2, ..baseline() }).expect("JSON"))
            .expect("written");
        assert!(matches!(Baseline::read(&path), Err(BaselineError::Format { found: 2, .. })));
    }
}
