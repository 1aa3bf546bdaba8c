//! The engine's directory: private to its owner, held by one engine at a time, and marked with the format in it.
//!
//! The marker file is `FORMAT`. A directory is made in two steps, so that a crash in between is recognised: the marker
//! says `creating` until the first, empty database is on disk. What a crash left behind before that is started anew. While
//! a loader fills it, it says `loading`: no engine opens that, as it would be taken for the whole.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::KvError;

const MARKER: &str = "FORMAT";
const MARKER_NEW: &str = "FORMAT.new";
/// Names chosen by LMDB.
const DATA_FILE: &str = "data.mdb";
const LOCK_FILE: &str = "lock.mdb";
/// See [`super::witness`].
const WITNESS_FILE: &str = "witness";

const FORMAT: &str = "headrace-kv lmdb 2\n";
const CREATING: &str = "headrace-kv lmdb 2 creating\n";
const LOADING: &str = "headrace-kv lmdb 2 loading\n";
/// More than any version's marker is long.
const MARKER_LIMIT: u64 = 256;
/// How far after its page LMDB may touch an entry whose place or length is damaged: both have 16 bits.
const NODE_REACH: u64 = 192 << 10;

/// An open directory. Held exclusively until dropped.
pub(super) struct Directory {
    path: PathBuf,
    /// Carries the lock.
    fd: OwnedFd,
    /// Whether the marker does not say yet that there is a database.
    creating: bool,
}

/// Who opens a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Purpose {
    /// An engine.
    Use,
    /// A loader, which fills a new one.
    Load,
}

