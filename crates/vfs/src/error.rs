//! What a call can answer instead of a result.

use headrace_kv::KvError;
use headrace_layout::FrameError;
use headrace_meta::MetaError;
use headrace_store::{ErrorKind, StoreError};

/// The answer of a call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call did not do what was asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The namespace says no, or its engine failed.
    #[error(transparent)]
    Meta(#[from] MetaError),
    /// The object store failed; retries are over.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Stored bytes are not what was written.
    #[error("{0}; run headrace fsck --data on the volume")]
    Frame(#[from] FrameError),
    /// The store holds less than metadata says.
    #[error("{0}; run headrace fsck on the volume")]
    Missing(String),
    /// ENFILE: as many files are open as memory allows.
    #[error("{limit} files are open, the most that --memory allows")]
    TooManyOpen {
        /// How many may be open.
        limit: u64,
    },
    /// The handle is not open.
    #[error("no such open file")]
    BadHandle,
    /// The volume is mounted read-only.
    #[error("the volume is mounted read-only")]
    ReadOnly,
    /// EINVAL, with the rule that was broken.
    #[error("invalid argument: {0}")]
    Invalid(&'static str),
    /// EOPNOTSUPP.
    #[error("not supported: {0}")]
    Unsupported(&'static str),
    /// Metadata is safe on this machine but not in the bucket.
    #[error("{0}")]
    NotShipped(String),
    /// EIO: the store did not answer in time.
    #[error("{what}: nothing was stored for {seconds:.0} s: {why}")]
    Late {
        /// What was waited for.
        what: &'static str,
        /// The time waited.
        seconds: f32,
        /// What is known of the store.
        why: String,
    },
    /// This machine's disk says no.
    #[error("this machine's disk: {detail}")]
    Local {
        /// The error number.
        errno: i32,
        /// The same in words.
        detail: String,
    },
    /// A part of the program failed.
    #[error("internal error: {0}")]
    Internal(String),
}

impl From<KvError> for Error {
    fn from(error: KvError) -> Self {
        Error::Meta(MetaError::Kv(error))
    }
}

impl Error {
    /// The error number for the kernel. What the store's own words mean to an administrator is in the log; a program gets EIO,
    /// or ENOSPC where there is no room.
    pub fn errno(&self) -> i32 {
        match self {
            Error::Meta(e) => e.errno(),
            Error::Store(e) if e.kind == ErrorKind::Full => libc::ENOSPC,
            Error::Store(_)
            | Error::Frame(_)
            | Error::Missing(_)
            | Error::NotShipped(_)
            | Error::Late { .. }
            | Error::Internal(_) => libc::EIO,
            Error::TooManyOpen { .. } => libc::ENFILE,
            Error::Local { errno, .. } => *errno,
            Error::BadHandle => libc::EBADF,
            Error::ReadOnly => libc::EROFS,
            Error::Invalid(_) => libc::EINVAL,
            Error::Unsupported(_) => libc::EOPNOTSUPP,
        }
    }

    /// Whether the log knows of it already: what the store does to one call it does to many, and is logged once for all.
    pub fn is_logged(&self) -> bool {
        matches!(self, Error::Store(_) | Error::Late { .. })
    }

    /// Whether it is a passing failure of the store.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self, Error::Store(error) if matches!(error.kind, ErrorKind::Transient | ErrorKind::Throttled))
    }

    /// Whether the inode is gone, which ends the interest in its bytes.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self, Error::Meta(MetaError::NotFound | MetaError::Stale))
    }
}
