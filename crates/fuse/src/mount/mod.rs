//! Getting a mount, finding mounts, and giving them up.

mod direct;
mod error;
mod helper;
mod options;
mod table;
mod target;

use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::mount::UnmountFlags;

pub use error::{MountError, UnmountError};
pub use options::{AtimeOption, MountOptions, ParsedOptions};
pub use table::{MountEntry, containing, find, list};

/// What the mount table calls our file systems, unless `subtype=` says otherwise.
pub const DEFAULT_SUBTYPE: &str = "headrace";

/// How a mount was made, which is how it has to be unmade.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Method {
    /// By `mount(2)`.
    Direct,
    /// By `fusermount3`, for an ordinary user.
    Helper,
}

/// A fresh mount: the kernel has queued INIT on `device`.
#[derive(Debug)]
pub(crate) struct Attached {
    /// The connection.
    pub device: OwnedFd,
    /// Where, without symbolic links.
    pub mountpoint: PathBuf,
    /// How.
    pub method: Method,
}

/// Mounts at `mountpoint`; a stale mount found there is removed first.
pub(crate) fn attach(
    mountpoint: &Path,
    options: &MountOptions,
    max_read: u32,
) -> Result<Attached, MountError> {
    let target = target::prepare(mountpoint)?;
    if rustix::process::geteuid().is_root() {
        let device = direct::mount(&target, options, max_read)?;
        Ok(Attached { device, mountpoint: target.path, method: Method::Direct })
    } else {
        let device = helper::mount(&target.path, options, max_read)?;
        Ok(Attached { device, mountpoint: target.path, method: Method::Helper })
    }
}

/// Unmounts what is mounted at `mountpoint`, as root or through `fusermount3`. `lazy` detaches it now and lets go
/// of it when its last user has.
pub fn unmount(mountpoint: &Path, lazy: bool) -> Result<(), UnmountError> {
    if rustix::process::geteuid().is_root() {
        let flags = if lazy { UnmountFlags::DETACH | UnmountFlags::NOFOLLOW } else { UnmountFlags::NOFOLLOW };
        rustix::mount::unmount(mountpoint, flags).map_err(|errno| UnmountError::from_errno(mountpoint, errno))
    } else {
        helper::unmount(mountpoint, lazy)
    }
}

/// Breaks the connection behind a mount: every use of it, waiting or to come, fails.
pub(crate) fn abort(mountpoint: &Path, minor: u32) -> Result<(), UnmountError> {
    let control = format!("/sys/fs/fuse/connections/{minor}/abort");
    let by_control = File::options().write(true).open(control).and_then(|mut file| file.write_all(b"1"));
    if by_control.is_ok() {
        return Ok(());
    }
    // The control file system is not mounted everywhere. A forced unmount aborts first, and only then looks
    // whether the mount is in use; so EBUSY is success here.
    match rustix::mount::unmount(mountpoint, UnmountFlags::FORCE | UnmountFlags::NOFOLLOW) {
        Ok(()) | Err(rustix::io::Errno::BUSY) => Ok(()),
        Err(errno) => Err(UnmountError::from_errno(mountpoint, errno)),
    }
}
