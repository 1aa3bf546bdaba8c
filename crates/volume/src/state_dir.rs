//! Where this machine keeps a volume's metadata, and the rules for that directory.
//!
//! A volume in a local directory keeps its metadata beside its data, in `<dir>/meta`, so that the directory can be
//! moved as a whole. Every other volume has `<base>/<uuid>`, where the base is the `--state-dir` given, else
//! `$HEADRACE_STATE_DIR`, else `/var/lib/headrace` for root, else `$XDG_STATE_HOME/headrace`, else
//! `~/.local/state/headrace`. A base that is given counts for local volumes too.
//!
//! The directory holds file contents (small files live in the metadata), so it is private: mode 0700, owned by the
//! user who runs the program, and never reached through a symbolic link of its own.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::{Result, VolumeError};
use crate::rebuild;

/// Name of the environment variable that sets the base of all state directories.
pub const STATE_DIR_VARIABLE: &str = "HEADRACE_STATE_DIR";

/// The engine's directory within the state directory.
const ENGINE: &str = "engine";
/// Says which volume the directory belongs to.
const IDENTITY: &str = "volume.json";
/// There while `format` or `destroy` is at work; what they leave after a crash may be wiped.
const INCOMPLETE: &str = "incomplete";
/// Tells this directory from every other that has been the home of the same volume: see [`headrace_metalog::SiteRecord`].
const SITE: &str = "site.json";
/// Up to where the engine is nothing but a copy of the bucket's log.
const COPY: &str = "copy.json";
/// What reads from the store have taught.
const READING: &str = "reading.json";
/// Where an engine is built from the bucket before it takes its place.
const RESTORING: &str = "restoring";
/// Beginning of the names of engines that were put aside.
const ASIDE: &str = "set-aside-";
/// New files that are to be stored yet.
const WRITEBACK: &str = "writeback";

/// Suffix of a file that is being written and not renamed to its place yet.
const TEMPORARY: &str = ".new";

/// Longest small file read from a state directory, bytes.
const SMALL_FILE_MAX: u64 = 64 << 10;

/// Which volume a state directory belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The volume's identity, as in its superblock.
    pub uuid: Uuid,
    /// Its name, for people.
    pub name: String,
    /// Where its data was at format time, for people.
    pub url: String,
}

/// Which engine this is, if it is nothing but a copy of the bucket: then it can go without a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyMark {
    /// The engine's position when it was the same as the bucket.
    pub position: u64,
    /// Number of the log's last object then, if that is known.
    pub number: Option<u64>,
}

/// What reads from the store taught an earlier mount, for the next one to begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadingRecord {
    /// From sending a fetch to its first byte, microseconds.
    pub latency_us: u64,
    /// From there on, for each MiB of a fetch, microseconds.
    pub mib_us: u64,
    /// Bytes per second, of all fetches together.
    pub rate: u64,
    /// Bytes that will be read one after the other of a file, by what was read of the last two.
    pub run: u64,
}

/// A state directory that exists and passed the checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateDir {
    path: PathBuf,
}

impl StateDir {
    /// Creates `path` (and its parents) unless it is there, and checks it.
    pub fn create(path: &Path) -> Result<StateDir> {
        if let Some(existing) = Self::open(path)? {
            return Ok(existing);
        }
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder.create(path).map_err(|e| failed(path, "cannot create it", &e))?;
        Self::open(path)?.ok_or_else(|| refused(path, "it vanished while it was being created"))
    }

