//! Shipping of committed groups to the bucket.
//!
//! One object is on its way at a time, and what is committed meanwhile gathers for the next: a caller waits for two round trips
//! at most, and any number of callers share them. An object whose answer was lost is sent again, the same bytes: if the number is
//! taken by exactly these it arrived the first time, if by others somebody else owns the volume.

mod plan;
mod publish;
mod run;

pub use plan::ShipPolicy;
pub(crate) use plan::{Backlog, Step};
pub use publish::{publish_initial, publish_reset};
pub(crate) use run::{find_time, run};
