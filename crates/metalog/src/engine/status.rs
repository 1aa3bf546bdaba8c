//! What the log says of itself.

use headrace_metrics::{Collection, Unit};
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

impl LogStatus {
    /// Adds these figures.
    pub(super) fn collect(&self, into: &mut Collection) {
        let help = "Age of the oldest change that is durable here and not in the bucket; 0 if there is none";
        into.gauge("headrace_log_lag_seconds", help, Unit::Seconds, self.lag_ms as f64 / 1000.0);
        let help = "Changes that are durable here and not in the bucket";
        into.gauge("headrace_log_lag_bytes", help, Unit::Bytes, self.lag_bytes as f64);
        let help = "Transactions that are not in the bucket: what the loss of this machine would take";
        into.gauge("headrace_log_lag_transactions", help, Unit::None, self.lag_transactions as f64);
        let help = "How the log does: 1 for the state it is in, 0 for the others";
        let mut states = into.gauges("headrace_log_state", help, Unit::None);
        for (name, state) in LogState::ALL {
            states.gauge(&[("state", name)], if state == self.state { 1.0 } else { 0.0 });
        }
    }
}

impl LogState {
    /// Every state with its name.
    const ALL: [(&str, LogState); 5] = [
        ("ok", LogState::Ok),
        ("lagging", LogState::Lagging),
        ("lapsed", LogState::Lapsed),
        ("fenced", LogState::Fenced),
        ("closed", LogState::Closed),
    ];
}
