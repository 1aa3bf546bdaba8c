//! Keeps LMDB's files from the programs this process starts: it opens the data file without close-on-exec.

use std::fs::{self, File, Metadata};
use std::os::fd::{BorrowedFd, RawFd};
use std::os::unix::fs::MetadataExt as _;

use rustix::io::FdFlags;

/// Marks every descriptor of this process that refers to `file` as close-on-exec. What cannot be looked up is left as it is:
/// a program that inherits the descriptor could read names and inline bytes, but only one that this process itself starts.
pub(super) fn close_on_exec(file: &File) {
    let (Ok(ours), Ok(open)) = (file.metadata(), fs::read_dir("/proc/self/fd")) else { return };
    let same = |m: &Metadata| m.dev() == ours.dev() && m.ino() == ours.ino();
    for entry in open.flatten() {
        let number = entry.file_name().to_str().and_then(|name| name.parse::<RawFd>().ok());
        let Some(number) = number.filter(|_| fs::metadata(entry.path()).is_ok_and(|m| same(&m))) else {
            continue;
        };
        // SAFETY: used for one call that changes no more than this flag. The descriptor was open a moment ago; should
        // another thread have closed it, the call fails or sets the flag on what took its number, as all files here have it.
        #[allow(unsafe_code)]
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        // Fails only if the descriptor is gone.
        let _ = rustix::io::fcntl_setfd(descriptor, FdFlags::CLOEXEC);
    }
}
