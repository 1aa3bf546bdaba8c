//! One directory to cache in.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver};

use parking_lot::{Mutex, MutexGuard};

use super::entry::Entry;
use super::index::{Index, IndexError, Sums};
use super::key::Key;
use super::lane::Lane;
use super::room::{Floor, Space};
use super::worker::Job;

/// Folders that files are spread over.
pub(super) const SHARDS: u32 = 256;
/// Entries that are kept open although nobody uses them.
pub(super) const IDLE_ENTRIES: usize = 256;

pub(super) const DATA: &str = "data";
pub(super) const INDEX: &str = "index";
pub(super) const LOCK: &str = "lock";
/// With a number: put aside, to be swept.
pub(super) const OLD: &str = "old";

/// Why a directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum DirectoryError {
    #[error("cannot {what} {path}: {source}")]
    Io { what: &'static str, path: String, source: io::Error },
    #[error("another mount caches there")]
    Taken,
    #[error("its index cannot be used: {0}")]
    Index(#[from] IndexError),
}

fn io_error<'a>(what: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> DirectoryError + use<'a> {
    move |source| DirectoryError::Io { what, path: path.display().to_string(), source }
}

/// One directory: its files, its index, what is open of it.
pub(super) struct Directory {
    pub lane: Arc<Lane>,
    pub index: Index,
    pub limit: Option<u64>,
    floor: Floor,
    /// Entries that may be open at one time: each takes a file descriptor, which others need too.
    most_entries: usize,
    entries: Mutex<HashMap<Key, Arc<Entry>>>,
    /// What the index still knows and is not to be believed.
    gone: Mutex<HashSet<Key>>,
    pub sums: Mutex<Sums>,
    /// Total and free bytes of the disk when they were last asked for.
    disk: Mutex<(u64, u64)>,
    /// Held for as long as the directory is used.
    _lock: File,
}

impl Directory {
    /// Opens a directory and makes what is missing. Answers the way in for its thread.
    pub(super) fn open(
        path: &Path,
        limit: Option<u64>,
        floor: Floor,
        index_memory: usize,
        queue: u64,
    ) -> Result<(Arc<Directory>, Receiver<Job>), DirectoryError> {
        // What is cached is as secret as the volume: for the owner of the mount alone.
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(io_error("make", path))?;
        let lock_path = path.join(LOCK);
        let lock = OpenOptions::new().create(true).append(true).mode(0o600).open(&lock_path);
        let lock = lock.map_err(io_error("open", &lock_path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => return Err(DirectoryError::Taken),
            Err(fs::TryLockError::Error(error)) => return Err(io_error("lock", &lock_path)(error)),
        }
        let (index, sums) = match Index::open(&path.join(INDEX), index_memory) {
            Ok(opened) => opened,
            Err(error) => {
                tracing::warn!(directory = %path.display(), %error, "the cache's index cannot be used: it starts empty");
                Self::start_anew(path)?;
                Index::open(&path.join(INDEX), index_memory)?
            }
        };
        let data = path.join(DATA);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&data).map_err(io_error("make", &data))?;
        let (jobs, received) = mpsc::channel();
        let lane = Arc::new(Lane::new(path.to_owned(), jobs, queue));
        lane.held.store(sums.bytes, Ordering::Relaxed);
        let directory = Directory {
            lane,
            index,
            limit,
            floor,
            most_entries: most_entries(),
            entries: Mutex::default(),
            gone: Mutex::default(),
            sums: Mutex::new(sums),
            disk: Mutex::default(),
            _lock: lock,
        };
        directory.look_at_disk();
        Ok((Arc::new(directory), received))
    }

    /// Puts aside what no index describes; it is swept when there is time.
    fn start_anew(path: &Path) -> Result<(), DirectoryError> {
        let (data, index) = (path.join(DATA), path.join(INDEX));
        for number in 0u32.. {
            let old = path.join(format!("{OLD}-{number}"));
            if !old.exists() {
                match fs::rename(&data, &old) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        return Err(io_error("put aside", &data)(error));
                    }
                    _ => break,
                }
            }
        }
        match fs::remove_file(&index) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error("remove", &index)(error)),
            _ => Ok(()),
        }
    }

    pub(super) fn file_path(&self, key: Key) -> PathBuf {
        let shard = key.hash(0) % u64::from(SHARDS);
        self.lane.path.join(DATA).join(format!("{shard:02x}")).join(key.file_name())
    }

    /// What is cached of `key`; with `make`, a new entry if there is none. `None` as well when the directory fails.
    pub(super) fn entry(&self, key: Key, make: bool) -> Option<Arc<Entry>> {
        if self.lane.is_failed() {
            return None;
        }
        let mut entries = self.entries.lock();
        match entries.get(&key) {
            Some(entry) if !entry.is_dead() => return Some(Arc::clone(entry)),
            Some(_) => {
                entries.remove(&key);
            }
            None => {}
        }
        let records = match self.gone.lock().contains(&key) {
            true => Vec::new(),
            false => match self.index.load(key) {
                Ok(records) => records,
                Err(error) => {
                    self.lane.fail(format!("its index cannot be read: {error}"));
                    return None;
                }
            },
        };
        if records.is_empty() && !make || entries.len() >= self.most_entries {
            return None;
        }
        let path = self.file_path(key);
        let file = match self.open_file(&path, records.is_empty()) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound && !records.is_empty() => {
                // Somebody has removed it: nothing of it is there.
                self.lane.send(Job::Forget(key));
                return None;
            }
            // Not the disk's fault: too many open files.
            Err(error)
                if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM)) =>
            {
                return None;
            }
            Err(error) if is_full(&error) => return None,
            Err(error) => {
                self.lane.fail(format!("cannot open {}: {error}", path.display()));
                return None;
            }
        };
        let entry = Arc::new(Entry::new(key, Arc::clone(&self.lane), file, path, records));
        entries.insert(key, Arc::clone(&entry));
        Some(entry)
    }

    fn open_file(&self, path: &Path, make: bool) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(0o600);
        if !make {
            return options.open(path);
        }
        // What is there without being known is not to be believed.
        options.create(true).truncate(true);
        match options.open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let parent = path.parent().unwrap_or(path);
                fs::DirBuilder::new().mode(0o700).create(parent)?;
                options.open(path)
            }
            opened => opened,
        }
    }

    /// The table of entries, if there may be one more.
    pub(super) fn room_for_entry(&self) -> Option<MutexGuard<'_, HashMap<Key, Arc<Entry>>>> {
        let entries = self.entries.lock();
        (!self.lane.is_failed() && entries.len() < self.most_entries).then_some(entries)
    }

    /// An entry that is open.
    pub(super) fn loaded(&self, key: Key) -> Option<Arc<Entry>> {
        self.entries.lock().get(&key).cloned()
    }

    /// All that are open.
    pub(super) fn all_loaded(&self) -> Vec<Arc<Entry>> {
        self.entries.lock().values().map(Arc::clone).collect()
    }

    /// The index is not to be believed of `key` until [`Self::believed`].
    pub(super) fn disbelieve(&self, key: Key) {
        self.gone.lock().insert(key);
    }

    /// The index is up to date.
    pub(super) fn believed(&self) {
        self.gone.lock().clear();
    }

    /// Takes an entry out that has ended, or has nothing in it.
    pub(super) fn take_out(&self, entry: &Arc<Entry>) {
        let mut entries = self.entries.lock();
        if entries.get(&entry.key()).is_some_and(|known| Arc::ptr_eq(known, entry)) {
            entries.remove(&entry.key());
        }
    }

    /// Ends an entry that has nothing in it, unless somebody has begun to use it.
    pub(super) fn take_out_empty(&self, entry: &Arc<Entry>, users: usize) {
        let mut entries = self.entries.lock();
        // The table's own reference beside those of the caller.
        if entry.is_empty() && Arc::strong_count(entry) <= users + 1 {
            entries.remove(&entry.key());
            drop(entries);
            entry.detach();
        }
    }

    /// Closes entries that nobody uses, beyond some.
    pub(super) fn close_idle(&self) {
        let mut entries = self.entries.lock();
        let mut over = entries.len().saturating_sub(IDLE_ENTRIES);
        entries.retain(|_, entry| {
            let close = over > 0 && Arc::strong_count(entry) == 1;
            over -= usize::from(close);
            !close
        });
    }

    /// Lets go of all entries.
    pub(super) fn close(&self) {
        self.entries.lock().clear();
    }

    /// Removes the file of an entry that is not open.
    pub(super) fn remove_file(&self, key: Key) -> io::Result<()> {
        match fs::remove_file(self.file_path(key)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    /// Removes files that nothing is known of from one of the folders, and what was put aside.
    pub(super) fn sweep(&self, shard: u32) -> io::Result<()> {
        if shard == 0 {
            for entry in fs::read_dir(&self.lane.path)?.flatten() {
                let name = entry.file_name();
                if name.to_str().is_some_and(|name| name.starts_with(OLD)) {
                    fs::remove_dir_all(entry.path())?;
                }
            }
        }
        let folder = self.lane.path.join(DATA).join(format!("{shard:02x}"));
        let files = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            files => files?,
        };
        for file in files.flatten() {
            let Some(key) = file.file_name().to_str().and_then(Key::of_file_name) else { continue };
            // No entry can be made of it meanwhile.
            let entries = self.entries.lock();
            if !entries.contains_key(&key) && !self.index.contains(key).unwrap_or(true) {
                let _ = fs::remove_file(file.path());
            }
        }
        Ok(())
    }

    /// Asks the disk how much is free.
    pub(super) fn look_at_disk(&self) {
        match rustix::fs::statvfs(&self.lane.path) {
            Ok(stat) => {
                let unit = stat.f_frsize;
                *self.disk.lock() = (stat.f_blocks.saturating_mul(unit), stat.f_bavail.saturating_mul(unit));
            }
            Err(errno) => self.lane.fail(format!("cannot ask how much is free: {}", io::Error::from(errno))),
        }
    }

    /// So many bytes were taken of the disk.
    pub(super) fn taken(&self, bytes: u64) {
        let mut disk = self.disk.lock();
        disk.1 = disk.1.saturating_sub(bytes);
    }

    /// What is known of its space.
    pub(super) fn space(&self) -> Space {
        let (total, free) = *self.disk.lock();
        Space {
            held: self.lane.held.load(Ordering::Relaxed),
            limit: self.limit,
            free,
            floor: self.floor.of(total),
        }
    }
}

/// A quarter of the file descriptors that this process may have.
fn most_entries() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX)) / 4
}

/// Whether an error says that a disk, or what somebody may take of it, is full.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG))
}
