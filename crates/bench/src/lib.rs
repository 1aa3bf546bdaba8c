//! Benchmarks of object stores and of directories; tables and plots of what they found.

pub mod files;
pub mod objbench;
pub mod plot;
pub mod report;
