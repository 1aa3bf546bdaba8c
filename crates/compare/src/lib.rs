//! Headrace, its peers and the native file system: same server, same data, in turns.
//!
//! [`runner`] takes each [case](cases) to each [subject](subjects): mounts it with nothing cached, lets a
//! [worker](worker) do the work in a process of its own, takes down what that cost ([account], [server]), unmounts, and
//! checks. [`report`] makes tables and plots of it. Whatever becomes of a run, nothing of it stays mounted: [workspace].

pub mod account;
pub mod cases;
pub mod content;
pub mod dataset;
pub mod failure;
pub mod figures;
pub mod reads;
pub mod report;
pub mod runner;
pub mod server;
pub mod subjects;
pub mod worker;
pub mod workspace;
pub mod writes;
