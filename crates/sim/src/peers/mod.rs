//! What other programs do, as controllers of the same protocol: mechanisms, so that the founding tables come out of what they
//! describe and not out of a look-up.

pub mod juicefs;
pub mod mountpoint;
