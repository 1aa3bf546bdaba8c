//! The regular files below what was named, as the user who asks may see them.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::failure::Failure;

/// Directories, and files with several names, that are remembered; of more, some may be told twice.
const MOST_REMEMBERED: usize = 1 << 22;

/// A regular file that the user may read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Where it was found.
    pub path: PathBuf,
    /// The mount it is on, by its number.
    pub mount: usize,
    /// Its inode there.
    pub ino: u64,
    /// Its length.
    pub bytes: u64,
}

/// What a walk comes across.
#[derive(Debug)]
pub enum Found {
    /// A file.
    File(File),
    /// Something that cannot be dealt with.
    Failed {
        /// What.
        path: PathBuf,
        /// Why.
        why: String,
    },
}

/// Which mount a device is, by a number, or why it is none; the path is one on it.
pub type MountOf<'a> = dyn FnMut(&Path, u64) -> Result<usize, Failure> + 'a;

/// Who is told what was found, and says whether to go on.
pub type Tell<'a> = dyn FnMut(Found) -> ControlFlow<()> + 'a;

/// Walks, and remembers across walks what it has told.
#[derive(Debug, Default)]
pub struct Walk {
    /// Directories, files with several names, and files that were named, by device and inode.
    told: HashSet<(u64, u64)>,
}

/// A directory that is being walked, and those in it that are not yet.
struct Level {
    path: PathBuf,
    left: Vec<OsString>,
}

impl Walk {
    /// Tells all files at and below `path`. Symbolic links are not followed, other file systems not entered.
    pub fn walk(&mut self, path: &Path, mount_of: &mut MountOf<'_>, tell: &mut Tell<'_>) -> ControlFlow<()> {
        let meta = match fs::symlink_metadata(path) {
            Ok(meta) => meta,
            Err(error) => return tell(failed(path, &error)),
        };
        let mount = match mount_of(path, meta.dev()) {
            Ok(mount) => mount,
            Err(failure) => {
                return tell(Found::Failed { path: path.to_owned(), why: failure.message().to_owned() });
            }
        };
        if meta.is_dir() {
            return self.tree(path, &meta, mount, tell);
        }
        if !meta.is_file() {
            let what = if meta.is_symlink() { "a symbolic link, which is not followed" } else { "no file" };
            return tell(Found::Failed { path: path.to_owned(), why: format!("it is {what}") });
        }
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = fs::metadata(directory.unwrap_or(Path::new(".")));
        if directory.is_ok_and(|directory| self.told.contains(&(directory.dev(), directory.ino()))) {
            // All that is in there was told.
            return ControlFlow::Continue(());
        }
        self.file(path.to_owned(), &meta, true, mount, tell)
    }

    fn tree(&mut self, root: &Path, meta: &Metadata, mount: usize, tell: &mut Tell<'_>) -> ControlFlow<()> {
        let left = self.directory(root, meta, mount, tell)?;
        let dev = meta.dev();
        let mut levels = vec![Level { path: root.to_owned(), left }];
        while let Some(level) = levels.last_mut() {
            let Some(name) = level.left.pop() else {
                levels.pop();
                continue;
            };
            let path = level.path.join(name);
            let left = match fs::symlink_metadata(&path) {
                // Something else may have been put in its place since its name was read.
                Ok(meta) if meta.is_dir() && meta.dev() == dev => {
                    self.directory(&path, &meta, mount, tell)?
                }
                Ok(_) => continue,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => {
                    tell(failed(&path, &error))?;
                    continue;
                }
            };
            if !left.is_empty() {
                levels.push(Level { path, left });
            }
        }
        ControlFlow::Continue(())
    }

