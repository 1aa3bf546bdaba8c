//! What writing back says of itself.

use std::sync::atomic::Ordering;

use headrace_metrics::{Collection, Unit};
use serde::Serialize;

use super::Staging;

/// New files that are on this machine's disk and not stored yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WritebackStatus {
    /// Whether new files are written to this machine's disk first, as was asked for when mounting.
    pub on: bool,
    /// Whether the next new file would be: there is room.
    pub has_room: bool,
    /// Where they are.
    pub path: String,
    /// Files that are not stored, or that somebody has open.
    pub files: u64,
    /// Bytes they take on the disk.
    pub bytes: u64,
    /// Bytes that they may take before new files go to the store directly; `None`: as many as leave a twentieth of the disk free.
    pub limit: Option<u64>,
    /// Bytes that are stored in a second at most; `None`: as many as the store takes.
    pub rate: Option<u64>,
    /// Bytes stored since the mount.
    pub stored: u64,
}

impl Staging {
    /// Figures of this moment; `None` where there is nothing to be said.
    pub(crate) fn status(&self) -> Option<WritebackStatus> {
        let directory = self.directory.as_ref()?;
        Some(WritebackStatus {
            on: self.takes_new,
            has_room: self.has_room(),
            path: directory.path().display().to_string(),
            files: self.files.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            limit: self.limit,
            rate: self.rate,
            stored: self.stored_bytes.load(Ordering::Relaxed),
        })
    }

    /// Adds its metrics.
    pub(crate) fn collect(&self, into: &mut Collection) {
        let Some(status) = self.status() else { return };
        let help = "New files on this machine's disk that are not stored yet, or open";
        into.gauge("headrace_writeback_files", help, Unit::None, status.files as f64);
        let help = "Bytes on this machine's disk of new files that are not stored yet, or open";
        into.gauge("headrace_writeback_bytes", help, Unit::Bytes, status.bytes as f64);
        let help = "Bytes of new files that were stored from this machine's disk";
        into.counter("headrace_writeback_stored_bytes_total", help, Unit::Bytes, status.stored);
    }
}
