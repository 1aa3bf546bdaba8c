//! The directories that keys imply: made when needed, durable before an object in them is, removed when empty.

use std::collections::HashSet;
use std::ops::Deref;
use std::os::fd::OwnedFd;

use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

/// Most directories remembered; beyond it all are forgotten, which costs a few fsyncs.
const MOST: usize = 65_536;

#[derive(Debug, Default)]
pub(super) struct Directories {
    /// Held for reading while an object is written, for writing while an empty directory is removed: none vanishes under a writer.
    structure: RwLock<()>,
    /// Held by who removes empty directories: whoever deletes the last object of one must not take another deleter for a writer.
    pruning: Mutex<()>,
    /// Known to be durable, by a sync of this process: one made by a process that crashed may not be.
    durable: Mutex<HashSet<String>>,
}

/// A directory that stays while this is held.
pub(super) struct Entered<'a> {
    directory: OwnedFd,
    _stays: RwLockReadGuard<'a, ()>,
}

impl Deref for Entered<'_> {
    type Target = OwnedFd;

    fn deref(&self) -> &OwnedFd {
        &self.directory
    }
}

impl Directories {
    /// Opens the directory `path` below `root`, making it and those above it durable first. `path` may be empty: the root itself.
    pub(super) fn enter(&self, root: &OwnedFd, path: &str) -> rustix::io::Result<Entered<'_>> {
        let stays = self.structure.read();
        if !path.is_empty() && !self.durable.lock().contains(path) {
            let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
            let mut parent = open(root, ".")?;
            for end in ends {
                let below = &path[..end];
                match rustix::fs::mkdirat(root, below, Mode::RWXU) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(errno) => return Err(errno),
                }
                if !self.durable.lock().contains(below) {
                    rustix::fs::fsync(&parent)?;
                }
                parent = open(root, below)?;
                let mut durable = self.durable.lock();
                if durable.len() >= MOST {
                    durable.clear();
                }
                durable.insert(below.to_owned());
            }
            return Ok(Entered { directory: parent, _stays: stays });
        }
        let directory = match open(root, if path.is_empty() { "." } else { path }) {
            // Somebody removed it behind our back.
            Err(Errno::NOENT) if !path.is_empty() => {
                self.durable.lock().clear();
                drop(stays);
                return self.enter(root, path);
            }
            other => other?,
        };
        Ok(Entered { directory, _stays: stays })
    }

    /// Removes the directories above `key` that have become empty, as far as nobody is writing.
    pub(super) fn prune(&self, root: &OwnedFd, key: &str) {
        let _turn = self.pruning.lock();
        let Some(_alone) = self.structure.try_write() else {
            return;
        };
        let mut path = key;
        while let Some((parent, _)) = path.rsplit_once('/') {
            if rustix::fs::unlinkat(root, parent, AtFlags::REMOVEDIR).is_err() {
                return;
            }
            self.durable.lock().remove(parent);
            path = parent;
        }
    }
}

fn open(root: &OwnedFd, path: &str) -> rustix::io::Result<OwnedFd> {
    rustix::fs::openat(root, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}
