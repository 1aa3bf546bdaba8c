//! Reads of files in a store: events in, actions out. See [`Reads`].
//!
//! Reads are sorted into streams ([`crate::streams`]); what is ahead of a stream's reader is fetched as far as its window
//! ([`crate::window`]) and its share of memory go; fetches are sent in turns over all streams, by offset within each, as many as the
//! endpoint is known to make use of ([`crate::endpoint`]), in order if it likes that better ([`crate::order`]). What somebody waits for
//! goes first. Reads that belong to no stream fetch what they ask for and little more, until the whole file is the cheaper way (`whole`, `together`).

mod backlog;
#[cfg(test)]
mod backlog_tests;
mod demand;
#[cfg(test)]
mod demand_tests;
mod dispatch;
#[cfg(test)]
mod dispatch_tests;
#[cfg(test)]
mod driven;
mod file;
#[cfg(test)]
mod file_tests;
mod hung;
#[cfg(test)]
mod order_tests;
mod pace;
mod part;
mod reads;
mod release;
#[cfg(test)]
mod release_tests;
mod runs;
mod scavenger;
#[cfg(test)]
mod share_tests;
mod size;
#[cfg(test)]
mod tests;
mod together;
#[cfg(test)]
mod together_tests;
#[cfg(test)]
mod told_tests;
mod tuning;
mod types;
mod whole;
#[cfg(test)]
mod whole_tests;

pub use reads::Reads;
pub use runs::Learned;
pub use tuning::{Fixed, Tuning};
pub use types::{Action, FetchId, FileId, HandleId, Kept, Limits, RequestId, Stats};
