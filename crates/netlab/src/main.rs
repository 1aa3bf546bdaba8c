//! The network lab on the command line.

fn main() {}
