//! From what a user names (a path, a mount point, a URL) to the daemon that serves it.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Component, Path};

use headrace_fuse::mount::{self, MountEntry};

use super::{registry, runtime_dir};
use crate::cli::url;
use crate::daemon::registry::Record;
use crate::failure::{Context, Exit, Failure};
use crate::output;

/// Every mount whose daemon answers.
pub fn living(runtime_dir: Option<&Path>) -> Vec<Record> {
    let mut records = registry::records(&runtime_dir::all(runtime_dir));
    records.retain(answers);
    records
}

/// Whether a daemon listens there, of whatever user.
fn answers(record: &Record) -> bool {
    match UnixStream::connect(&record.socket) {
        Ok(_) => true,
        Err(e) => e.kind() == io::ErrorKind::PermissionDenied,
    }
}

/// The mount that serves the file at `path`, and the file's inode there. Symbolic links are not followed.
pub fn by_path(path: &Path, runtime_dir: Option<&Path>) -> Result<(Record, u64), Failure> {
    let meta = std::fs::symlink_metadata(path).map_err(|e| {
        let failure = Failure::new(format!("cannot look at {}", output::path(path))).because(&e);
        match e.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => failure.exit(Exit::NotFound),
            io::ErrorKind::PermissionDenied => failure.exit(Exit::Denied),
            io::ErrorKind::NotConnected | io::ErrorKind::ConnectionAborted => failure
                .advise("The process that served this mount is gone: mount the volume again on the same directory.")
                .exit(Exit::NotFound),
            _ => failure,
        }
    })?;
    let dev = device(rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev()));
    match living(runtime_dir).into_iter().find(|r| r.dev == dev) {
        Some(record) => Ok((record, meta.ino())),
        None => Err(match mount::containing(path) {
            Ok(Some(entry)) => not_ours(path, &entry),
            _ => Failure::new(format!("{} is not on a mounted headrace volume", output::path(path)))
                .exit(Exit::NotFound),
        }),
    }
}

/// The mount on which a path is, or was, and the path's names from its root. What is there of the directories above the last name may
/// have symbolic links in it; what is not is taken as it stands.
pub fn by_old_path(path: &Path, runtime_dir: Option<&Path>) -> Result<(Record, Vec<Vec<u8>>), Failure> {
    let cannot = || format!("cannot look at {}", output::path(path));
    let absolute = std::path::absolute(path).context(cannot)?;
    let mut names: Vec<Vec<u8>> = Vec::new();
    let mut at = absolute.as_path();
    // The last name is what was deleted, whatever has it now; but a mount point is what is mounted on it.
    while mount::find(at).is_none() {
        let (Some(parent), Some(name)) = (at.parent(), at.file_name()) else { break };
        names.insert(0, name.as_bytes().to_vec());
        at = parent;
        if at.canonicalize().is_ok_and(|at| at.is_dir()) {
            break;
        }
    }
    if absolute.components().any(|part| part == Component::ParentDir) {
        return Err(Failure::usage(format!(
            "{} has \"..\" in it: give the path without",
            output::path(path)
        )));
    }
    let (record, _) = by_path(&at.canonicalize().context(cannot)?, runtime_dir)?;
    let real = at.canonicalize().context(cannot)?;
    let top = record.mountpoint.canonicalize().context(cannot)?;
    let Ok(above) = real.strip_prefix(&top) else {
        return Err(Failure::new(format!("{} is not below {}", output::path(&real), output::path(&top)))
            .advise("Give the path as it was below the directory on which the volume was mounted.")
            .exit(Exit::NotFound));
    };
    let mut all: Vec<Vec<u8>> = above.iter().map(|name| name.as_bytes().to_vec()).collect();
    all.append(&mut names);
    Ok((record, all))
}

/// The mount at exactly `mountpoint`, which may be dead.
pub fn entry(mountpoint: &Path) -> Result<MountEntry, Failure> {
    mount::find(mountpoint).ok_or_else(|| {
        let failure =
            Failure::new(format!("nothing is mounted on {}", output::path(mountpoint))).exit(Exit::NotFound);
        match mount::containing(mountpoint) {
            Ok(Some(entry)) if entry.is_headrace() => failure.advise(format!(
                "It lies on the volume that is mounted on {}.",
                output::path(&entry.mount_point)
            )),
            _ => failure.advise("\"headrace status\" lists what is mounted."),
        }
    })
}

/// The record of what is mounted at `entry`; `None` if its daemon does not answer.
pub fn by_entry(entry: &MountEntry, runtime_dir: Option<&Path>) -> Option<Record> {
    let dev = device(entry.major, entry.minor);
    living(runtime_dir).into_iter().find(|r| r.dev == dev)
}

/// The daemon of what was mounted at `mountpoint` and is not any more.
pub fn ending(mountpoint: &Path, runtime_dir: Option<&Path>) -> Option<Record> {
    let at = mountpoint.canonicalize().or_else(|_| std::path::absolute(mountpoint)).ok()?;
    living(runtime_dir).into_iter().find(|record| record.dev.is_empty() && record.mountpoint == at)
}

/// The daemon of what is mounted at exactly `mountpoint`.
pub fn by_mountpoint(mountpoint: &Path, runtime_dir: Option<&Path>) -> Result<Record, Failure> {
    let entry = entry(mountpoint)?;
    by_entry(&entry, runtime_dir).ok_or_else(|| not_ours(mountpoint, &entry))
}

/// The daemon of a volume given by URL, or of what is mounted on a directory; `None` if `target` is neither.
pub fn by_target(target: &str, runtime_dir: Option<&Path>) -> Result<Option<Record>, Failure> {
    let wanted = url::normalise(target);
    let found = living(runtime_dir).into_iter().find(|r| url::normalise(&r.url) == wanted);
    if found.is_some() || target.contains("://") {
        return Ok(found);
    }
    match mount::find(Path::new(target)) {
        Some(entry) if entry.is_headrace() => by_mountpoint(Path::new(target), runtime_dir).map(Some),
        _ => Ok(None),
    }
}

/// Why no daemon was found for a path on `entry`.
fn not_ours(path: &Path, entry: &MountEntry) -> Failure {
    let shown = output::path(path);
    if entry.is_headrace() {
        return Failure::new(format!("the process that serves {shown} does not answer: it is gone, or another user's"))
            .advise(format!(
                "As root or the user who mounted it: mount the volume again on {at}, or run \"headrace umount {at}\".",
                at = output::path(&entry.mount_point)
            ))
            .exit(Exit::NotFound);
    }
    Failure::new(format!(
        "{shown} is not on a mounted headrace volume, but on {}",
        output::name(entry.fs_type.as_bytes())
    ))
    .exit(Exit::NotFound)
}

/// A device number as records write it.
pub fn device(major: u32, minor: u32) -> String {
    format!("{major}:{minor}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_that_are_not_ours_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let failure = by_path(Path::new("/proc/self/status"), Some(dir.path())).unwrap_err();
        assert_eq!(failure.message(), "/proc/self/status is not on a mounted headrace volume, but on proc");
        assert_eq!(failure.exit_code(), Exit::NotFound);
        assert_eq!(by_path(Path::new("/no/such"), None).unwrap_err().exit_code(), Exit::NotFound);
        let failure = by_mountpoint(dir.path(), Some(dir.path())).unwrap_err();
        assert!(failure.message().starts_with("nothing is mounted on"), "{failure}");
        assert_eq!(by_target(dir.path().to_str().unwrap(), Some(dir.path())), Ok(None));
    }
}
