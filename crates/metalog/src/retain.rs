//! What of the log may be removed: the newest snapshot that is older than the retention is kept, and everything after it.

mod decide;
mod shelf;

use decide::{Kept, SnapshotFacts, Stock, decide};
pub(crate) use shelf::Shelf;
