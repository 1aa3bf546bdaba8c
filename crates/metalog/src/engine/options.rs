//! How the log is kept.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ship::ShipPolicy;
use crate::snapshot::SnapshotPolicy;

/// What an answered fsync survives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// A crash of this machine: the change is synced to its disk, and in the bucket soon after.
    #[default]
    Local,
    /// The loss of this machine: the change is in the bucket.
    Bucket,
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Durability::Local => "local",
            Durability::Bucket => "bucket",
        })
    }
}

impl FromStr for Durability {
    type Err = String;

    fn from_str(text: &str) -> Result<Durability, String> {
        match text {
            "local" => Ok(Durability::Local),
            "bucket" => Ok(Durability::Bucket),
            _ => Err(format!("'{text}' is neither 'local' nor 'bucket'")),
        }
    }
}

/// How the log is kept. The defaults suit a mounted volume; tests shrink them.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// What [`durable`](headrace_kv::Engine::durable) waits for.
    pub durability: Durability,
    /// How far back a restore to a point in time reaches: older log objects and snapshots are removed.
    pub retention: Duration,
    /// When the log is shipped.
    pub ship: ShipPolicy,
    /// When a snapshot is made.
    pub snapshot: SnapshotPolicy,
    /// Bytes of changes not yet shipped at which [`admit`](super::LoggedEngine::admit) waits.
    pub max_backlog_bytes: u64,
    /// Groups of changes not yet shipped at which [`admit`](super::LoggedEngine::admit) waits.
    pub max_backlog_groups: u64,
    /// How long a caller waits for the store (to ship, to renew the lease, to make room) before it gets an error. Work goes on
    /// after that.
    pub deadline: Duration,
    /// How long closing waits until everything is shipped.
    pub close_deadline: Duration,
    /// Time between two looks at what may be removed from the bucket.
    pub upkeep_interval: Duration,
}

impl Default for LogOptions {
    fn default() -> LogOptions {
        LogOptions {
            durability: Durability::Local,
            retention: Duration::from_secs(3600),
            ship: ShipPolicy::default(),
            snapshot: SnapshotPolicy::default(),
            max_backlog_bytes: 64 << 20,
            max_backlog_groups: 64 << 10,
            deadline: Duration::from_secs(60),
            close_deadline: Duration::from_secs(60),
            upkeep_interval: Duration::from_secs(300),
        }
    }
}
