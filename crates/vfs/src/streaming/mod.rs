//! Reads of files that are more than a few frames long: [`headrace_flow::reading::Reads`] decides what is fetched when, this does it.
//!
//! [`Fetcher`] is where decisions meet the world: it tells `Reads` what readers ask for and what arrives, keeps the bytes
//! ([`buffers`]), runs one task per fetch, and hands answers out. No lock is held while anything is waited for. Where bytes come
//! from is behind [`Origin`]; [`origin`] is that of a volume: extents, segments, frames.

mod buffers;
mod fetcher;
mod flight;
mod inner;
mod learned;
mod lending;
mod origin;
mod processors;
mod segments;
#[cfg(test)]
mod tests;
mod wake;

pub(crate) use fetcher::{Fetcher, Figures, Streamed};
pub(crate) use flight::Delivery;
pub(crate) use lending::{Lender, keep as keep_lending};
pub(crate) use segments::Segments;

use std::ops::Range;

use futures::future::BoxFuture;
use headrace_layout::{InodeNo, SegmentId};

use crate::error::Result;

/// What is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Body {
    /// The content of a file.
    File(InodeNo),
    /// The stored object of a segment.
    Segment(SegmentId),
}

/// Where bytes of files come from.
pub(crate) trait Origin: Send + Sync + 'static {
    /// Hands over the bytes of `range`, of a file those that are committed, in order, as they come.
    ///
    /// # Errors
    /// When some cannot be had, after all attempts there are for that. What came before stays handed over.
    fn fetch<'a>(
        &'a self,
        body: Body,
        range: Range<u64>,
        to: &'a mut dyn Delivery,
    ) -> BoxFuture<'a, Result<()>>;
}