    /// Tells the files in a directory; the directories in it are left to the caller.
    fn directory(
        &mut self,
        path: &Path,
        meta: &Metadata,
        mount: usize,
        tell: &mut Tell<'_>,
    ) -> ControlFlow<(), Vec<OsString>> {
        let mut directories = Vec::new();
        if !self.is_new(meta) {
            return ControlFlow::Continue(directories);
        }
        let dev = meta.dev();
        let entries = match fs::read_dir(path) {
            Ok(entries) => entries,
            Err(error) => {
                tell(failed(path, &error))?;
                return ControlFlow::Continue(directories);
            }
        };
        for entry in entries {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    tell(failed(path, &error))?;
                    break;
                }
            };
            match entry.metadata() {
                Ok(meta) if meta.dev() != dev => {}
                Ok(meta) if meta.is_dir() => directories.push(entry.file_name()),
                Ok(meta) if meta.is_file() => self.file(entry.path(), &meta, false, mount, tell)?,
                Ok(_) => {}
                // It went since the directory was read.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => tell(failed(&entry.path(), &error))?,
            }
        }
        ControlFlow::Continue(directories)
    }

    fn file(
        &mut self,
        path: PathBuf,
        meta: &Metadata,
        named: bool,
        mount: usize,
        tell: &mut Tell<'_>,
    ) -> ControlFlow<()> {
        let new = if named || meta.nlink() > 1 {
            self.is_new(meta)
        } else {
            !self.told.contains(&(meta.dev(), meta.ino()))
        };
        if !new {
            return ControlFlow::Continue(());
        }
        // The kernel asks no more than this of somebody who reads; to open each file would cost much more.
        match access(&path, Access::READ_OK) {
            Ok(()) => tell(Found::File(File { path, mount, ino: meta.ino(), bytes: meta.len() })),
            Err(error) => tell(failed(&path, &io::Error::from(error))),
        }
    }

    /// Whether this was not met before. It is remembered, if there is room.
    fn is_new(&mut self, meta: &Metadata) -> bool {
        let one = (meta.dev(), meta.ino());
        if self.told.len() < MOST_REMEMBERED { self.told.insert(one) } else { !self.told.contains(&one) }
    }
}

