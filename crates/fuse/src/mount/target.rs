//! What is at a mount point before we mount there.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use super::{MountEntry, MountError, table};

/// How long a file system mounted at the mount point may take to show that it lives. A slow one counts as alive.
const ALIVE_WITHIN: Duration = Duration::from_secs(5);

/// Dead mounts stacked on each other that are removed before giving up.
const STALE_MAX: usize = 16;

/// A directory that can be mounted on.
#[derive(Debug)]
pub(super) struct Target {
    /// Without symbolic links.
    pub path: PathBuf,
    /// Its `st_mode`.
    pub mode: u32,
}

/// Checks `mountpoint`, clearing away dead FUSE mounts.
pub(super) fn prepare(mountpoint: &Path) -> Result<Target, MountError> {
    let unusable = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => MountError::NotFound(mountpoint.to_owned()),
        io::ErrorKind::NotADirectory => MountError::NotDirectory(mountpoint.to_owned()),
        _ => MountError::Target { path: mountpoint.to_owned(), source },
    };
    let path = table::resolve(mountpoint).map_err(unusable)?;
    for _ in 0..STALE_MAX {
        let Some(entry) = table::find_resolved(&path) else { break };
        if !entry.is_fuse() {
            break;
        }
        if !is_dead(&entry) {
            return Err(MountError::InUse {
                path,
                source_name: entry.source.to_string_lossy().into_owned(),
                fs_type: entry.fs_type,
            });
        }
        tracing::warn!(mountpoint = %path.display(), "removing a dead mount whose process is gone");
        super::unmount(&path, true).map_err(|source| MountError::Stale { path: path.clone(), source })?;
    }
    let stat = rustix::fs::stat(&path).map_err(|errno| unusable(errno.into()))?;
    if stat.st_mode & libc::S_IFMT != libc::S_IFDIR {
        return Err(MountError::NotDirectory(mountpoint.to_owned()));
    }
    Ok(Target { path, mode: stat.st_mode })
}

/// Whether the process behind a FUSE mount is gone.
///
/// Attributes may be cached for a day and prove nothing. Opening the directory always asks the process (and statfs
/// does, for those who may not open it).
pub(super) fn is_dead(entry: &MountEntry) -> bool {
    let path = entry.mount_point.clone();
    let (send, receive) = mpsc::channel();
    let probe = std::thread::Builder::new().name("mount-probe".to_owned()).spawn(move || {
        let dead = |errno| matches!(errno, rustix::io::Errno::NOTCONN | rustix::io::Errno::CONNABORTED);
        let gone = rustix::fs::statfs(&path).is_err_and(dead)
            || rustix::fs::open(
                &path,
                rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC,
                rustix::fs::Mode::empty(),
            )
            .is_err_and(dead);
        let _ = send.send(gone);
    });
    probe.is_ok() && receive.recv_timeout(ALIVE_WITHIN).unwrap_or(false)
}
