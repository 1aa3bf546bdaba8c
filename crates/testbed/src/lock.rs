//! Byte-range locks (`fcntl`), which the standard library and rustix do not offer.

use std::os::fd::{AsFd, AsRawFd};

/// Whose lock it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Owner {
    /// The process (`F_SETLK`): dropped when the process closes any descriptor of the file.
    Process,
    /// The open file description (`F_OFD_SETLK`).
    OpenFile,
}

/// What to do with the range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lock {
    /// Shared lock.
    Read,
    /// Exclusive lock.
    Write,
    /// Release.
    Unlock,
}

/// Sets a lock on `[start, start + len)` (`len` 0: to the end); waits for it when `wait`.
///
/// # Errors
/// `EAGAIN` or `EACCES` when another owner holds it and `wait` is not set; others as `fcntl` answers.
#[allow(unsafe_code)]
pub fn set(
    file: impl AsFd,
    owner: Owner,
    lock: Lock,
    start: i64,
    len: i64,
    wait: bool,
) -> std::io::Result<()> {
    // SAFETY: `flock` is plain integers, for which zero is a valid value.
    let mut request: libc::flock = unsafe { std::mem::zeroed() };
    request.l_type = match lock {
        Lock::Read => libc::F_RDLCK,
        Lock::Write => libc::F_WRLCK,
        Lock::Unlock => libc::F_UNLCK,
    } as i16;
    request.l_whence = libc::SEEK_SET as i16;
    request.l_start = start;
    request.l_len = len;
    let command = match (owner, wait) {
        (Owner::Process, false) => libc::F_SETLK,
        (Owner::Process, true) => libc::F_SETLKW,
        (Owner::OpenFile, false) => libc::F_OFD_SETLK,
        (Owner::OpenFile, true) => libc::F_OFD_SETLKW,
    };
    // SAFETY: the descriptor is open for the whole call and `request` is a valid `struct flock`.
    match unsafe { libc::fcntl(file.as_fd().as_raw_fd(), command, &request) } {
        -1 => Err(std::io::Error::last_os_error()),
        _ => Ok(()),
    }
}
