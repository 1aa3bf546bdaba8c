//! What can go wrong with a volume as a whole, in words that say what to do.

use std::path::PathBuf;

use headrace_kv::KvError;
use headrace_layout::CryptoError;
use headrace_layout::SegmentFull;
use headrace_layout::frame::FrameError;
use headrace_layout::superblock::SuperblockError;
use headrace_meta::MetaError;
use headrace_metalog::restore::RestoreError;
use headrace_metalog::{ClaimError, MetalogError};
use headrace_store::{ErrorKind, StoreError};

use crate::holder::Holder;

/// A failed operation on a volume.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VolumeError {
    /// Another process has the volume open.
    #[error("{url} is in use: {holder}. {}", holder.remedy())]
    Held {
        /// The volume.
        url: String,
        /// Who has it.
        holder: Box<Holder>,
    },
    /// Another machine, or another state directory of this one, holds the volume, or seems to.
    #[error("{detail}")]
    HeldElsewhere {
        /// Who holds it, since when, and what can be done.
        detail: String,
    },
    /// Ownership was not renewed in time: another machine may own the volume by now.
    #[error(
        "{url}: the lease could not be renewed in the store, so that another machine may own the volume: nothing is deleted \
         until it could"
    )]
    LeaseLapsed {
        /// The volume.
        url: String,
    },
    /// There is no superblock at the location.
    #[error(
        "there is no volume at {url}: {detail}. Check the location, or create one with `headrace format {url}`"
    )]
    NotAVolume {
        /// The location.
        url: String,
        /// What was found instead.
        detail: String,
    },
    /// `format` found a volume.
    #[error(
        "{url} already holds the volume \"{name}\" ({uuid}): mount it, or remove it with `headrace destroy {url}`"
    )]
    AlreadyVolume {
        /// The location.
        url: String,
        /// Name of the volume found.
        name: String,
        /// Identity of the volume found.
        uuid: String,
    },
    /// `format` found objects that are not a volume's.
    #[error(
        "{url} is not empty (it holds {example:?}): choose an empty directory or prefix for a new volume"
    )]
    NotEmpty {
        /// The location.
        url: String,
        /// A key found there.
        example: String,
    },
    /// `format` found a volume's objects without their superblock.
    #[error(
        "{url} holds the data of a volume ({example:?}), but its headrace.json is missing: restore that object from a copy, \
         or choose an empty directory or prefix for a new volume"
    )]
    Headless {
        /// The location.
        url: String,
        /// A key found there.
        example: String,
    },
    /// `format` made the volume but not the beginning of its log.
    #[error(
        "the volume in {url} was created, but its metadata could not be written to the store: {detail}. Mount it on this \
         machine to complete that, before it is used elsewhere"
    )]
    HalfFormatted {
        /// The location.
        url: String,
        /// What failed.
        detail: String,
    },
    /// The store would lose data.
    #[error("{url} cannot hold a volume without losing data: {reason}")]
    StoreUnfit {
        /// The location.
        url: String,
        /// What the store does wrong.
        reason: String,
    },
    /// An option of `format` is out of range.
    #[error("{option} cannot be {value}: {rule}")]
    InvalidOption {
        /// Name of the option.
        option: &'static str,
        /// What was given.
        value: String,
        /// What is allowed.
        rule: &'static str,
    },
    /// The superblock cannot be used: unknown or newer version, unknown feature, damage.
    #[error("{url}: {source}")]
    Superblock {
        /// The location.
        url: String,
        /// The cause.
        source: SuperblockError,
    },
    /// The volume is encrypted and no key was given.
    #[error("{url} is encrypted: give its key with --key-file or HEADRACE_KEY")]
    KeyNeeded {
        /// The location.
        url: String,
    },
    /// The key given does not open the volume.
    #[error("{url}: {source}")]
    KeyWrong {
        /// The location.
        url: String,
        /// The cause.
        source: CryptoError,
    },
    /// A key was given for a volume that is not encrypted.
    #[error("{url} is not encrypted: leave the key out")]
    KeyUnexpected {
        /// The location.
        url: String,
    },
    /// The volume's metadata is neither on this machine nor in its bucket.
    #[error(
        "the metadata of the volume \"{name}\" ({uuid}) is neither in its bucket nor on this machine (looked in {}): mount \
         it on the machine where it was created, or point --state-dir to the directory that holds {uuid}; if it is lost, \
         `headrace fsck --rebuild` finds files again from the segments alone",
        list_paths(looked)
    )]
    NoMetadata {
        /// Name of the volume.
        name: String,
        /// Identity of the volume.
        uuid: String,
        /// Directories that were looked at.
        looked: Vec<PathBuf>,
    },
    /// The volume was to be closed, but the store cannot be reached: what is not in the bucket is safe on this machine only.
    #[error(
        "{url}: {transactions} of the last changes are safe on this machine but not yet in the store: {detail}"
    )]
    NotShipped {
        /// The volume.
        url: String,
        /// How many transactions.
        transactions: u64,
        /// Why they could not be shipped.
        detail: String,
    },
    /// The state directory holds the metadata of some other volume.
    #[error(
        "{path} holds the metadata of the volume {found}, but {url} is the volume {expected}: \
         give the right --state-dir"
    )]
    WrongMetadata {
        /// The state directory.
        path: PathBuf,
        /// The location.
        url: String,
        /// Identity in the superblock.
        expected: String,
        /// Identity in the state directory.
        found: String,
    },
    /// The state directory cannot be used.
    #[error("state directory {path}: {detail}")]
    StateDir {
        /// The directory or a file in it.
        path: PathBuf,
        /// What is wrong and what to do.
        detail: String,
    },
    /// The operation changes the volume, which was opened read-only.
    #[error("cannot {operation}: the volume was opened read-only")]
    ReadOnly {
        /// What was asked for.
        operation: &'static str,
    },
    /// A random number, clock or system call failed.
    #[error("{operation}: {detail}")]
    System {
        /// What was tried.
        operation: &'static str,
        /// The cause.
        detail: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The metadata engine failed.
    #[error(transparent)]
    Engine(#[from] KvError),
    /// The metadata on this machine is damaged.
    #[error(
        "the metadata on this machine, in {path}, is damaged: {detail}. Rebuild it from the bucket with \
         `headrace restore {url}`; what is damaged is kept aside"
    )]
    LocalDamaged {
        /// The engine's directory.
        path: PathBuf,
        /// The volume.
        url: String,
        /// What is wrong.
        detail: String,
    },
    /// The metadata's log in the bucket is damaged, or cannot be gone on with.
    #[error("the metadata's log: {0}")]
    Log(MetalogError),
    /// The namespace refused or failed.
    #[error("metadata: {0}")]
    Meta(#[from] MetaError),
    /// Stored data is damaged.
    #[error(transparent)]
    Data(#[from] FrameError),
    /// More was to be put into one segment than fits.
    #[error(transparent)]
    SegmentFull(#[from] SegmentFull),
    /// A rebuild from segments is not needed: there is something better.
    #[error(
        "a rebuild of {url} from its segments alone would lose what is still there: {reason}. Use --force to rebuild all the same"
    )]
    RebuildRefused {
        /// The volume.
        url: String,
        /// What is better, and how to get it.
        reason: String,
    },
    /// A segment's index is damaged or does not belong to it.
    #[error("segment {segment}: {detail}")]
    SegmentIndex {
        /// The segment.
        segment: String,
        /// What is wrong.
        detail: String,
    },
}

