//! The register of mounts: a small file each, by which commands find the daemon.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::runtime_dir;
use crate::failure::{Context, Failure};

/// Largest record that is read, bytes.
const MAX_RECORD: u64 = 64 << 10;
/// Sockets younger than this are never swept away.
const YOUNG: Duration = Duration::from_secs(60);
/// Most records that are read from one directory.
const MAX_RECORDS: usize = 4096;

/// A mount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The daemon's process id.
    pub pid: u32,
    /// Where the volume is mounted.
    pub mountpoint: PathBuf,
    /// Device number of the mount, as `MAJOR:MINOR` in decimal; empty once it is unmounted.
    pub dev: String,
    /// Where the volume is, without credentials.
    pub url: String,
    /// Which volume it is.
    pub uuid: Uuid,
    /// What the volume is called.
    pub name: String,
    /// The daemon's control socket.
    pub socket: PathBuf,
    /// Where the daemon logs; `None` for standard error.
    pub log_file: Option<PathBuf>,
    /// When it was mounted, RFC 3339, UTC.
    pub since: String,
}

/// A record on disk; removed when dropped.
#[derive(Debug)]
pub struct Registration {
    path: PathBuf,
    record: Record,
}

impl Drop for Registration {
    fn drop(&mut self) {
        // The volume is free by now: the next daemon may have registered already. What stays behind by mistake is
        // recognised as stale, since nobody answers on its socket.
        if read(&self.path).is_some_and(|r| r.pid == self.record.pid) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Registration {
    /// Registers a mount. The directory exists.
    pub fn new(dir: &Path, record: Record) -> Result<Registration, Failure> {
        let path = dir.join(format!("{}.json", record.uuid));
        write(&path, &record)?;
        Ok(Registration { path, record })
    }

    /// The mount is gone, the daemon is not yet: its device number may soon be another mount's.
    pub fn unmounted(&mut self) -> Result<(), Failure> {
        self.record.dev.clear();
        write(&self.path, &self.record)
    }
}

/// The control socket of a volume's daemon.
pub fn socket_path(dir: &Path, uuid: Uuid) -> PathBuf {
    dir.join(format!("{uuid}.sock"))
}

/// The socket of a volume's daemon where metrics can be asked for.
pub fn metrics_socket_path(dir: &Path, uuid: Uuid) -> PathBuf {
    dir.join(format!("{uuid}.metrics.sock"))
}

/// Writes a record, all or nothing.
fn write(path: &Path, record: &Record) -> Result<(), Failure> {
    let what = || format!("cannot register the mount in {}", crate::output::path(path));
    let bytes = serde_json::to_vec_pretty(record).context(what)?;
    let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
    let _ = fs::remove_file(&temporary);
    let write = || -> io::Result<()> {
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        file.write_all(&bytes)?;
        fs::rename(&temporary, path)
    };
    write().context(what)
}

/// Removes what daemons that were killed have left in `dir`: sockets on which nobody listens, and their records.
pub fn sweep(dir: &Path) {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let sockets = entries.map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "sock"));
    for socket in sockets.take(MAX_RECORDS) {
        // A new one is bound a moment before anybody listens on it.
        let age = fs::symlink_metadata(&socket).ok().and_then(|m| m.modified().ok()?.elapsed().ok());
        let dead =
            || UnixStream::connect(&socket).is_err_and(|e| e.kind() == io::ErrorKind::ConnectionRefused);
        if age.is_some_and(|age| age > YOUNG) && dead() {
            let _ = fs::remove_file(socket.with_extension("json"));
            let _ = fs::remove_file(&socket);
        }
    }
}

/// Every record in `dirs`, living or not. What cannot be read or makes no sense is left out.
pub fn records(dirs: &[PathBuf]) -> Vec<Record> {
    let mut records = Vec::new();
    for dir in dirs {
        if runtime_dir::owner(dir).is_none() {
            continue;
        }
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        let files = entries.map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "json"));
        for path in files.take(MAX_RECORDS) {
            if let Some(mut record) = read(&path) {
                // Never the path that the record names: it could point anywhere.
                record.socket = socket_path(dir, record.uuid);
                records.push(record);
            }
        }
    }
    records.sort_by(|a, b| a.mountpoint.cmp(&b.mountpoint));
    records
}

