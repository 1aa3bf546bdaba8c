//! A network in a proxy: it stands before a real HTTP server on the loopback interface and gives every request the
//! latency, every connection the rate, and some answers the faults that are asked for.
//!
//! [`NetLab`] is a network with [`Conditions`] that can change while it runs, and [`Counters`] of what passed.
//! [`FaultProxy`] is the same proxy told by a test which request is spoiled, and how. The program `netlab` is the
//! first for the command line.
//!
//! Latencies and rates are kept by time, not by sampling: an answer's first byte is never sooner, and a capped
//! connection never faster, than was asked.

pub mod conditions;
pub mod control;
pub mod counters;
pub mod fault;
mod lab;
pub mod operation;
mod pace;
mod proxy;
pub mod random;
pub mod schedule;

pub use conditions::{Conditions, Latency, ParseError, Rate, Tail};
pub use counters::{Counters, Traffic};
pub use fault::{Fault, FaultProxy};
pub use lab::{NetLab, Options};
pub use schedule::Schedule;
