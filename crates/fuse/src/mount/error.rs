//! Why a mount could not be made or given up.

use std::io;
use std::path::{Path, PathBuf};

/// Why a mount failed.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// No such directory.
    #[error("mount point {} does not exist: create it first (mkdir -p)", .0.display())]
    NotFound(PathBuf),
    /// Not a directory.
    #[error("mount point {} is not a directory", .0.display())]
    NotDirectory(PathBuf),
    /// It could not be looked at.
    #[error("mount point {} cannot be used: {source}", .path.display())]
    Target {
        /// The mount point.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A FUSE file system is mounted there and alive.
    #[error(
        "mount point {} is in use: {source_name} ({fs_type}) is mounted there; unmount it first or choose another",
        .path.display()
    )]
    InUse {
        /// The mount point.
        path: PathBuf,
        /// The source in the mount table.
        source_name: String,
        /// The type in the mount table.
        fs_type: String,
    },
    /// A dead mount is in the way and could not be removed.
    #[error("a dead mount is in the way at {} and could not be removed: {source}", .path.display())]
    Stale {
        /// The mount point.
        path: PathBuf,
        /// Why.
        source: UnmountError,
    },
    /// An option that contradicts itself or has a bad value.
    #[error("mount option {option:?}: {reason}")]
    Option {
        /// As given.
        option: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// No FUSE device.
    #[error(
        "cannot open /dev/fuse: {0}; is the fuse module loaded (modprobe fuse), and the device in this container?"
    )]
    Device(io::Error),
    /// mount(2) refused.
    #[error("mounting at {} failed: {source}", .path.display())]
    Mount {
        /// The mount point.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// fusermount3 could not be run or refused.
    #[error("fusermount3: {0}")]
    Helper(String),
    /// The kernel's protocol is too old.
    #[error(
        "the kernel speaks FUSE {major}.{minor}; {}.{} (Linux 5.4) or newer is needed",
        crate::abi::MAJOR,
        crate::abi::MINOR_MIN
    )]
    KernelTooOld {
        /// The kernel's.
        major: u32,
        /// The kernel's.
        minor: u32,
    },
    /// The first exchange with the kernel failed.
    #[error("starting the FUSE session failed: {0}")]
    Init(io::Error),
    /// The mount was made, but its root does not answer.
    #[error("the root directory of the new mount does not answer: {0}")]
    Root(io::Error),
    /// Worker threads could not be started.
    #[error("starting worker threads failed: {0}")]
    Threads(io::Error),
}

/// Why an unmount failed.
#[derive(Debug, thiserror::Error)]
pub enum UnmountError {
    /// Files are open, or a process works in a directory there.
    #[error(
        "{} is busy: close what uses it (fuser -vm {}), or detach it lazily",
        .0.display(), .0.display()
    )]
    Busy(PathBuf),
    /// Nothing (of ours) is mounted there.
    #[error("nothing is mounted at {}", .0.display())]
    NotMounted(PathBuf),
    /// Anything else.
    #[error("unmounting {} failed: {reason}", .path.display())]
    Other {
        /// The mount point.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

impl UnmountError {
    pub(super) fn from_errno(path: &Path, errno: rustix::io::Errno) -> Self {
        match errno {
            rustix::io::Errno::BUSY => UnmountError::Busy(path.to_owned()),
            rustix::io::Errno::INVAL | rustix::io::Errno::NOENT => UnmountError::NotMounted(path.to_owned()),
            other => UnmountError::Other { path: path.to_owned(), reason: other.to_string() },
        }
    }
}
