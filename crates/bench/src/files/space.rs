//! The directory in which a benchmark works, and its end.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::error::{Error, On};

/// What the working directories' names begin with.
const PREFIX: &str = "headrace-bench-";

/// Small files in one directory.
pub const PER_DIRECTORY: u32 = 1_000;

/// A fresh directory with one for each thread in it. It goes with all that is in it, at the latest when this is dropped.
#[derive(Debug)]
pub struct Space {
    root: PathBuf,
    threads: u32,
    removed: bool,
}

impl Space {
    /// Makes one in `parent`, with a name that ends in `tag`.
    pub fn create(parent: &Path, tag: u64, threads: u32) -> Result<Space, Error> {
        let root = parent.join(format!("{PREFIX}{tag:016x}"));
        fs::create_dir(&root).on("create", &root)?;
        let space = Space { root, threads, removed: false };
        for thread in 0..threads {
            let path = space.thread(thread);
            fs::create_dir(&path).on("create", &path)?;
        }
        Ok(space)
    }

    /// The directory itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    fn thread(&self, thread: u32) -> PathBuf {
        self.root.join(format!("t{thread:03}"))
    }

    /// A thread's large file.
    pub fn big(&self, thread: u32) -> PathBuf {
        self.thread(thread).join("big")
    }

    /// The directory of a thread's small file.
    pub fn directory(&self, thread: u32, number: u32) -> PathBuf {
        self.thread(thread).join(format!("d{:05}", number / PER_DIRECTORY))
    }

    /// The name of a small file.
    pub fn small_name(&self, number: u32) -> OsString {
        format!("f{number:08}").into()
    }

    /// A thread's small file.
    pub fn small(&self, thread: u32, number: u32) -> PathBuf {
        self.directory(thread, number).join(self.small_name(number))
    }

    /// The same after it got another name.
    pub fn renamed(&self, thread: u32, number: u32) -> PathBuf {
        self.directory(thread, number).join(format!("r{number:08}"))
    }

    /// Deletes all of it. What could not be deleted is named, with `after`, what had gone wrong before.
    pub fn remove(mut self, after: Option<Error>) -> Result<(), Error> {
        self.removed = true;
        match (self.delete(), after) {
            (Ok(()), None) => Ok(()),
            (Ok(()), Some(error)) => Err(error),
            (Err(source), after) => {
                Err(Error::Left { path: self.root.clone(), source, after: after.map(Box::new) })
            }
        }
    }

    fn delete(&self) -> io::Result<()> {
        // Each thread's part by a thread of its own: over a network, one file after the other takes long.
        std::thread::scope(|scope| {
            for thread in 0..self.threads {
                let path = self.thread(thread);
                // What is left undone here, for whatever reason, is done, or fails, below.
                let _ = std::thread::Builder::new().spawn_scoped(scope, move || fs::remove_dir_all(path));
            }
        });
        match fs::remove_dir_all(&self.root) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result,
        }
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        if !self.removed {
            let _ = self.delete();
        }
    }
}

/// What earlier benchmarks, killed or still running, have in `parent`.
pub fn others(parent: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(parent) else { return Vec::new() };
    let is_ours = |name: &OsString| {
        name.to_str()
            .and_then(|name| name.strip_prefix(PREFIX))
            .is_some_and(|tag| tag.len() == 16 && tag.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    entries.flatten().filter(|entry| is_ours(&entry.file_name())).map(|entry| entry.path()).take(10).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_space_goes_with_all_that_is_in_it() {
        let parent = tempfile::tempdir().unwrap();
        let space = Space::create(parent.path(), 1, 2).unwrap();
        fs::write(space.big(1), "x").unwrap();
        fs::create_dir(space.directory(0, 0)).unwrap();
        fs::write(space.small(0, 0), "x").unwrap();
        fs::write(space.root().join("not of us"), "x").unwrap();
        assert_eq!(others(parent.path()), [space.root()]);
        drop(space);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
        Space::create(parent.path(), 1, 2).unwrap().remove(None).unwrap();
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_is_there_already_is_not_taken_over() {
        let parent = tempfile::tempdir().unwrap();
        let first = Space::create(parent.path(), 7, 1).unwrap();
        assert!(matches!(Space::create(parent.path(), 7, 1), Err(Error::Io { .. })));
        assert!(first.root().exists());
    }

    #[test]
    fn an_earlier_failure_is_not_forgotten() {
        let parent = tempfile::tempdir().unwrap();
        let space = Space::create(parent.path(), 1, 1).unwrap();
        assert!(space.remove(Some(Error::Stopped)).unwrap_err().is_stop());
    }
}
