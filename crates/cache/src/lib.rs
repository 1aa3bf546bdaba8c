//! Local caches of volume data.
//!
//! [`disk`]: what was fetched, in sparse files that survive a restart and that the kernel can read by itself. [`span`](SpanCache): in memory,
//! the stored bytes around small packed files, so that reading a directory of small files asks once per span and not once per file.

pub mod disk;
mod span;

pub use span::{Others, SPAN, SpanCache, SpanKey, cut, spans};