    /// The directory at `path`, checked; `None` if there is none.
    pub fn open(path: &Path) -> Result<Option<StateDir>> {
        let meta = match fs::symlink_metadata(path) {
            Ok(meta) => meta,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(failed(path, "cannot look at it", &e)),
        };
        let euid = rustix::process::geteuid().as_raw();
        if let Some(reason) = refusal(&meta, euid) {
            return Err(refused(path, &reason));
        }
        // A link in the engine's place would lead its files elsewhere.
        let engine = path.join(ENGINE);
        match fs::symlink_metadata(&engine) {
            Ok(meta) => match refusal(&meta, euid) {
                Some(reason) => Err(refused(&engine, &reason)),
                None => Ok(Some(StateDir { path: path.to_owned() })),
            },
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Some(StateDir { path: path.to_owned() })),
            Err(e) => Err(failed(&engine, "cannot look at it", &e)),
        }
    }

    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the metadata engine keeps its files.
    pub fn engine(&self) -> PathBuf {
        self.path.join(ENGINE)
    }

    /// Which volume the directory belongs to; `None` if it says nothing.
    pub fn identity(&self) -> Result<Option<Identity>> {
        let path = self.path.join(IDENTITY);
        let Some(bytes) = read_small(&path)? else { return Ok(None) };
        serde_json::from_slice(&bytes).map(Some).map_err(|e| refused(&path, &format!("it is damaged ({e})")))
    }

    /// Records which volume the directory belongs to; durable when it returns.
    pub fn set_identity(&self, identity: &Identity) -> Result<()> {
        let path = self.path.join(IDENTITY);
        let bytes = serde_json::to_vec_pretty(identity)
            .map_err(|e| refused(&path, &format!("cannot encode it ({e})")))?;
        self.replace(IDENTITY, &bytes)
    }

    /// What [`Self::set_copy`] recorded. A mark that cannot be read is none: it only saves work.
    pub fn copy(&self) -> Result<Option<CopyMark>> {
        let bytes = read_small(&self.path.join(COPY))?;
        Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    }

    /// Records that the engine at this position has nothing that the bucket has not.
    pub fn set_copy(&self, mark: &CopyMark) -> Result<()> {
        let path = self.path.join(COPY);
        let bytes =
            serde_json::to_vec(mark).map_err(|e| refused(&path, &format!("cannot encode it ({e})")))?;
        self.replace(COPY, &bytes)
    }

    /// What [`Self::set_reading`] recorded. What cannot be read is not there: it only saves time.
    pub fn reading(&self) -> Option<ReadingRecord> {
        let bytes = read_small(&self.path.join(READING)).ok().flatten()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// Records what reads from the store have taught.
    pub fn set_reading(&self, record: &ReadingRecord) -> Result<()> {
        let path = self.path.join(READING);
        let bytes =
            serde_json::to_vec(record).map_err(|e| refused(&path, &format!("cannot encode it ({e})")))?;
        self.replace(READING, &bytes)
    }

    /// Whether there is an engine.
    pub fn has_engine(&self) -> Result<bool> {
        let path = self.engine();
        path.try_exists().map_err(|e| failed(&path, "cannot look at it", &e))
    }

    /// An empty place to build an engine in; what an attempt that was cut short left there is removed.
    pub fn restoring(&self) -> Result<PathBuf> {
        let path = self.path.join(RESTORING);
        remove_tree(&path)?;
        Ok(path)
    }

    /// Puts what was built in [`Self::restoring`] in the engine's place, which must be free; durable when it returns.
    pub fn finish_restoring(&self) -> Result<()> {
        let path = self.engine();
        fs::rename(self.path.join(RESTORING), &path)
            .map_err(|e| failed(&path, "cannot put it in place", &e))?;
        self.sync()
    }

    /// Moves the engine out of the way, under a name that says when; where it is now.
    pub fn set_aside(&self, now: SystemTime) -> Result<PathBuf> {
        let stamp = humantime::format_rfc3339_seconds(now).to_string().replace(':', "");
        let engine = self.engine();
        for attempt in 0..100 {
            let name = match attempt {
                0 => format!("{ASIDE}{stamp}"),
                n => format!("{ASIDE}{stamp}-{n}"),
            };
            let path = self.path.join(name);
            if path.try_exists().map_err(|e| failed(&path, "cannot look at it", &e))? {
                continue;
            }
            fs::rename(&engine, &path).map_err(|e| failed(&engine, "cannot move it aside", &e))?;
            self.set_writeback_aside(&path)?;
            self.sync()?;
            return Ok(path);
        }
        Err(refused(&engine, "too many engines were set aside in the same second"))
    }

    /// Files that are to be stored yet are named by inodes of an engine, and go where it goes.
    fn set_writeback_aside(&self, engine: &Path) -> Result<()> {
        let (from, to) = (self.writeback(), engine.with_extension(WRITEBACK));
        match fs::rename(&from, &to) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(failed(&from, "cannot move it aside", &error))
            }
            _ => Ok(()),
        }
    }

    /// Where new files are that are to be stored yet.
    pub fn writeback(&self) -> PathBuf {
        self.path.join(WRITEBACK)
    }

    /// Removes the engine: the bucket has everything that it holds.
    pub fn remove_engine(&self) -> Result<()> {
        remove_file(&self.path.join(COPY))?;
        remove_tree(&self.engine())?;
        self.sync()
    }

    /// Whether a `format` or a `destroy` began here and did not come to its end. Says something only where there is no
    /// superblock: where there is one, the volume is whole.
    pub fn is_incomplete(&self) -> Result<bool> {
        let path = self.path.join(INCOMPLETE);
        path.try_exists().map_err(|e| failed(&path, "cannot look at it", &e))
    }

    /// Says that what is here may be wiped unless there is a superblock; durable when it returns.
    pub fn mark_incomplete(&self) -> Result<()> {
        self.replace(INCOMPLETE, b"")
    }

    /// Takes back [`Self::mark_incomplete`].
    pub fn mark_complete(&self) -> Result<()> {
        remove_file(&self.path.join(INCOMPLETE))?;
        self.sync()
    }

    /// Removes everything this program keeps in the directory but its lock. Returns what is not ours and stays (at most
    /// 100 paths).
    pub fn clear(&self) -> Result<Vec<PathBuf>> {
        remove_tree(&self.engine())?;
        for name in [RESTORING, WRITEBACK, rebuild::STAGING, rebuild::BUILDING] {
            remove_tree(&self.path.join(name))?;
        }
        let entries = fs::read_dir(&self.path).map_err(|e| failed(&self.path, "cannot list it", &e))?;
        for entry in entries {
            let entry = entry.map_err(|e| failed(&self.path, "cannot list it", &e))?;
            if entry.file_name().to_str().is_some_and(|name| name.starts_with(ASIDE)) {
                remove_tree(&entry.path())?;
            }
        }
        // The identity goes after the engine and the marker last: until then the directory is known for what it is.
        for name in [SITE, COPY, READING, crate::scrub::SCRUB, rebuild::REBUILT, IDENTITY, INCOMPLETE] {
            remove_file(&self.path.join(name))?;
            remove_file(&self.path.join(format!("{name}{TEMPORARY}")))?;
        }
        let mut left = Vec::new();
        let entries = fs::read_dir(&self.path).map_err(|e| failed(&self.path, "cannot list it", &e))?;
        for entry in entries {
            let entry = entry.map_err(|e| failed(&self.path, "cannot list it", &e))?;
            let name = entry.file_name();
            if left.len() < 100 && name != crate::holder::LOCK && name != crate::holder::RECORD {
                left.push(entry.path());
            }
        }
        Ok(left)
    }

    /// [`Self::clear`], then the lock, then the directory unless something is left in it. The caller holds the lock.
    pub fn remove(&self) -> Result<Vec<PathBuf>> {
        let left = self.clear()?;
        for name in [crate::holder::RECORD, crate::holder::LOCK] {
            remove_file(&self.path.join(name))?;
        }
        if left.is_empty() {
            fs::remove_dir(&self.path).map_err(|e| failed(&self.path, "cannot remove it", &e))?;
        }
        Ok(left)
    }

    /// Puts `bytes` under `name`, all or nothing and durably.
    pub(crate) fn replace(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.path.join(name);
        let temporary = self.path.join(format!("{name}{TEMPORARY}"));
        remove_file(&temporary)?;
        let write = || -> io::Result<()> {
            let mut file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .custom_flags(OFlags::NOFOLLOW.bits() as i32)
                .open(&temporary)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            fs::rename(&temporary, &path)
        };
        write().map_err(|e| failed(&path, "cannot write it", &e))?;
        self.sync()
    }

    fn sync(&self) -> Result<()> {
        fs::File::open(&self.path)
            .and_then(|dir| dir.sync_all())
            .map_err(|e| failed(&self.path, "cannot sync it", &e))
    }
}

