//! Data of regular files.

mod copy;
mod flush;
mod log_limit;
mod open;
pub(crate) mod outage;
mod patience;
mod read;
mod resize;
mod together;
mod upload;
mod write;
