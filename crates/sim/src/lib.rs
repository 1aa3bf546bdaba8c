//! Deterministic virtual time: models of stores, networks, kernels and peers, and the same flow control that runs in the program.

pub mod drive;
pub mod engine;
pub mod models;
pub mod oracle;
pub mod peers;
pub mod plot;
pub mod scenarios;
pub mod tables;
pub mod writing;
