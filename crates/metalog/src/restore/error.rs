//! Why a restore failed, and what can still be had.

use std::fmt;
use std::time::{Duration, SystemTime};

use headrace_kv::KvError;
use headrace_store::StoreError;

/// Why the metadata cannot be had from the bucket.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The store failed; nothing is known to be wrong with what is in it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The engine's directory cannot be written.
    #[error(transparent)]
    Engine(#[from] KvError),
    /// There is neither a log nor a snapshot.
    #[error(
        "{url} holds no log of the volume's metadata; `headrace fsck --rebuild` finds files again from the segments alone"
    )]
    NoLog {
        /// The volume.
        url: String,
    },
    /// No state as old as that is kept.
    #[error(
        "{url} does not reach back to {asked}: the oldest state that can be restored is that of {oldest}"
    )]
    TooEarly {
        /// The volume.
        url: String,
        /// What was asked for.
        asked: When,
        /// What there is.
        oldest: When,
    },
    /// No snapshot can be used.
    #[error(
        "no snapshot in {url} can be used ({}); `headrace fsck --rebuild` finds files again from the segments alone",
        .damage.join("; ")
    )]
    NoSnapshot {
        /// The volume.
        url: String,
        /// What is wrong with each, by object.
        damage: Vec<String>,
    },
    /// An object of the log is missing or is not what was written.
    #[error(
        "{key}: {detail}. {}`headrace fsck --rebuild` finds files again from the segments alone{}",
        reachable(.reached),
        list_also(.also)
    )]
    Damaged {
        /// The object.
        key: String,
        /// What is wrong with it.
        detail: String,
        /// The newest state that can be restored.
        reached: Option<When>,
        /// Damage that was met before.
        also: Vec<String>,
    },
}

fn reachable(reached: &Option<When>) -> String {
    reached.map_or_else(String::new, |at| format!("Everything up to {at} can be restored: add `--at {at}`; "))
}

fn list_also(damage: &[String]) -> String {
    if damage.is_empty() { String::new() } else { format!(" (damaged as well: {})", damage.join("; ")) }
}

/// A moment, Unix milliseconds; displayed as RFC 3339 in UTC, which `--at` takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct When(pub u64);

/// The first moment of the year 10000, which has no such form any more.
const YEAR_10000: u64 = 253_402_300_800_000;

impl When {
    /// As the system tells times.
    pub fn time(self) -> SystemTime {
        let at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(self.0));
        at.unwrap_or(SystemTime::UNIX_EPOCH)
    }
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < YEAR_10000 {
            return humantime::format_rfc3339_millis(self.time()).fmt(f);
        }
        write!(f, "{} ms after 1970", self.0)
    }
}
