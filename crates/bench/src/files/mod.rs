//! A benchmark of a directory, on whatever file system: large files, pages at random, small files, names.
//!
//! ```text
//! options      how much work
//! phases       what is timed
//! worker       the threads of a phase, and their stopwatches
//! content      what files hold, and the check of what was read
//! permutation  every page once, in random order
//! space        the working directory, which goes in any case
//! caches       emptying the kernel's
//! place        which file system a directory is on
//! run          the order in which everything happens
//! outcome      the figures, and their form in JSON
//! text, chart  the figures as tables and as pictures
//! ```
//!
//! Everything that is read is checked. With a second directory, the two take turns phase by phase, and who begins changes with
//! each, so that what else the machine does hits both alike.

mod caches;
mod chart;
mod content;
mod error;
mod options;
mod outcome;
mod permutation;
mod phases;
mod place;
mod run;
mod space;
mod text;
mod worker;

pub use caches::Caches;
pub use error::Error;
pub use options::Options;
pub use outcome::{Directory, Figures, Latency, Machine, Ratio, Report, Run, SCHEMA};
pub use phases::{Phase, Unit};
pub use place::FileSystem;
pub use run::{Step, run};
pub use worker::Stop;
