//! Plain tables: aligned columns, no lines, so that they can be read and cut.

pub use headrace_bench::report::{Align, Fields, Table};
