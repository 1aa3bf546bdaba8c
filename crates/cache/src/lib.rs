//! Local caches of volume data.
//!
//! For now: memory, for the stored bytes around small packed files, so that reading a directory of small files asks the
//! store once per span and not once per file. Large files are left to the kernel's page cache.

mod span;

pub use span::{Others, SPAN, SpanCache, SpanKey, cut, spans};