/// Where a volume's state directory may be, the likeliest first; the first is where `format` creates it.
///
/// `local` is the directory of a volume in a local directory, `given` the base that was asked for.
pub fn candidates(local: Option<&Path>, given: Option<&Path>, uuid: Uuid) -> Result<Vec<PathBuf>> {
    let name = uuid.to_string();
    if let Some(base) = given {
        // A daemon changes its working directory.
        let base = std::path::absolute(base).map_err(|e| failed(base, "cannot resolve it", &e))?;
        return Ok(vec![base.join(name)]);
    }
    let base = default_base(&|name| std::env::var_os(name), rustix::process::geteuid().is_root());
    match (local, base) {
        (Some(dir), Some(base)) => Ok(vec![dir.join("meta"), base.join(name)]),
        (Some(dir), None) => Ok(vec![dir.join("meta")]),
        (None, Some(base)) => Ok(vec![base.join(name)]),
        (None, None) => Err(VolumeError::System {
            operation: "choosing a state directory",
            detail: format!("neither HOME nor {STATE_DIR_VARIABLE} is set: give --state-dir"),
        }),
    }
}

/// The base when none is given. Relative paths in the environment are ignored, as the XDG specification asks.
fn default_base(variable: &dyn Fn(&str) -> Option<OsString>, root: bool) -> Option<PathBuf> {
    let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|p| p.is_absolute());
    if let Some(base) = absolute(STATE_DIR_VARIABLE) {
        return Some(base);
    }
    if root {
        return Some(PathBuf::from("/var/lib/headrace"));
    }
    absolute("XDG_STATE_HOME")
        .map(|p| p.join("headrace"))
        .or_else(|| absolute("HOME").map(|p| p.join(".local/state/headrace")))
}

