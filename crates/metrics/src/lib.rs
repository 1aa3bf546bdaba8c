//! Counters, gauges and histograms that cost next to nothing to record, and the forms they are told in.
//!
//! What is recorded ([`Counter`], [`Gauge`], [`Histogram`]) takes no lock and allocates nothing. What is told is a [`Snapshot`]:
//! families of samples, gathered by letting each layer add its own to a [`Collection`].

mod family;
mod histogram;
mod number;
mod snapshot;
mod text;

pub use family::{Collection, Family, FamilyBuilder, Kind, Sample, Unit, Value};
pub use histogram::{Histogram, HistogramSnapshot};
pub use number::{Counter, Gauge, Raised};
pub use snapshot::Snapshot;
pub use text::TextFormat;
