//! What the log says of itself.

use serde::Serialize;

use super::Durability;

/// How the log does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LogState {
    /// Changes are shipped as they come.
    Ok,
    /// The last attempt to ship failed; it is repeated.
    Lagging,
    /// The lease was not renewed in time: nothing is acknowledged as durable until it is.
    Lapsed,
    /// Another owner has taken the volume over.
    Fenced,
    /// The volume is being closed, or was.
    Closed,
}

/// Figures of the log.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct LogStatus {
    /// This owner's epoch.
    pub epoch: u64,
    /// What an answered fsync survives.
    pub durability: Durability,
    /// The newest transaction.
    pub position: u64,
    /// The newest transaction that is in the bucket.
    pub shipped_position: u64,
    /// Transactions that are not in the bucket: what the loss of this machine would take.
    pub lag_transactions: u64,
    /// Bytes of changes that are durable here and not in the bucket.
    pub lag_bytes: u64,
    /// Age of the oldest change that is durable here and not in the bucket, milliseconds; 0 if there is none.
    pub lag_ms: u64,
    /// Number of the newest log object.
    pub log_number: u64,
    /// When the last snapshot was completed, Unix milliseconds; none if this process has made or found none.
    pub last_snapshot_ms: Option<u64>,
    /// The position of the last snapshot.
    pub snapshot_position: Option<u64>,
    /// How it does.
    pub state: LogState,
    /// What is wrong, if something is.
    pub error: Option<String>,
}
