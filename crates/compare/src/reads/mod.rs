//! Cold reads by themselves: what Headrace decides by measuring against what a person would set by hand, and against clients that
//! have no file system to be. `docs/benchmarks/reads.md` says what each part is and what is asked of it.

mod cell;
mod cpu;
mod descriptors;
mod faults;
mod hand;
mod many;
mod matrix;
mod one_get;
mod recovery;
mod report;
mod rig;

use std::path::Path;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Result};
use crate::figures;
use rig::Rig;
pub use rig::Sizes;

/// What can be measured by itself.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// Defaults against fixed settings, on 27 networks and numbers of streams.
    Matrix,
    /// The same over a link of 150 MB/s, for twice as long: who waits for what, without processor time.
    Link,
    /// Processor time of a GiB against a bare client.
    Cpu,
    /// A random read of 4 KiB against one GET.
    OneGet,
    /// Streams on one descriptor against the same streams on descriptors of their own.
    Descriptors,
    /// 32 files at once, with the peers.
    Many,
    /// Throughput during and after faults.
    Faults,
}

impl Part {
    /// In the order of the report.
    pub const ALL: [Part; 7] =
        [Part::Matrix, Part::Link, Part::Cpu, Part::OneGet, Part::Descriptors, Part::Many, Part::Faults];
    /// All but what takes half an hour more and is measured when it is asked for.
    pub const USUAL: [Part; 6] =
        [Part::Matrix, Part::Cpu, Part::OneGet, Part::Descriptors, Part::Many, Part::Faults];
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
    let started = Instant::now();
    let mut run = Run::new(&options.pace, options.earlier.clone(), started);
    let wants = |part: &Part| options.parts.contains(part);
    if Part::ALL.iter().any(|part| *part != Part::Many && wants(part)) {
        let rig = Rig::start(options)?;
        run.describe(&options.pace.temporary, rig.describe(), rig.version());
        for part in Part::ALL.iter().filter(|part| wants(part)) {
            match part {
                Part::Matrix | Part::Link => matrix::measure(&mut run, &rig, *part),
                Part::Cpu => cpu::measure(&mut run, &rig),
                Part::OneGet => one_get::measure(&mut run, &rig),
                Part::Descriptors => descriptors::measure(&mut run, &rig),
                Part::Faults => faults::measure(&mut run, &rig),
                Part::Many => {}
            }
        }
    }
    // It has a server and volumes of its own.
    if wants(&Part::Many) {
        many::measure(&mut run, &options.sizes);
    }
    Ok(run.finish())
}
