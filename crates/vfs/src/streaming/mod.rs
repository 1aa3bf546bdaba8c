//! Reads of files that are more than a few frames long: [`headrace_flow::reading::Reads`] decides what is fetched when, this does it.
//!
//! [`Fetcher`] is where decisions meet the world: it tells `Reads` what readers ask for and what arrives, keeps the bytes
//! ([`buffers`]), runs one task per fetch, and hands answers out. No lock is held while anything is waited for. Where bytes come
//! from is behind [`Origin`]; [`origin`] is that of a volume: extents, segments, frames.

mod buffers;
mod fetcher;
mod flight;
mod inner;
mod lending;
mod origin;
#[cfg(test)]
mod tests;
mod wake;

pub(crate) use fetcher::{Fetcher, Figures, Streamed};
pub(crate) use flight::Delivery;
pub(crate) use lending::{Lender, keep as keep_lending};

use std::ops::Range;

use futures::future::BoxFuture;
use headrace_layout::InodeNo;

use crate::error::Result;

/// Where bytes of files come from.
pub(crate) trait Origin: Send + Sync + 'static {
    /// Hands over the committed bytes of `range` of a file, in order, as they come.
    ///
    /// # Errors
    /// When some cannot be had, after all attempts there are for that. What came before stays handed over.
    fn fetch<'a>(
        &'a self,
        ino: InodeNo,
        range: Range<u64>,
        to: &'a mut dyn Delivery,
    ) -> BoxFuture<'a, Result<()>>;
}
