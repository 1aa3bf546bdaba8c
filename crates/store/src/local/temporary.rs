//! Files on their way to becoming objects. They live in one directory of the root, so that those a crash left are found without
//! walking the store.

use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, Dir, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::Body;
use crate::key::RESERVED;

/// Pieces that are written with one call: the kernel takes 1,024.
const AT_ONCE: usize = 1024;

/// What to do when an object is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Finish {
    Replace,
    /// Fail with EEXIST, atomically.
    Absent,
}

/// The directory of temporary files, made if need be.
pub(super) fn open_directory(root: &OwnedFd) -> rustix::io::Result<OwnedFd> {
    let made = rustix::fs::mkdirat(root, RESERVED, Mode::RWXU);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    match (rustix::fs::openat(root, RESERVED, flags, Mode::empty()), made) {
        // The reason is that it could not be made.
        (Err(Errno::NOENT), Err(errno)) => Err(errno),
        (opened, _) => opened,
    }
}

/// Removes files last written more than `age` before `now`; says how many.
pub(super) fn remove_leftovers(
    directory: &OwnedFd,
    now: SystemTime,
    age: Duration,
) -> rustix::io::Result<usize> {
    let limit = now.checked_sub(age).and_then(|limit| limit.duration_since(SystemTime::UNIX_EPOCH).ok());
    let limit = limit.map_or(0, |limit| limit.as_secs());
    let mut removed = 0;
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let Ok(stat) = rustix::fs::statat(directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) else {
            continue;
        };
        let old = u64::try_from(stat.st_mtime).is_ok_and(|written| written < limit);
        // Fails for "." and ".." and other directories, which are not ours.
        if old && rustix::fs::unlinkat(directory, entry.file_name(), AtFlags::empty()).is_ok() {
            removed += 1;
        }
    }
    Ok(removed)
}

/// A new file, removed again unless renamed.
pub(super) struct TemporaryFile<'a> {
    directory: &'a OwnedFd,
    name: String,
    file: OwnedFd,
    renamed: bool,
}

impl<'a> TemporaryFile<'a> {
    pub(super) fn create(directory: &'a OwnedFd) -> rustix::io::Result<TemporaryFile<'a>> {
        loop {
            let name = format!("{:016x}", getrandom::u64().map_err(|_| Errno::IO)?);
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            match rustix::fs::openat(directory, &name, flags, Mode::RUSR | Mode::WUSR) {
                Ok(file) => return Ok(TemporaryFile { directory, name, file, renamed: false }),
                Err(Errno::EXIST | Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Writes the whole body and waits until it is on the disk.
    pub(super) fn write(&self, body: &Body) -> rustix::io::Result<()> {
        for pieces in body.pieces().chunks(AT_ONCE) {
            let mut slices: Vec<_> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
            let mut left = &mut slices[..];
            while !left.is_empty() {
                match rustix::io::writev(&self.file, left) {
                    Ok(0) => return Err(Errno::IO),
                    Ok(written) => IoSlice::advance_slices(&mut left, written),
                    Err(Errno::INTR) => {}
                    Err(errno) => return Err(errno),
                }
            }
        }
        rustix::fs::fdatasync(&self.file)
    }

    /// Moves it to its place, atomically.
    pub(super) fn rename(mut self, parent: &OwnedFd, name: &str, finish: Finish) -> rustix::io::Result<()> {
        match finish {
            Finish::Replace => rustix::fs::renameat(self.directory, &self.name, parent, name)?,
            Finish::Absent => {
                match rustix::fs::renameat_with(
                    self.directory,
                    &self.name,
                    parent,
                    name,
                    RenameFlags::NOREPLACE,
                ) {
                    // Some network file systems have no such rename, but all have link, which never replaces.
                    Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                        return rustix::fs::linkat(
                            self.directory,
                            &self.name,
                            parent,
                            name,
                            AtFlags::empty(),
                        );
                    }
                    other => other?,
                }
            }
        }
        self.renamed = true;
        Ok(())
    }
}

impl Drop for TemporaryFile<'_> {
    fn drop(&mut self) {
        if !self.renamed {
            // If it fails, the next open after an hour does it.
            let _ = rustix::fs::unlinkat(self.directory, &self.name, AtFlags::empty());
        }
    }
}