impl From<MetalogError> for VolumeError {
    fn from(error: MetalogError) -> Self {
        match error {
            MetalogError::Store(error) => error.into(),
            MetalogError::Engine(error) => error.into(),
            MetalogError::Restore(error) => error.into(),
            MetalogError::Fenced(reason) => KvError::Fenced { detail: reason.to_string() }.into(),
            other => VolumeError::Log(other),
        }
    }
}

impl From<RestoreError> for VolumeError {
    fn from(error: RestoreError) -> Self {
        match error {
            RestoreError::Store(error) => error.into(),
            RestoreError::Engine(error) => error.into(),
            other => VolumeError::Log(other.into()),
        }
    }
}

impl From<ClaimError> for VolumeError {
    fn from(error: ClaimError) -> Self {
        match error {
            ClaimError::Log(error) => error.into(),
            ClaimError::Site { path, detail } => VolumeError::StateDir { path: path.into(), detail },
            ClaimError::Held { .. } | ClaimError::Abandoned { .. } | ClaimError::Raced { .. } => {
                VolumeError::HeldElsewhere { detail: error.to_string() }
            }
        }
    }
}

/// Shorthand.
pub type Result<T, E = VolumeError> = std::result::Result<T, E>;

impl VolumeError {
    /// Whether the cause is that an object is not there.
    pub fn is_missing_object(&self) -> bool {
        matches!(self, VolumeError::Store(e) if e.kind == ErrorKind::NotFound)
    }

    /// Whether what was read is damaged or gone for good, so that reading it again cannot help.
    pub fn is_damage(&self) -> bool {
        match self {
            VolumeError::Data(_) | VolumeError::SegmentIndex { .. } => true,
            VolumeError::Store(e) => matches!(e.kind, ErrorKind::NotFound | ErrorKind::Corrupt),
            _ => false,
        }
    }
}

fn list_paths(paths: &[PathBuf]) -> String {
    paths.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(" and ")
}
