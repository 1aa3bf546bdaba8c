//! What the micro-benchmarks cost now against what was recorded: in instructions and in bytes copied, never in seconds.
//!
//! ```text
//! benches/      the benchmarks, a file per layer; each case runs once under callgrind and once under DHAT's copy mode
//! summary       what they print -> measurements
//! baseline      the recorded measurements, and where they were made
//! environment   where: toolchain, target, libc, valgrind, what the processor can do
//! compare       the decision: pure
//! table         the decision, for people
//! ```
//!
//! Counts of instructions repeat to a fraction of a percent where timings of the same code differ by a third, so a few percent
//! more are a change of the code and not of the weather. They are not time: a cache miss and a system call count as one
//! instruction each. What the kernel does is not counted at all.

pub mod baseline;
pub mod compare;
pub mod environment;
pub mod summary;
pub mod table;
