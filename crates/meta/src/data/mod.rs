//! What files hold: chunks of extents.

mod types;

pub use types::{DataCommit, NewData, NewExtent, Swap};
