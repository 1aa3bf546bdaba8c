//! Data of regular files.

pub(crate) mod access;
mod copy;
mod flush;
mod log_limit;
mod open;
pub(crate) mod outage;
mod pass_on;
pub(crate) mod patience;
mod read;
mod resize;
pub(crate) mod sources;
mod together;
mod upload;
mod write;

pub(crate) use read::zeros;
