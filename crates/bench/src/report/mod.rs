//! What a person reads: numbers with units, tables for a terminal and for Markdown, repeated measurements.

pub mod human;
pub mod spread;
pub mod table;
pub mod terminal;

pub use spread::Spread;
pub use table::{Align, Cell, Fields, Table};
pub use terminal::{Style, colour_wanted};
