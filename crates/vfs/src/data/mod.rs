//! Data of regular files.

mod copy;
mod flush;
mod open;
mod read;
mod resize;
mod upload;
mod write;
