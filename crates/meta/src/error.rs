//! What a namespace call can answer instead of a result.

use headrace_kv::KvError;
use headrace_layout::extent::DecodeError;

/// The answer of a namespace call.
pub type Result<T> = std::result::Result<T, MetaError>;

/// Why a namespace call did not do what was asked. Callers add the path; [`MetaError::errno`] is what the kernel gets.
#[derive(Debug, Clone, thiserror::Error)]
pub enum MetaError {
    /// ENOENT.
    #[error("no such file or directory")]
    NotFound,
    /// EEXIST.
    #[error("already exists")]
    Exists,
    /// ENOTDIR.
    #[error("not a directory")]
    NotDirectory,
    /// EISDIR.
    #[error("is a directory")]
    IsDirectory,
    /// ENOTEMPTY.
    #[error("directory not empty")]
    NotEmpty,
    /// EINVAL, with the rule that was broken.
    #[error("invalid argument: {0}")]
    Invalid(&'static str),
    /// EPERM: the operation is never allowed on such an inode.
    #[error("operation not permitted: {0}")]
    NotPermitted(&'static str),
    /// EACCES.
    #[error("permission denied: {0}")]
    Access(&'static str),
    /// EMLINK.
    #[error("too many links")]
    TooManyLinks,
    /// ENAMETOOLONG.
    #[error("name too long")]
    NameTooLong,
    /// ENODATA: no such extended attribute.
    #[error("no such attribute")]
    NoData,
    /// ERANGE.
    #[error("name of the attribute is too long or empty")]
    Range,
    /// E2BIG: the value of an extended attribute.
    #[error("value too big")]
    TooBig,
    /// EFBIG.
    #[error("file too large")]
    FileTooBig,
    /// ENOSPC.
    #[error("no space left: {0}")]
    NoSpace(&'static str),
    /// ENXIO: a seek past the end or past the last data.
    #[error("no data or hole after this offset")]
    NoSuchOffset,
    /// ESTALE: the inode is gone.
    #[error("stale file handle")]
    Stale,
    /// ELOOP: the chain of parent directories does not end.
    #[error("too many levels of directories")]
    Loop,
    /// EOPNOTSUPP.
    #[error("not supported: {0}")]
    Unsupported(&'static str),
    /// The engine holds no volume.
    #[error("the metadata engine holds no volume: it was never formatted, or its directory is the wrong one")]
    NotFormatted,
    /// The metadata was written by a newer program.
    #[error(
        "the metadata has schema version {found}, this program understands up to {supported}: use a newer headrace"
    )]
    NewerSchema {
        /// Version found.
        found: u32,
        /// Newest version known here.
        supported: u32,
    },
    /// The engine failed.
    #[error(transparent)]
    Kv(#[from] KvError),
    /// Stored bytes are not what they should be: what and where.
    #[error("metadata is corrupt: {0}; run headrace fsck")]
    Corrupt(String),
}

impl MetaError {
    /// The error number for the kernel.
    pub fn errno(&self) -> i32 {
        match self {
            MetaError::NotFound => libc::ENOENT,
            MetaError::Exists => libc::EEXIST,
            MetaError::NotDirectory => libc::ENOTDIR,
            MetaError::IsDirectory => libc::EISDIR,
            MetaError::NotEmpty => libc::ENOTEMPTY,
            MetaError::Invalid(_) => libc::EINVAL,
            MetaError::NotPermitted(_) => libc::EPERM,
            MetaError::Access(_) => libc::EACCES,
            MetaError::TooManyLinks => libc::EMLINK,
            MetaError::NameTooLong => libc::ENAMETOOLONG,
            MetaError::NoData => libc::ENODATA,
            MetaError::Range => libc::ERANGE,
            MetaError::TooBig => libc::E2BIG,
            MetaError::FileTooBig => libc::EFBIG,
            MetaError::NoSpace(_) => libc::ENOSPC,
            MetaError::NoSuchOffset => libc::ENXIO,
            MetaError::Stale => libc::ESTALE,
            MetaError::Loop => libc::ELOOP,
            MetaError::Unsupported(_) => libc::EOPNOTSUPP,
            MetaError::Kv(KvError::Full { .. }) => libc::ENOSPC,
            MetaError::Kv(KvError::Limit(_)) => libc::EFBIG,
            MetaError::NotFormatted
            | MetaError::NewerSchema { .. }
            | MetaError::Kv(_)
            | MetaError::Corrupt(_) => libc::EIO,
        }
    }
}

impl From<DecodeError> for MetaError {
    fn from(error: DecodeError) -> Self {
        MetaError::Corrupt(format!("{}: {}", error.what, error.detail))
    }
}