/// Why a directory may not hold a volume's metadata.
fn refusal(meta: &Metadata, euid: u32) -> Option<String> {
    if meta.file_type().is_symlink() {
        return Some("it is a symbolic link: name the directory itself".into());
    }
    if !meta.is_dir() {
        return Some("it is not a directory".into());
    }
    if meta.uid() != euid {
        return Some(format!(
            "it belongs to user {}, but this is user {euid}: run as its owner, or give another --state-dir",
            meta.uid()
        ));
    }
    if meta.mode() & 0o077 != 0 {
        return Some(format!(
            "others may enter it (mode {:04o}) and it holds file contents: run `chmod 700` on it",
            meta.mode() & 0o7777
        ));
    }
    None
}

/// Reads a file of at most [`SMALL_FILE_MAX`] bytes, not through a symbolic link; `None` if it is not there.
pub(crate) fn read_small(path: &Path) -> Result<Option<Vec<u8>>> {
    use std::io::Read;
    let file = OpenOptions::new().read(true).custom_flags(OFlags::NOFOLLOW.bits() as i32).open(path);
    let file = match file {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(failed(path, "cannot open it", &e)),
    };
    let mut bytes = Vec::new();
    file.take(SMALL_FILE_MAX).read_to_end(&mut bytes).map_err(|e| failed(path, "cannot read it", &e))?;
    Ok(Some(bytes))
}

/// Removes a file; succeeds if there is none.
pub(crate) fn remove_file(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(failed(path, "cannot remove it", &e)),
        _ => Ok(()),
    }
}

/// Removes a directory with all that is in it; succeeds if there is none. A symbolic link is removed, not followed.
fn remove_tree(path: &Path) -> Result<()> {
    match fs::symlink_metadata(path) {
        Ok(meta) if !meta.is_dir() => return remove_file(path),
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        _ => {}
    }
    fs::remove_dir_all(path).map_err(|e| failed(path, "cannot remove it", &e))
}

pub(crate) fn failed(path: &Path, what: &str, cause: &io::Error) -> VolumeError {
    refused(path, &format!("{what}: {cause}"))
}

fn refused(path: &Path, reason: &str) -> VolumeError {
    VolumeError::StateDir { path: path.to_owned(), detail: reason.to_owned() }
}

#[cfg(test)]
mod tests;
