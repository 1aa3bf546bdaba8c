//! A benchmark of an object store: whether it does what it should, and how fast, by operation and by requests at a time.
//!
//! ```text
//! options    what is measured, and its bounds
//! check      what the store is tried for
//! operation  a request, and the check of what it brought
//! body       what objects hold
//! crew       the workers of a measurement
//! run        the order in which everything happens
//! cleanup    nothing is left behind
//! stop       ending early
//! outcome    the report's data, and its form in JSON
//! text       the report as tables
//! chart      the report as a figure
//! ```
//!
//! A closed loop: as many workers as there are to be requests at a time, each sending its next request when the last one is answered.
//! Everything that is read is compared with what was written.

mod body;
mod chart;
mod check;
mod cleanup;
mod crew;
mod operation;
mod options;
mod outcome;
mod run;
mod stop;
#[cfg(test)]
mod tests;
mod text;

pub use operation::Operation;
pub use options::{MAX_CONCURRENCY, MAX_OBJECTS, Options};
pub use outcome::{Check, Cleanup, ErrorCount, Latency, Measurement, Report, SCHEMA};
pub use run::{Step, run};
pub use stop::Stop;

use headrace_store::StoreError;

use crate::report::human;

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ObjbenchError {
    /// What was asked for makes no sense.
    #[error("{0}")]
    Options(String),
    /// The store cannot be used at all.
    #[error(transparent)]
    Store(StoreError),
    /// It was stopped before there was anything to report.
    #[error("stopped before anything was measured; what had been written is removed")]
    Stopped,
    /// The system has not enough memory for the bodies.
    #[error("there is no memory for bodies of {}: measure smaller objects", human::size(*bytes))]
    Memory {
        /// Bytes asked for.
        bytes: u64,
    },
    /// The system refuses threads.
    #[error("cannot start {concurrency} threads: {reason}; measure fewer requests at a time")]
    Threads {
        /// Requests at a time.
        concurrency: usize,
        /// What the system says.
        reason: String,
    },
    /// The system has no random numbers.
    #[error("no random numbers from the system: {0}")]
    Random(String),
}
