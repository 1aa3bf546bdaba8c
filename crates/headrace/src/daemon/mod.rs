//! The process behind a mount, and how commands find and control it.

pub mod allocator;
pub mod background;
pub mod cache_plan;
pub mod control;
pub mod find;
mod finish;
pub mod handler;
pub mod metrics;
mod notify;
pub mod operations;
mod overlap;
mod private_socket;
pub mod registry;
pub mod runtime_dir;
pub mod serve;
mod signals;
pub mod trash;
pub mod users;
pub mod warming;
