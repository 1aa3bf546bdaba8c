//! Runs the comparison; see the library of this crate.

fn main() {}
