//! Figures that are taken one by one, each on a machine as quiet as it gets, and compared within rows: what
//! [reads](crate::reads) and [writes](crate::writes) by themselves share.

pub mod cost;
pub mod results;
pub mod run;
pub mod text;

use std::fmt::Debug;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A name of one of the parts of a benchmark.
pub trait PartName: Debug + Copy + PartialEq + Serialize + DeserializeOwned {}

impl<P: Debug + Copy + PartialEq + Serialize + DeserializeOwned> PartName for P {}

/// What to measure: parts `P`, in sizes `S`.
#[derive(Debug, Clone)]
pub struct Options<P, S> {
    /// Parts.
    pub parts: Vec<P>,
    /// How much.
    pub sizes: S,
    /// What an earlier run found: this one adds repetitions.
    pub earlier: Option<results::Results<P>>,
    /// Which rows, how often, and where.
    pub pace: Pace,
}

/// Which rows, how often, and where.
#[derive(Debug, Clone)]
pub struct Pace {
    /// Beginnings of rows' names; all rows when empty.
    pub rows: Vec<String>,
    /// Beginnings of contenders' names; all when empty.
    pub contenders: Vec<String>,
    /// How often each row is repeated if time allows.
    pub repeat: u32,
    /// For all of it. What does not fit is reported as not measured.
    pub budget: Duration,
    /// Processors that others may have while a figure is taken; else it is taken again, twice at most.
    pub noise: f64,
    /// Where what was found so far is kept after each figure, for a run that is interrupted: its results.json.
    pub partial: PathBuf,
    /// Where the data goes: a disk, not a tmpfs.
    pub temporary: PathBuf,
}
