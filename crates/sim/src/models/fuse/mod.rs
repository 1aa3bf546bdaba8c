//! What the kernel does between a program that reads a file through the page cache and the daemon that serves it.
//!
//! - [`Connection`]: requests that readahead makes are "background": at most [`Settings::max_background`] of them are the daemon's at a
//!   time, the rest wait.
//! - Readahead: when a program comes to a piece of the file that was read ahead, the next pieces are asked for, as far as the
//!   readahead window goes; that part nobody waits for is skipped while [`Settings::congestion_threshold`] or more background requests
//!   exist. A program that comes to a piece nobody asked for asks for it and waits.
//! - The daemon has a number of threads. One that sleeps takes a moment to wake; one that finds the next request already there does not.
//!
//! [`run`] joins this to a [`Plant`](crate::drive::Plant), which says when a request's bytes are there.

mod connection;
mod run;
#[cfg(test)]
mod tests;

pub use connection::Connection;
pub use run::{Settings, run};
