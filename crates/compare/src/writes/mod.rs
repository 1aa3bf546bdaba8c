//! Writes by themselves: large files against a client that has no file system to be, blocks overwritten anywhere, trees of small files
//! beside the native file system and JuiceFS, and what a full queue does to who reads. Every byte that is written is read again in a later
//! mount and compared. `docs/benchmarks/writes.md` says what each part is and what is asked of it.

mod bufferbloat;
mod overwrite;
mod report;
mod rig;
mod sequential;
mod small_files;
mod tree;
mod write_back;

use std::path::Path;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::failure::{Context, Failure, Result};
use crate::figures;
use rig::Rig;
pub use rig::Sizes;

/// What can be measured by itself.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// Large files against a bare client's PUTs.
    Sequential,
    /// Blocks of 4 KiB anywhere in a large file.
    Overwrite,
    /// Trees of small files, beside the native file system and JuiceFS.
    SmallFiles,
    /// New files on this machine's disk first, beside the native file system.
    WriteBack,
    /// Reads while the queue of writes is full.
    Bufferbloat,
}

impl Part {
    /// In the order of the report.
    pub const ALL: [Part; 5] =
        [Part::Sequential, Part::Overwrite, Part::WriteBack, Part::SmallFiles, Part::Bufferbloat];
}

/// What to measure.
pub type Options = figures::Options<Part, Sizes>;

/// What was found.
pub type Results = figures::results::Results<Part>;
type Run<'a> = figures::run::Run<'a, Part>;

/// Writes the JSON (`results.json`) and the report to `dir`. Gives the report.
///
/// # Errors
/// When a file cannot be written.
pub fn save(results: &Results, dir: &Path) -> Result<String> {
    figures::text::save(results, dir, report::render)
}

/// Runs it. What could be measured is in the results even if much failed.
///
/// # Errors
/// When nothing can be measured: no root, no server, no volume.
pub fn run(options: &Options) -> Result<Results> {
    if !rustix::process::geteuid().is_root() {
        return Err(Failure::new("needs root, to mount and to drop caches"));
    }
    let mut run = Run::new(&options.pace, options.earlier.clone(), Instant::now());
    let rig = Rig::start(options).context(|| "preparing".into())?;
    run.describe(&options.pace.temporary, rig.describe(), rig.version());
    for part in Part::ALL.into_iter().filter(|part| options.parts.contains(part)) {
        match part {
            Part::Sequential => sequential::measure(&mut run, &rig),
            Part::Overwrite => overwrite::measure(&mut run, &rig),
            Part::WriteBack => write_back::measure(&mut run, &rig),
            Part::SmallFiles => small_files::measure(&mut run, &rig),
            Part::Bufferbloat => bufferbloat::measure(&mut run, &rig),
        }
    }
    Ok(run.finish())
}
