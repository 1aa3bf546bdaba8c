//! Which reads of a file belong together: see [`Streams`].

mod detect;
#[cfg(test)]
mod detect_tests;
mod intervals;
mod pattern;
#[cfg(test)]
mod tests;

pub use detect::{Placed, Stream, StreamId, Streams, Tuning};
pub use intervals::IntervalSet;
pub use pattern::Pattern;