impl Directory {
    /// Opens `dir`, creating it if it is missing.
    pub(super) fn open(dir: &Path, purpose: Purpose) -> Result<Directory, KvError> {
        let fail = |detail: String| KvError::Io { path: dir.display().to_string(), detail };
        create_if_missing(dir).map_err(|e| disk_error(dir, "cannot create the directory", &e))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::open(dir, flags, Mode::empty()).map_err(|e| match e {
            Errno::LOOP | Errno::NOTDIR => {
                fail("it is not a directory, or a symbolic link to one; name the directory itself".into())
            }
            e => disk_error(dir, "cannot open the directory", &e.into()),
        })?;
        let stat = rustix::fs::fstat(&fd).map_err(|e| disk_error(dir, "cannot stat", &e.into()))?;
        let user = rustix::process::geteuid().as_raw();
        if stat.st_uid != user {
            return Err(fail(format!(
                "the directory belongs to user {}, this process runs as user {user}; run as its owner or chown it",
                stat.st_uid
            )));
        }
        if stat.st_mode & 0o077 != 0 {
            rustix::fs::fchmod(&fd, Mode::RWXU)
                .map_err(|e| disk_error(dir, "cannot make the directory private", &e.into()))?;
        }
        match rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                return Err(fail("already open, in this process or another; only one may use it".into()));
            }
            Err(e) => return Err(disk_error(dir, "cannot lock the directory", &e.into())),
        }
        let path = dir.canonicalize().map_err(|e| disk_error(dir, "cannot resolve the path", &e))?;
        let mut directory = Directory { path, fd, creating: false };
        directory.read_marker(purpose)?;
        Ok(directory)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether there is no finished database in it yet.
    pub(super) fn is_new(&self) -> bool {
        self.creating
    }

    pub(super) fn data_file(&self) -> PathBuf {
        self.path.join(DATA_FILE)
    }

    pub(super) fn witness_file(&self) -> PathBuf {
        self.path.join(WITNESS_FILE)
    }

    /// The data file, for reading.
    pub(super) fn open_data(&self) -> io::Result<File> {
        File::open(self.data_file())
    }

    /// The file of LMDB's reader table, for reading.
    pub(super) fn open_lock(&self) -> io::Result<File> {
        File::open(self.path.join(LOCK_FILE))
    }

    /// Says on disk that the database is complete.
    pub(super) fn finish_creation(&mut self) -> Result<(), KvError> {
        if self.creating {
            self.write(MARKER_NEW, FORMAT)
                .and_then(|()| fs::rename(self.path.join(MARKER_NEW), self.path.join(MARKER)))
                .and_then(|()| self.sync())
                .map_err(|e| disk_error(&self.path, "cannot write the format marker", &e))?;
            self.creating = false;
        }
        Ok(())
    }

    /// Gives LMDB's reader table its disk blocks now: it is written through a mapping, where a full disk would be a
    /// fatal signal instead of an error.
    pub(super) fn reserve_reader_table(&self, bytes: u64) -> Result<(), KvError> {
        let reserve = || -> io::Result<()> {
            let mut file = File::options()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(self.path.join(LOCK_FILE))?;
            match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes) {
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
                other => return Ok(other?),
            }
            // Nobody else uses the table while the directory is ours, and LMDB sets it up again on open.
            let zeros = vec![0; usize::try_from(bytes).unwrap_or(0)];
            file.write_all(&zeros)
        };
        reserve().map_err(|e| disk_error(&self.path, "cannot reserve lock.mdb", &e))
    }

    /// Extends a data file that is shorter than its own header says, or ends less than [`NODE_REACH`] after its last page,
    /// so that reading what is missing finds zeros, which LMDB or we report as corruption, instead of raising a signal.
    pub(super) fn cover(&self, bytes: u64) -> Result<(), KvError> {
        let cover = || -> io::Result<()> {
            let file = File::options().write(true).open(self.path.join(DATA_FILE))?;
            let bytes = bytes.saturating_add(NODE_REACH);
            if file.metadata()?.len() < bytes { file.set_len(bytes) } else { Ok(()) }
        };
        cover().map_err(|e| disk_error(&self.path, "cannot extend data.mdb", &e))
    }

    /// Whether `bytes` more would fit on the disk, as far as can be told.
    pub(super) fn has_room(&self, bytes: u64) -> bool {
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        let tried = rustix::fs::openat(&self.fd, ".", flags, Mode::RUSR | Mode::WUSR)
            .and_then(|file| rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes.max(1)));
        match tried {
            Ok(()) => true,
            Err(Errno::NOSPC | Errno::DQUOT) => false,
            Err(_) => rustix::fs::fstatvfs(&self.fd)
                .map_or(true, |s| s.f_bavail.saturating_mul(s.f_frsize) >= bytes),
        }
    }

    /// Lets others open the directory.
    pub(super) fn release(&self) {
        // Cannot fail on a lock that is held; and dropping the descriptor releases it in any case.
        let _ = rustix::fs::flock(&self.fd, FlockOperation::Unlock);
    }

    /// Makes the names in the directory durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.fd)?)
    }

    fn read_marker(&mut self, purpose: Purpose) -> Result<(), KvError> {
        let refuse = |detail: String| KvError::Io { path: self.path.display().to_string(), detail };
        let text = match File::open(self.path.join(MARKER)) {
            Ok(file) => {
                let mut text = Vec::new();
                file.take(MARKER_LIMIT)
                    .read_to_end(&mut text)
                    .map_err(|e| disk_error(&self.path, "cannot read the format marker", &e))?;
                Some(String::from_utf8_lossy(&text).into_owned())
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(disk_error(&self.path, "cannot read the format marker", &e)),
        };
        match (text.as_deref(), purpose) {
            (Some(FORMAT), Purpose::Use) => return Ok(()),
            (Some(FORMAT), Purpose::Load) => {
                return Err(refuse("it holds an engine already; name an empty directory".into()));
            }
            (Some(LOADING), Purpose::Use) => {
                return Err(refuse(
                    "restoring it was interrupted, so it is not complete; restore it again, or remove it"
                        .into(),
                ));
            }
            // Blank: power was lost while the very first file was written; the data file comes after that.
            (Some(blank), _)
                if blank.bytes().all(|byte| byte == 0)
                    && self.path.join(DATA_FILE).symlink_metadata().is_ok() =>
            {
                return Err(KvError::Corrupt(format!("{}: {MARKER} is blank", self.path.display())));
            }
            (Some(marker), _)
                if matches!(marker, CREATING | LOADING) || marker.bytes().all(|byte| byte == 0) =>
            {
                self.remove_leftovers()
                    .map_err(|e| disk_error(&self.path, "cannot remove an unfinished database", &e))?;
            }
            (Some(other), _) => {
                return Err(refuse(format!(
                    "its format is {:?}, this version of headrace knows {:?}; use the version that wrote it",
                    other.trim_end(),
                    FORMAT.trim_end()
                )));
            }
            (None, _) => {
                for name in [DATA_FILE, LOCK_FILE] {
                    if self.path.join(name).symlink_metadata().is_ok() {
                        return Err(refuse(format!(
                            "it holds {name} but no {MARKER}: a database of another program, left alone; name an empty \
                             directory"
                        )));
                    }
                }
            }
        }
        let marker = match purpose {
            Purpose::Use => CREATING,
            Purpose::Load => LOADING,
        };
        self.write(MARKER, marker)
            .and_then(|()| self.sync())
            .map_err(|e| disk_error(&self.path, "cannot write the format marker", &e))?;
        self.creating = true;
        Ok(())
    }

    fn remove_leftovers(&self) -> io::Result<()> {
        for name in [DATA_FILE, LOCK_FILE, WITNESS_FILE, MARKER_NEW] {
            match fs::remove_file(self.path.join(name)) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                _ => {}
            }
        }
        Ok(())
    }

    fn write(&self, name: &str, text: &str) -> io::Result<()> {
        let mut file = File::create(self.path.join(name))?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    }
}

fn create_if_missing(dir: &Path) -> io::Result<()> {
    if dir.symlink_metadata().is_ok() {
        return Ok(());
    }
    let parent = dir.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(parent)?;
    match fs::DirBuilder::new().mode(0o700).create(dir) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        other => other?,
    }
    File::open(parent)?.sync_all()
}

/// Whether an error says that the disk, or the user's share of it, is used up.
pub(super) fn is_no_space(e: &io::Error) -> bool {
    matches!(e.raw_os_error().map(Errno::from_raw_os_error), Some(Errno::NOSPC | Errno::DQUOT))
}

pub(super) fn disk_error(dir: &Path, what: &str, e: &io::Error) -> KvError {
    let (path, detail) = (dir.display().to_string(), format!("{what}: {e}"));
    if is_no_space(e) { KvError::Full { path, detail } } else { KvError::Io { path, detail } }
}
