//! Who may write a volume: one process at a time, by epochs and a lease.
//!
//! An owner claims the next *epoch* by creating `owners/<epoch>`, which only one can, and then takes the next number of the
//! log, which puts the owner before it out for good: that one cannot create the object it would create next. While it lives
//! it rewrites its own owner object every third of the lease. Whoever wants the volume watches that object for longer than
//! the lease; only when it does not change the owner counts as dead. An owner that could not renew in time (a
//! suspended machine, a store that is gone) acknowledges nothing until a renewal has shown that nobody took over.
//!
//! [`lease`] and [`watch`] are the decisions, without I/O; [`acquire`] and [`Keeper`] carry them out.

mod acquire;
mod claim;
mod keeper;
pub mod lease;
mod seal;
mod site;
pub mod watch;

use std::ops::RangeInclusive;
use std::time::Duration;

pub use acquire::{acquire, refuse_if_held};
pub use claim::{Claim, ClaimError, Incumbent, Progress};
pub use keeper::{FencedReason, Keeper, LeaseState};
pub use site::{Site, SiteRecord};

/// The lease that is used unless another is asked for.
pub const DEFAULT_LEASE: Duration = Duration::from_secs(30);

/// Leases that can be asked for. Shorter ones would lapse at every hiccup of a store; longer ones would keep a volume from
/// others for too long after a crash.
pub const LEASES: RangeInclusive<Duration> = Duration::from_secs(2)..=Duration::from_secs(600);

/// What others are told about the process that claims a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HolderFacts {
    /// Name of the machine.
    pub host: String,
    /// The process.
    pub pid: u32,
    /// Where the volume is to be mounted; `None` for another command.
    pub mountpoint: Option<String>,
    /// Version of the program.
    pub version: String,
}

impl HolderFacts {
    /// Facts about this process.
    pub fn of_this_process(mountpoint: Option<&str>) -> HolderFacts {
        HolderFacts {
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            pid: std::process::id(),
            mountpoint: mountpoint.map(str::to_owned),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

/// Whether to put out an owner that shows no sign of life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Takeover {
    /// Refuse, and say what would be lost.
    #[default]
    No,
    /// Go on, if it is dead: what it had not shipped to the bucket is lost.
    Yes,
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
