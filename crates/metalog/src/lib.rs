//! The metadata log in the bucket: who may write it, and what is written.
//!
//! A volume's metadata lives in a local engine. Every transaction it commits is also shipped to the volume's bucket, as a
//! line of numbered objects with snapshots from time to time, so that the bucket alone brings the volume back. One
//! process at a time owns the volume: [`ownership`] decides which, by epochs and a lease.
//!
//! `docs/format.md` describes the objects at byte level.

mod bucket;
mod clock;
pub mod engine;
mod error;
pub mod keys;
pub mod object;
pub mod ownership;
pub mod restore;
pub mod retain;
pub mod ship;
pub mod snapshot;

pub use bucket::{Bucket, PutNew};
pub use clock::{Clock, SystemClock};
pub use error::MetalogError;
pub use keys::{Key, SnapshotId};
pub use object::ObjectHash;
pub use ownership::{
    Claim, ClaimError, FencedReason, HolderFacts, Keeper, LeaseState, Site, SiteRecord, Takeover, acquire,
};
