//! Remembers, beside the data file, LMDB's newest transaction. Should a disk lose a write that it confirmed, or LMDB's header
//! be damaged so that the older one counts, the data file would be consistent and old: nothing within it can tell.
//!
//! The file is written after each commit and not synced, so it costs no flush and never says more than is durable. After a
//! power cut it may say less, or nothing.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use super::record;

/// The checksum's key.
const KEY: &[u8] = b"witness";
const BYTES: usize = 8 + record::CHECKSUM_BYTES;

pub(super) struct Witness(File);

impl Witness {
    /// Opens or creates the file; forgets what it says if the database is `new`.
    pub(super) fn open(path: &Path, new: bool) -> io::Result<Witness> {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(new).mode(0o600);
        options.open(path).map(Witness)
    }

    /// The newest transaction it has seen; `None` if it cannot tell.
    pub(super) fn read(&self) -> Option<u64> {
        let mut stored = [0; BYTES];
        self.0.read_exact_at(&mut stored, 0).ok()?;
        let (txn, _) = record::open(KEY, &stored)?;
        txn.try_into().ok().map(u64::from_be_bytes)
    }

    /// Notes a transaction that is durable.
    pub(super) fn note(&self, txn: u64) {
        let mut stored = txn.to_be_bytes().to_vec();
        record::seal(KEY, &mut stored);
        // One that could not be written says less than it might, which is allowed.
        let _ = self.0.write_all_at(&stored, 0);
    }
}
