//! What comes of claiming a volume.

use std::fmt;
use std::time::Duration;

use headrace_kv::CommitSeq;
use headrace_store::StoreError;

use crate::object::{Owner, OwnerState, Writer};
use crate::{MetalogError, ObjectHash};

/// A volume that is ours: the epoch is claimed, and the log ends with our own first object.
#[derive(Debug, Clone)]
pub struct Claim {
    /// Our owner object as last written.
    pub owner: Owner,
    /// Number of our [`Epoch`](crate::object::LogBody::Epoch) object, the log's last; the next to write is the one after.
    pub number: u64,
    /// Of its stored bytes: what the next object's `prev` must be.
    pub hash: ObjectHash,
    /// The log's position: what the objects up to ours add up to. 0 if there was no log.
    pub position: CommitSeq,
    /// Who wrote what was the end of the log, attempts of our own that wrote nothing left out; `None` if there was no log.
    pub previous: Option<Writer>,
    /// The holder that was put out although it had not released the volume: dead, and not this state directory's own.
    pub took_over: Option<Incumbent>,
    /// When we claimed, on the clock's [`now`](crate::Clock::now): the lease runs from here.
    pub(crate) claimed_at: Duration,
    /// Objects at the end of the log that cannot be read, with what is wrong: position and `previous` are of the newest one
    /// before them. The log is worth something again after a reset.
    pub damaged: Vec<(u64, String)>,
    /// Whether the state directory's local state belongs to `previous`.
    pub(super) own: bool,
}

impl Claim {
    /// The epoch.
    pub fn epoch(&self) -> u64 {
        self.owner.epoch
    }

    /// The lease.
    pub fn lease(&self) -> Duration {
        Duration::from_millis(self.owner.lease_ms)
    }

    /// How objects of this epoch name their writer.
    pub fn writer(&self) -> Writer {
        Writer { epoch: self.owner.epoch, site: self.owner.site, claim: self.owner.claim }
    }

    /// Whether the local engine, durable up to `durable`, goes on where the log ends: nobody but this state directory has written since,
    /// and it lacks nothing that is in the log. If not, local state is of another history, or behind, and must be rebuilt
    /// from the bucket. A bucket without a log contradicts nothing.
    pub fn is_continuous(&self, durable: CommitSeq) -> bool {
        self.damaged.is_empty() && self.own && durable >= self.position
    }
}

/// The owner that is found when a volume is to be claimed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incumbent {
    /// Its epoch.
    pub epoch: u64,
    /// Its owner object, or what is wrong with that.
    pub owner: Result<Owner, String>,
}

impl Incumbent {
    /// Whether it has given the volume up.
    pub fn is_released(&self) -> bool {
        matches!(&self.owner, Ok(owner) if owner.state == OwnerState::Released)
    }

    fn remedy(&self) -> String {
        match &self.owner {
            Ok(Owner { mountpoint: Some(at), host, .. }) => {
                format!(
                    "free it there with `headrace umount {}` on {}",
                    at.escape_debug(),
                    host.escape_debug()
                )
            }
            Ok(owner) => format!("wait until that command on {} has ended", owner.host.escape_debug()),
            Err(_) => "end it there first".into(),
        }
    }
}

impl fmt::Display for Incumbent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.owner {
            Ok(owner) => owner.fmt(f),
            Err(damage) => write!(f, "held by somebody whose record cannot be read ({damage})"),
        }
    }
}

/// Why a volume could not be claimed. The text tells who has it and what can be done.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// Its owner is alive.
    #[error(
        "{url} is in use: {holder}; it is alive, its lease was just renewed. Use it there, or {}{}",
        .holder.remedy(),
        if *.takeover { ". --takeover is only for a holder that is dead" } else { "" }
    )]
    Held {
        /// The volume.
        url: String,
        /// Who has it.
        holder: Box<Incumbent>,
        /// Whether a takeover was asked for.
        takeover: bool,
    },
    /// Its owner shows no sign of life but has not given it up.
    #[error(
        "{url} was left without being unmounted: {holder}; no sign of life for {}. Mount it on that machine again, and \
         nothing is lost; or take it over with --takeover, and the changes that it had not yet sent to the store are \
         lost",
        humantime::format_duration(Duration::from_secs(.silent.as_secs()))
    )]
    Abandoned {
        /// The volume.
        url: String,
        /// Who had it.
        holder: Box<Incumbent>,
        /// How long it was watched without a sign of life; it may have been dead for longer.
        silent: Duration,
    },
    /// Somebody else claimed it at the same time.
    #[error("{url} was just claimed by somebody else: {}. Try again later", .winner.as_ref().map_or("unknown".into(), |winner| winner.to_string()))]
    Raced {
        /// The volume.
        url: String,
        /// Who, if that could be read.
        winner: Option<Box<Incumbent>>,
    },
    /// This state directory's identity cannot be read or kept.
    #[error("{path}: {detail}")]
    Site {
        /// The file.
        path: String,
        /// What is wrong.
        detail: String,
    },
    /// An object cannot be read, or the store failed.
    #[error(transparent)]
    Log(#[from] MetalogError),
}

impl From<StoreError> for ClaimError {
    fn from(error: StoreError) -> ClaimError {
        ClaimError::Log(error.into())
    }
}

/// What claiming a volume is waiting for.
#[derive(Debug, Clone)]
pub enum Progress {
    /// For a sign of life from the holder.
    Watching {
        /// The holder.
        holder: Incumbent,
        /// How long at most.
        at_most: Duration,
    },
    /// Until a holder that came back to life while it was put out must have noticed.
    Draining {
        /// How long.
        wait: Duration,
    },
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds =
            |wait: &Duration| humantime::format_duration(Duration::from_secs(wait.as_secs().max(1)));
        match self {
            Progress::Watching { holder, at_most } => {
                write!(f, "{holder}; waiting up to {} for a sign of life", seconds(at_most))
            }
            Progress::Draining { wait } => {
                write!(f, "waiting {} until the holder before must have stopped", seconds(wait))
            }
        }
    }
}
