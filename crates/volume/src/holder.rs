//! Who has a volume open: an exclusive lock that dies with its process, and a record that says who holds it.
//!
//! The lock alone decides (`flock` on `<state>/lock`, released by the kernel whatever way the process ends). The record
//! is for people: the one of a process that was killed is simply replaced by the next holder.

use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use crate::error::{Result, VolumeError};
use crate::state_dir::{StateDir, failed, read_small, remove_file};

/// The file that is locked. Never replaced while the state directory lives.
pub(crate) const LOCK: &str = "lock";
/// The file that says who holds the lock.
pub(crate) const RECORD: &str = "holder.json";

/// How often taking the lock is tried again when the file is replaced under it, or when the one who has it has not said
/// who he is: he is about to, or was only looking (see [`current_holder`]).
const ATTEMPTS: usize = 8;

/// Time between attempts.
const PAUSE: Duration = Duration::from_millis(20);

/// Who holds a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Process id.
    pub pid: u32,
    /// Host name.
    pub host: String,
    /// Where it is mounted; `None` for a command such as `fsck`.
    pub mountpoint: Option<String>,
    /// Since when, RFC 3339, UTC.
    pub since: String,
    /// Version of the program.
    pub version: String,
}

impl Holder {
    fn this_process(mountpoint: Option<&str>, now: SystemTime) -> Holder {
        Holder {
            pid: std::process::id(),
            host: host_name(),
            mountpoint: mountpoint.map(str::to_owned),
            since: humantime::format_rfc3339_seconds(now).to_string(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    fn unknown() -> Holder {
        Holder { pid: 0, host: host_name(), mountpoint: None, since: String::new(), version: String::new() }
    }

    /// What a person can do to free the volume.
    pub fn remedy(&self) -> String {
        match &self.mountpoint {
            Some(at) => format!("Use it there, or free it with `headrace umount {at}`"),
            None => "Try again when that command has ended".into(),
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.pid == 0 {
            // The lock is taken and the record not written yet: a matter of milliseconds.
            return write!(f, "another process on {} is just opening it", self.host);
        }
        match &self.mountpoint {
            Some(at) => write!(f, "mounted on {at} ")?,
            None => write!(f, "opened ")?,
        }
        write!(f, "by process {} on host {} since {}", self.pid, self.host, self.since)
    }
}

/// The exclusive lock on a volume; freed when dropped.
#[derive(Debug)]
pub struct Lock {
    record: PathBuf,
    // Closing the file frees the lock, so it must outlive the record.
    _file: File,
}

impl Lock {
    /// Takes the lock of `state` at once or fails with [`VolumeError::Held`]. `url` is for the message.
    pub fn acquire(state: &StateDir, url: &str, mountpoint: Option<&str>) -> Result<Lock> {
        let path = state.path().join(LOCK);
        for attempt in 1..=ATTEMPTS {
            let file = open_lock(&path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let record = read_record(state)?;
                    if record.is_none() && attempt < ATTEMPTS {
                        std::thread::sleep(PAUSE);
                        continue;
                    }
                    let holder = Box::new(record.unwrap_or_else(Holder::unknown));
                    return Err(VolumeError::Held { url: url.to_owned(), holder });
                }
                Err(TryLockError::Error(e)) => return Err(failed(&path, "cannot lock it", &e)),
            }
            // A `destroy` may have removed the file between the open and the lock: then it guards nothing.
            if is_same_file(&file, &path) {
                let record = Holder::this_process(mountpoint, SystemTime::now());
                write_record(state, &record)?;
                return Ok(Lock { record: state.path().join(RECORD), _file: file });
            }
        }
        Err(VolumeError::StateDir { path, detail: "it is being replaced over and over".into() })
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // A record that stays is harmless: without the lock it means nothing.
        if let Err(e) = remove_file(&self.record) {
            tracing::warn!(error = %e, "cannot remove the holder record");
        }
    }
}

/// Who holds the volume of this state directory now; `None` if nobody does. Takes the lock (shared) for a moment.
pub fn current_holder(state: &StateDir) -> Result<Option<Holder>> {
    let path = state.path().join(LOCK);
    if !path.try_exists().map_err(|e| failed(&path, "cannot look at it", &e))? {
        return Ok(None);
    }
    let file = open_lock(&path)?;
    match file.try_lock_shared() {
        Ok(()) => Ok(None),
        Err(TryLockError::WouldBlock) => Ok(Some(read_record(state)?.unwrap_or_else(Holder::unknown))),
        Err(TryLockError::Error(e)) => Err(failed(&path, "cannot lock it", &e)),
    }
}

fn open_lock(path: &Path) -> Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(OFlags::NOFOLLOW.bits() as i32)
        .open(path)
        .map_err(|e| failed(path, "cannot open it", &e))
}

fn is_same_file(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::symlink_metadata(path)) {
        (Ok(a), Ok(b)) => a.dev() == b.dev() && a.ino() == b.ino(),
        _ => false,
    }
}

fn write_record(state: &StateDir, holder: &Holder) -> Result<()> {
    let bytes = serde_json::to_vec_pretty(holder)
        .map_err(|e| VolumeError::System { operation: "writing the holder record", detail: e.to_string() })?;
    state.replace(RECORD, &bytes)
}

/// The record as it stands; damage is treated as absence because the record decides nothing. So is one whose process is
/// gone from this host: the holder has the lock and is about to replace it.
fn read_record(state: &StateDir) -> Result<Option<Holder>> {
    let Some(bytes) = read_small(&state.path().join(RECORD))? else { return Ok(None) };
    let holder: Option<Holder> = serde_json::from_slice(&bytes).ok();
    Ok(holder.filter(|h| h.host != host_name() || is_alive(h.pid)))
}

fn is_alive(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    // EPERM means that it is there and belongs to somebody else.
    pid.is_some_and(|p| rustix::process::test_kill_process(p) != Err(rustix::io::Errno::SRCH))
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> (tempfile::TempDir, StateDir) {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::create(&dir.path().join("s")).unwrap();
        (dir, state)
    }

    #[test]
    fn a_second_holder_is_told_who_has_it_and_what_to_do() {
        let (_dir, state) = state();
        let lock = Lock::acquire(&state, "./vol", Some("/mnt/x")).unwrap();
        let message = Lock::acquire(&state, "./vol", None).unwrap_err().to_string();
        for part in [
            "./vol",
            "/mnt/x",
            &std::process::id().to_string(),
            &host_name(),
            "since 20",
            "headrace umount /mnt/x",
        ] {
            assert!(message.contains(part), "{part:?} is missing in {message:?}");
        }
        assert_eq!(current_holder(&state).unwrap().unwrap().mountpoint.as_deref(), Some("/mnt/x"));
        drop(lock);
        assert_eq!(current_holder(&state).unwrap(), None);
        Lock::acquire(&state, "./vol", None).unwrap();
    }

    #[test]
    fn the_record_of_a_dead_holder_is_replaced() {
        let (_dir, state) = state();
        // No process has this id: it is above the largest that the kernel gives out.
        let dead = Holder { pid: 0x3fff_ffff, ..Holder::this_process(Some("/mnt/gone"), SystemTime::now()) };
        write_record(&state, &dead).unwrap();
        assert_eq!(current_holder(&state).unwrap(), None);
        let _lock = Lock::acquire(&state, "u", Some("/mnt/new")).unwrap();
        let holder = current_holder(&state).unwrap().unwrap();
        assert_eq!((holder.pid, holder.mountpoint.as_deref()), (std::process::id(), Some("/mnt/new")));
    }

    #[test]
    fn a_damaged_record_does_not_stop_anyone() {
        let (_dir, state) = state();
        std::fs::write(state.path().join(RECORD), b"{nonsense").unwrap();
        let _lock = Lock::acquire(&state, "u", None).unwrap();
        std::fs::write(state.path().join(RECORD), b"\xff").unwrap();
        let message = Lock::acquire(&state, "u", None).unwrap_err().to_string();
        assert!(message.contains("just opening it"), "{message}");
    }

    #[test]
    fn a_lock_on_a_removed_file_does_not_count() {
        let (_dir, state) = state();
        let old = Lock::acquire(&state, "u", None).unwrap();
        std::fs::remove_file(state.path().join(LOCK)).unwrap();
        let new = Lock::acquire(&state, "u", None).unwrap();
        assert!(!is_same_file(&old._file, &state.path().join(LOCK)));
        assert!(is_same_file(&new._file, &state.path().join(LOCK)));
    }
}