fn failed(path: &Path, error: &io::Error) -> Found {
    Found::Failed { path: path.to_owned(), why: error.to_string() }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// Names of files, and names and reasons of failures, in order of names.
    fn walk_all(paths: &[&Path]) -> (Vec<String>, Vec<(String, String)>) {
        let (mut files, mut failures) = (Vec::new(), Vec::new());
        let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
        let mut walk = Walk::default();
        for path in paths {
            let _ = walk.walk(path, &mut |_, _| Ok(0), &mut |found| {
                match found {
                    Found::File(file) => {
                        let meta = fs::symlink_metadata(&file.path).unwrap();
                        assert_eq!((file.ino, file.bytes), (meta.ino(), meta.len()));
                        files.push(name(&file.path));
                    }
                    Found::Failed { path, why } => failures.push((name(&path), why)),
                }
                ControlFlow::Continue(())
            });
        }
        files.sort();
        failures.sort();
        (files, failures)
    }

    #[test]
    fn files_are_told_once_wherever_they_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("a/b/c")).unwrap();
        fs::create_dir(at("empty")).unwrap();
        for (name, size) in [("one", 1), ("a/two", 2), ("a/b/c/three", 3), ("a/zero", 0)] {
            fs::write(at(name), vec![0; size]).unwrap();
        }
        fs::hard_link(at("one"), at("a/also-one")).unwrap();
        symlink(at("a"), at("link-to-directory")).unwrap();
        symlink(at("one"), at("link-to-file")).unwrap();
        symlink(".", at("a/loop")).unwrap();
        let (files, failures) = walk_all(&[dir.path()]);
        assert_eq!(failures, []);
        assert_eq!(files.len(), 4, "{files:?}");
        assert!(files.contains(&"one".into()) != files.contains(&"also-one".into()), "{files:?}");
        for name in ["two", "three", "zero"] {
            assert!(files.contains(&name.to_owned()), "{files:?}");
        }
        let two = at("a/two");
        let (again, _) = walk_all(&[&two, &two, &at("one"), &at("a/also-one"), dir.path()]);
        assert_eq!(again, ["one", "three", "two", "zero"]);
        for below in [at("a"), at("a/two")] {
            let overlap = [below, dir.path().to_owned()];
            assert_eq!(walk_all(&[&overlap[1], &overlap[0]]).0.len(), 4);
            assert_eq!(walk_all(&[&overlap[0], &overlap[1]]).0.len(), 4);
        }
    }

    #[test]
    fn what_cannot_be_read_is_said_and_the_rest_goes_on() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("fine"), b"x").unwrap();
        symlink("fine", at("link")).unwrap();
        let (files, failures) = walk_all(&[&at("missing"), &at("link"), Path::new("/dev/null"), dir.path()]);
        assert_eq!(files, ["fine"]);
        let whys: Vec<&str> = failures.iter().map(|(_, why)| why.as_str()).collect();
        assert!(whys[0].contains("symbolic link") && whys[2].contains("no file"), "{failures:?}");
        assert_eq!(failures[1].0, "missing");
    }

    #[test]
    fn what_the_user_may_not_read_is_not_told() {
        // In a thread of its own, which has no more rights than anybody.
        let checked = std::thread::spawn(|| {
            if rustix::process::geteuid().is_root() {
                let nobody = rustix::process::Uid::from_raw(65534);
                rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            }
            unreadable();
        });
        checked.join().unwrap();
    }

    fn unreadable() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("fine"), b"x").unwrap();
        fs::write(at("secret"), b"x").unwrap();
        fs::set_permissions(at("secret"), fs::Permissions::from_mode(0o000)).unwrap();
        fs::create_dir(at("closed")).unwrap();
        fs::set_permissions(at("closed"), fs::Permissions::from_mode(0o000)).unwrap();
        let (files, failures) = walk_all(&[dir.path()]);
        fs::set_permissions(at("closed"), fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(files, ["fine"]);
        assert_eq!(failures.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["closed", "secret"]);
    }

    #[test]
    fn names_are_bytes() {
        use std::ffi::OsStr;
        use std::os::unix::ffi::OsStrExt;
        let dir = tempfile::tempdir().unwrap();
        let name = dir.path().join(OsStr::from_bytes(b"new\nline \xff"));
        fs::write(&name, b"x").unwrap();
        let mut found = Vec::new();
        let _ = Walk::default().walk(dir.path(), &mut |_, _| Ok(3), &mut |what| {
            found.push(what);
            ControlFlow::Continue(())
        });
        assert!(
            matches!(&found[..], [Found::File(file)] if file.path == name && file.mount == 3),
            "{found:?}"
        );
    }

    #[test]
    fn other_file_systems_are_not_entered() {
        let (dev, shm) = (fs::metadata("/dev").unwrap().dev(), fs::metadata("/dev/shm").unwrap().dev());
        assert_ne!(dev, shm, "this test wants /dev/shm to be mounted");
        let other = tempfile::tempdir_in("/dev/shm").unwrap();
        fs::write(other.path().join("elsewhere"), b"x").unwrap();
        let (files, _) = walk_all(&[Path::new("/dev")]);
        assert!(!files.contains(&"elsewhere".to_owned()), "{files:?}");
        assert_eq!(walk_all(&[other.path()]).0, ["elsewhere"]);
    }

    #[test]
    fn a_place_that_is_no_mount_of_ours_is_said() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), b"x").unwrap();
        let mut found = Vec::new();
        let _ = Walk::default().walk(dir.path(), &mut |_, _| Err(Failure::new("not ours")), &mut |what| {
            found.push(what);
            ControlFlow::Continue(())
        });
        assert!(matches!(&found[..], [Found::Failed { why, .. }] if why == "not ours"), "{found:?}");
    }

    #[test]
    fn a_walk_ends_when_nobody_listens() {
        let dir = tempfile::tempdir().unwrap();
        for n in 0..10 {
            fs::create_dir(dir.path().join(n.to_string())).unwrap();
            fs::write(dir.path().join(format!("{n}/file")), b"x").unwrap();
        }
        let mut told = 0;
        let flow = Walk::default().walk(dir.path(), &mut |_, _| Ok(0), &mut |_| {
            told += 1;
            if told == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert!(flow.is_break());
        assert_eq!(told, 3);
    }
}
