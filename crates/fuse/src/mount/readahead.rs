//! The mount's readahead. INIT cannot raise it above the default of 128 KiB; sysfs can.

use std::path::Path;

/// Sets the readahead of the file system that has device number `dev`.
///
/// Failure only costs speed: reading with 128 KiB in flight is slow from a store that is milliseconds away.
pub(crate) fn set_read_ahead(dev: u64, kib: u32) {
    let path = format!("/sys/class/bdi/{}:{}/read_ahead_kb", rustix::fs::major(dev), rustix::fs::minor(dev));
    if let Err(error) = std::fs::write(Path::new(&path), kib.to_string()) {
        tracing::warn!(
            "cannot set readahead to {kib} KiB in {path}: {error}; large sequential reads will be slower"
        );
    }
}
