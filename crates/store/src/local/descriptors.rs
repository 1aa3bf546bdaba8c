//! Open files of objects, kept because opening costs more than a small read. Objects that are read in ranges are immutable; one that
//! is replaced or deleted by this process after all is forgotten.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quick_cache::sync::Cache;
use rustix::fs::{Mode, OFlags};
use rustix::process::{Resource, getrlimit};

/// Most descriptors kept.
const MOST: u64 = 1024;

pub(super) struct Descriptors {
    files: Cache<String, Arc<OwnedFd>>,
    /// Counts forgettings, so that a file opened before one is not kept after it.
    forgotten: AtomicU64,
}

impl std::fmt::Debug for Descriptors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Descriptors").field("open", &self.files.len()).finish_non_exhaustive()
    }
}

impl Descriptors {
    /// As many as the process may spare: a quarter of what it may open.
    pub(super) fn new() -> Descriptors {
        let allowed = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let most = (allowed / 4).clamp(8, MOST) as usize;
        Descriptors { files: Cache::new(most), forgotten: AtomicU64::new(0) }
    }

    /// The open file of an object, if it is open.
    pub(super) fn known(&self, key: &str) -> Option<Arc<OwnedFd>> {
        self.files.get(key)
    }

    /// The open file of an object.
    pub(super) fn get(&self, root: &OwnedFd, key: &str) -> rustix::io::Result<Arc<OwnedFd>> {
        if let Some(file) = self.known(key) {
            return Ok(file);
        }
        let before = self.forgotten.load(Ordering::SeqCst);
        let file = Arc::new(open(root, key)?);
        self.files.insert(key.to_owned(), Arc::clone(&file));
        if self.forgotten.load(Ordering::SeqCst) != before {
            self.files.remove(key);
        }
        Ok(file)
    }

    /// The object was replaced or deleted; call it after that took effect.
    pub(super) fn forget(&self, key: &str) {
        self.forgotten.fetch_add(1, Ordering::SeqCst);
        self.files.remove(key);
    }
}

/// Opens the file that is under this name now.
pub(super) fn open(root: &OwnedFd, key: &str) -> rustix::io::Result<OwnedFd> {
    // NONBLOCK: a FIFO that somebody left there must not hang us.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    rustix::fs::openat(root, key, flags, Mode::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_open_files_is_bounded() {
        let directory = tempfile::tempdir().unwrap();
        let root: OwnedFd = std::fs::File::open(directory.path()).unwrap().into();
        let descriptors = Descriptors { files: Cache::new(16), forgotten: AtomicU64::new(0) };
        for number in 0..200 {
            let key = number.to_string();
            std::fs::write(directory.path().join(&key), &key).unwrap();
            descriptors.get(&root, &key).unwrap();
        }
        let open = std::fs::read_dir("/proc/self/fd")
            .unwrap()
            .filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok())
            .filter(|target| target.parent() == Some(directory.path()))
            .count();
        assert!((1..=32).contains(&open), "{open}");
    }
}
