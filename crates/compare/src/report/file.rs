//! Results in a file.

use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::failure::{Context, Failure, Result};

/// Reads a file that [`save`] wrote; `version` says of which version it is.
///
/// # Errors
/// When it cannot be read, or is not of the version that this program writes.
pub fn load<T: DeserializeOwned>(path: &Path, current: u32, version: impl Fn(&T) -> u32) -> Result<T> {
    let text = std::fs::read(path).context(|| format!("reading {}", path.display()))?;
    let results: T = serde_json::from_slice(&text).context(|| format!("reading {}", path.display()))?;
    match version(&results) {
        found if found == current => Ok(results),
        found => Err(Failure::new(format!("{}: version {found}, not {current}", path.display()))),
    }
}

/// Writes results.
///
/// # Errors
/// When the file cannot be written.
pub fn save(results: &impl Serialize, path: &Path) -> Result<()> {
    let mut text = serde_json::to_vec_pretty(results).context(|| "describing results".into())?;
    text.push(b'\n');
    std::fs::write(path, text).context(|| format!("writing {}", path.display()))
}