fn read(path: &Path) -> Option<Record> {
    let flags = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
    let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let mut bytes = Vec::new();
    file.take(MAX_RECORD).read_to_end(&mut bytes).ok()?;
    let record: Record = serde_json::from_slice(&bytes).ok()?;
    (path.file_stem()? == record.uuid.to_string().as_str()).then_some(record)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(n: u128) -> Record {
        Record {
            pid: 1,
            mountpoint: format!("/mnt/{n}\n").into(),
            dev: "0:45".into(),
            url: "s3://b/p".into(),
            uuid: Uuid::from_u128(n),
            name: "v".into(),
            socket: "/elsewhere.sock".into(),
            log_file: None,
            since: String::new(),
        }
    }

    #[test]
    fn records_are_found_until_they_are_dropped() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("run");
        runtime_dir::create(&dir).unwrap();
        let first = Registration::new(&dir, record(1)).unwrap();
        let second = Registration::new(&dir, record(2)).unwrap();
        fs::write(dir.join("broken.json"), "{").unwrap();
        fs::copy(dir.join(format!("{}.json", Uuid::from_u128(1))), dir.join("alias.json")).unwrap();
        let found = records(std::slice::from_ref(&dir));
        assert_eq!(found.iter().map(|r| r.uuid.as_u128()).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(found[0].socket, socket_path(&dir, Uuid::from_u128(1)));
        let mut first = first;
        first.unmounted().unwrap();
        assert_eq!(records(std::slice::from_ref(&dir))[0].dev, "");
        drop(first);
        assert_eq!(records(std::slice::from_ref(&dir)).len(), 1);
        drop(second);
        assert!(records(&[dir]).is_empty());
    }

    #[test]
    fn the_next_daemons_record_is_left_alone() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("run");
        runtime_dir::create(&dir).unwrap();
        let old = Registration::new(&dir, record(1)).unwrap();
        let new = Registration::new(&dir, Record { pid: 2, ..record(1) }).unwrap();
        drop(old);
        assert_eq!(records(std::slice::from_ref(&dir)).len(), 1);
        drop(new);
        assert!(records(&[dir]).is_empty());
    }

    #[test]
    fn what_the_dead_left_is_swept_away() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("run");
        runtime_dir::create(&dir).unwrap();
        let bind = |n| std::os::unix::net::UnixListener::bind(socket_path(&dir, Uuid::from_u128(n))).unwrap();
        let age = |n| {
            let hour_ago = std::time::SystemTime::now() - Duration::from_secs(3600);
            let since = rustix::fs::Timespec {
                tv_sec: hour_ago.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as i64,
                tv_nsec: 0,
            };
            let times = rustix::fs::Timestamps { last_access: since, last_modification: since };
            let path = socket_path(&dir, Uuid::from_u128(n));
            rustix::fs::utimensat(rustix::fs::CWD, path, &times, rustix::fs::AtFlags::empty()).unwrap();
        };
        let registrations: Vec<_> = (1..=3).map(|n| Registration::new(&dir, record(n)).unwrap()).collect();
        let living = bind(1);
        // Dead, but one of them only just.
        drop((bind(2), bind(3)));
        age(1);
        age(2);
        sweep(&dir);
        let found = records(std::slice::from_ref(&dir));
        assert_eq!(found.iter().map(|r| r.uuid.as_u128()).collect::<Vec<_>>(), [1, 3]);
        drop((living, registrations));
    }

    #[test]
    fn a_directory_that_others_can_enter_is_not_believed() {
        use std::os::unix::fs::PermissionsExt;
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("run");
        runtime_dir::create(&dir).unwrap();
        let _registration = Registration::new(&dir, record(1)).unwrap();
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(records(&[dir]).is_empty());
    }
}
