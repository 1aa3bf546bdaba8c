//! The founding tables: what a document measured, what the model makes of the same settings, what the default controller reaches.

pub mod crucible;
pub mod file_server;
mod founding;
pub mod juicefs;
pub mod lustre;
pub mod mountpoint;

pub use founding::{Check, Founding, Row};
