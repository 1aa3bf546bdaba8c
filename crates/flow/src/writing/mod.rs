//! Write backpressure: who may hand in how many bytes when, and when to send and to commit. Events in, actions out. See [`Writing`].
//!
//! A byte counts from the moment it is accepted until the store acknowledges it ([`Writing::stored`]), never longer: what is stored and
//! waits for its commit has a budget of its own, and a full one asks for a commit instead of slowing anybody down. So the time
//! between commits does not change how fast one may write (the lesson of Crucible, whose delay grew with what was done and not yet flushed).
//!
//! The queue itself is limited, not a delay from which its length would follow: what is in flight is at most what the store takes in
//! a fifth of a second as it was measured ([`drain`]), and a part; more only where that is shown to bring more ([`reach`]). Files that wait take turns by bytes ([`queue`]).

#[cfg(test)]
mod closed_loop;
pub mod drain;
#[cfg(test)]
mod properties;
pub mod queue;
pub mod reach;
mod slab;
#[cfg(test)]
mod tests;
mod types;
mod writes;

pub use crate::reading::FileId;
pub use types::{Action, Admit, Amount, Limits, PartId, Stats, Ticket, Tuning};
pub use writes::Writing;
