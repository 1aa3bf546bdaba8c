//! LMDB's errors, and what they mean to the engine.

use heed::MdbError;
use rustix::io::Errno;

use super::super::directory::{Directory, is_no_space};
use crate::KvError;

/// Why a commit failed. Nothing of it is in the database.
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) enum Fault {
    /// The disk is full.
    Full(String),
    /// The mapping is too small.
    MapFull,
    /// LMDB gave up on this environment; a fresh one may do.
    Unusable(String),
    /// A write failed although there is room. It may have been cut short by a full disk that was given room since.
    Write(String),
    /// What is stored already is damaged.
    Corrupt(String),
    /// Anything else.
    Io(String),
}

pub(super) fn open_error(directory: &Directory, e: &heed::Error) -> KvError {
    let path = directory.path().display().to_string();
    if let Fault::Full(detail) = classify(e, || directory.has_room(1 << 20)) {
        return KvError::Full { path, detail: format!("cannot open: {detail}") };
    }
    match e {
        heed::Error::EnvAlreadyOpened => {
            KvError::Io { path, detail: "already open in this process; only one engine may use it".into() }
        }
        heed::Error::Mdb(MdbError::VersionMismatch) => {
            KvError::Io { path, detail: "data.mdb was written by another version of LMDB".into() }
        }
        e if is_corruption(e) => KvError::Corrupt(format!("{path}/data.mdb: {e}")),
        e => KvError::Io { path, detail: format!("cannot open: {e}") },
    }
}

pub(super) fn is_corruption(e: &heed::Error) -> bool {
    use MdbError::{Corrupted, CursorFull, Incompatible, Invalid, PageFull, PageNotFound};
    matches!(e, heed::Error::Mdb(Corrupted | CursorFull | Incompatible | Invalid | PageFull | PageNotFound))
}

/// What a failed commit means. LMDB reports a write that was cut short, as a nearly full disk does, as an I/O error:
/// `has_room` tells the two apart.
pub(super) fn classify(e: &heed::Error, has_room: impl FnOnce() -> bool) -> Fault {
    match e {
        heed::Error::Io(io) if is_no_space(io) => Fault::Full(io.to_string()),
        heed::Error::Io(io) if io.raw_os_error() == Some(Errno::IO.raw_os_error()) => {
            if has_room() {
                Fault::Write(io.to_string())
            } else {
                Fault::Full("write cut short".into())
            }
        }
        heed::Error::Mdb(MdbError::MapFull) => Fault::MapFull,
        heed::Error::Mdb(MdbError::Panic) => Fault::Unusable(e.to_string()),
        e if is_corruption(e) => Fault::Corrupt(e.to_string()),
        e => Fault::Io(e.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    fn os(errno: Errno) -> heed::Error {
        heed::Error::Io(io::Error::from_raw_os_error(errno.raw_os_error()))
    }

    #[test]
    fn a_full_disk_is_told_from_a_broken_one() {
        assert!(matches!(classify(&os(Errno::NOSPC), || true), Fault::Full(_)));
        assert!(matches!(classify(&os(Errno::DQUOT), || true), Fault::Full(_)));
        assert!(matches!(classify(&os(Errno::IO), || false), Fault::Full(_)));
        assert!(matches!(classify(&os(Errno::IO), || true), Fault::Write(_)));
        assert!(matches!(classify(&os(Errno::ROFS), || false), Fault::Io(_)));
        assert_eq!(classify(&heed::Error::Mdb(MdbError::MapFull), || true), Fault::MapFull);
    }
}
