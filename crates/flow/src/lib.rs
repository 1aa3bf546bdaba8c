//! Pure flow control: state machines that are told what happened and answer what to do. No I/O, no clock, no thread.

pub mod admission;
pub mod backoff;
pub mod endpoint;
pub mod lending;
pub mod memory;
pub mod order;
pub mod pause;
pub mod processors;
pub mod reading;
pub mod streams;
pub mod window;
pub mod writing;
