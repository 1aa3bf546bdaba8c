//! Runs a controller of reads against a model of a store, in virtual time.
//!
//! A [`Plant`] joins controllers and store: what controllers ask for goes to the store, what the store reports goes to the
//! controllers, and a [`ledger::Ledger`] of its own checks both. Readers ([`reader`]) sit on top; [`run`] runs them all and measures.

pub mod controller;
pub mod fixed;
pub mod ledger;
pub mod measure;
pub(crate) mod pieces;
pub mod plant;
pub(crate) mod readahead;
pub mod reader;
mod run;
#[cfg(test)]
mod tests;

pub use controller::{Controller, Gauges, default_controller};
pub use fixed::Fixed;
pub use measure::{Outcome, Sample, Series};
pub use plant::Plant;
pub use reader::{Pattern, ReaderSpec};
pub use run::{MemoryStep, Setup, run};
