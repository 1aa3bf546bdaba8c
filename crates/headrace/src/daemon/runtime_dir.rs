//! The directory in which mounts are registered and controlled.
//!
//! Whoever can write there can pretend to be a daemon, so it belongs to the user who mounts, and to nobody else.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::failure::{Context, Exit, Failure};

/// Where this user's mounts are registered. Not checked here whether it exists.
pub fn own(given: Option<&Path>) -> PathBuf {
    if let Some(dir) = given {
        return std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    }
    let uid = rustix::process::geteuid();
    if uid.is_root() {
        return PathBuf::from("/run/headrace");
    }
    match std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|p| p.is_absolute()) {
        Some(base) => base.join("headrace"),
        // Without a login session; the owner check below keeps others out.
        None => std::env::temp_dir().join(format!("headrace-{}", uid.as_raw())),
    }
}

/// Where this user looks for mounts: root looks at everybody's.
pub fn all(given: Option<&Path>) -> Vec<PathBuf> {
    let mut dirs = vec![own(given)];
    if given.is_none() && rustix::process::geteuid().is_root() {
        let sessions = fs::read_dir("/run/user").into_iter().flatten().flatten();
        dirs.extend(sessions.map(|e| e.path().join("headrace")).take(4096));
    }
    dirs
}

/// Creates the directory where it is missing (mode 0700) and checks it.
pub fn create(dir: &Path) -> Result<(), Failure> {
    let what = || format!("cannot create the runtime directory {}", crate::output::path(dir));
    if let Some(parent) = dir.parent() {
        fs::create_dir_all(parent).context(what)?;
    }
    match DirBuilder::new().mode(0o700).create(dir) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(Failure::new(what()).because(&e)),
        _ => {}
    }
    let uid = rustix::process::geteuid().as_raw();
    match refusal(dir, uid).context(what)? {
        None => Ok(()),
        Some(reason) => {
            Err(Failure::new(format!("the runtime directory {} {reason}", crate::output::path(dir)))
                .advise("Remove it, or choose another with --runtime-dir.")
                .exit(Exit::Denied))
        }
    }
}

/// Why `dir` is not fit; `None` if it is.
fn refusal(dir: &Path, uid: u32) -> io::Result<Option<&'static str>> {
    let meta = fs::symlink_metadata(dir)?;
    Ok(if !meta.is_dir() {
        Some("is not a directory")
    } else if meta.uid() != uid {
        Some("belongs to another user")
    } else if meta.mode() & 0o077 != 0 {
        Some("can be entered by other users (its mode should be 0700)")
    } else {
        None
    })
}

/// The owner of a directory whose records can be trusted to be that owner's own.
pub fn owner(dir: &Path) -> Option<u32> {
    let uid = fs::symlink_metadata(dir).ok()?.uid();
    refusal(dir, uid).ok()?.is_none().then_some(uid)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn it_is_private_and_open_ones_are_refused() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("run/headrace");
        create(&dir).unwrap();
        create(&dir).unwrap();
        assert_eq!(fs::metadata(&dir).unwrap().mode() & 0o777, 0o700);

        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(create(&dir).unwrap_err().message().contains("other users"));
        assert_eq!(owner(&dir), None);
    }

    #[test]
    fn links_and_strangers_are_refused() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("real");
        create(&dir).unwrap();
        let link = base.path().join("link");
        symlink(&dir, &link).unwrap();
        assert!(create(&link).is_err());
        let uid = fs::metadata(&dir).unwrap().uid();
        assert_eq!(refusal(&dir, uid + 1).unwrap(), Some("belongs to another user"));
    }
}
