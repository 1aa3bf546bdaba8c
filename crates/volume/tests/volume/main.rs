//! Volumes on real stores: one binary, so that what the tests share is compiled and linked once.

mod checking;
mod common;
mod crashes;
mod garbage;
mod lifecycle;
mod machines;
mod moving;
mod recovery;
