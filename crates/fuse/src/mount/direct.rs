//! Mounting as root: mount(2) on /dev/fuse.

use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{Mode, OFlags};

use super::target::Target;
use super::{MountError, MountOptions};

/// Opens the device and mounts it.
pub(super) fn mount(target: &Target, options: &MountOptions, max_read: u32) -> Result<OwnedFd, MountError> {
    let device = rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| MountError::Device(errno.into()))?;
    let failed =
        |errno: rustix::io::Errno| MountError::Mount { path: target.path.clone(), source: errno.into() };

    let mut data = format!(
        "fd={},rootmode={:o},user_id={},group_id={},default_permissions,max_read={max_read}",
        device.as_raw_fd(),
        target.mode & libc::S_IFMT,
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw(),
    );
    if options.allow_other {
        data.push_str(",allow_other");
    }
    let data = CString::new(data).map_err(|_| failed(rustix::io::Errno::INVAL))?;
    rustix::mount::mount(
        options.source(),
        &target.path,
        options.fs_type().as_str(),
        options.flags(),
        data.as_c_str(),
    )
    .map_err(failed)?;
    Ok(device)
}
