//! The system calls of a store in a directory; each is done in the caller's thread.

use std::fs::DirBuilder;
use std::io::IoSliceMut;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use rustix::buffer::spare_capacity;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::{Errno, ReadWriteFlags};

use super::descriptors::{self, Descriptors};
use super::directories::Directories;
use super::temporary::{self, Finish, TemporaryFile};
use super::{PIECE, errors, object_meta};
use crate::error::{ErrorKind, StoreError};
use crate::{Body, MAX_OBJECT, ObjectMeta, Space, key};

/// Temporary files older than this at open were left by a crash.
const LEFTOVER_AGE: Duration = Duration::from_secs(3600);

/// A directory of this machine, and what is known of it.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) root: OwnedFd,
    pub(super) url: String,
    temporary: OwnedFd,
    descriptors: Descriptors,
    directories: Directories,
}

impl Files {
    /// Opens the store in the directory `path`, which must exist; removes temporary files that a crash left more than an hour ago.
    pub(super) fn open(path: &Path) -> Result<Files, StoreError> {
        let url = path.display().to_string();
        let fail = |errno| errors::of_root("open", &url, errno);
        let root = rustix::fs::openat(
            CWD,
            path,
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .map_err(fail)?;
        let temporary = temporary::open_directory(&root).map_err(fail)?;
        let removed =
            temporary::remove_leftovers(&temporary, SystemTime::now(), LEFTOVER_AGE).map_err(fail)?;
        if removed > 0 {
            tracing::info!(store = url, removed, "removed temporary files of an earlier crash");
        }
        Ok(Files {
            root,
            url,
            temporary,
            descriptors: Descriptors::new(),
            directories: Directories::default(),
        })
    }

    /// Makes the directory `path` with its parents, durably. An existing one is left as it is.
    pub(super) fn create_root(path: &Path) -> Result<(), StoreError> {
        let target = path.display().to_string();
        let fail = |error: std::io::Error| {
            errors::of_root("create", &target, Errno::from_io_error(&error).unwrap_or(Errno::IO))
        };
        let mut missing: Vec<PathBuf> = Vec::new();
        for ancestor in path.ancestors() {
            match ancestor.metadata() {
                Ok(metadata) if metadata.is_dir() => break,
                Ok(_) => return Err(errors::of_root("create", &target, Errno::NOTDIR)),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    missing.push(ancestor.to_owned())
                }
                Err(error) => return Err(fail(error)),
            }
        }
        for directory in missing.iter().rev() {
            match DirBuilder::new().mode(0o700).create(directory) {
                Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(fail(error)),
                _ => {}
            }
            let parent =
                directory.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
            std::fs::File::open(parent).and_then(|parent| parent.sync_all()).map_err(fail)?;
        }
        Ok(())
    }

    fn error(&self, operation: &'static str, key: &str, errno: Errno) -> StoreError {
        errors::of_object(operation, &self.url, key, errno)
    }

    pub(super) fn refuse(
        &self,
        kind: ErrorKind,
        operation: &'static str,
        key: &str,
        why: impl Into<String>,
    ) -> StoreError {
        StoreError::new(kind, operation, format!("{}/{key}", self.url), why)
    }

    fn check(&self, operation: &'static str, key: &str) -> Result<(), StoreError> {
        key::check(key).map_err(|why| self.refuse(ErrorKind::Unsupported, operation, key, why))
    }

    fn descriptor(&self, operation: &'static str, key: &str) -> Result<Arc<OwnedFd>, StoreError> {
        self.check(operation, key)?;
        self.descriptors.get(&self.root, key).map_err(|errno| self.error(operation, key, errno))
    }

    pub(super) fn read_range(&self, key: &str, range: Range<u64>) -> Result<Bytes, StoreError> {
        if range.is_empty() {
            return match range.start == range.end {
                true => Ok(Bytes::new()),
                false => {
                    Err(self.refuse(ErrorKind::Unsupported, "get", key, "the range ends before it begins"))
                }
            };
        }
        self.read_file(key, &*self.descriptor("get", key)?, range)
    }

    /// The bytes of a short range if they are in memory, without waiting for a disk or a network. What is wrong with the request or the object
    /// is for who waits to find out.
    pub(super) fn read_at_once(&self, key: &str, range: &Range<u64>) -> Option<Bytes> {
        let length = range.end.checked_sub(range.start).filter(|length| (1..=PIECE).contains(length))?;
        let file = self.descriptors.known(key)?;
        let mut body = vec![0; length as usize];
        let mut filled = 0;
        while filled < body.len() {
            let rest = &mut [IoSliceMut::new(&mut body[filled..])];
            match rustix::io::preadv2(&*file, rest, range.start + filled as u64, ReadWriteFlags::NOWAIT) {
                Ok(0) => return None,
                Ok(read) => filled += read,
                Err(Errno::INTR) => {}
                // Not in memory, or a file system that cannot tell.
                Err(_) => return None,
            }
        }
        Some(Bytes::from(body))
    }

    pub(super) fn read_whole(&self, key: &str) -> Result<Bytes, StoreError> {
        self.check("get", key)?;
        // Opened anew: what is read whole may have been replaced by another process, of whose doings nobody tells us.
        let file = descriptors::open(&self.root, key).map_err(|errno| self.error("get", key, errno))?;
        let size = self.stat("get", key, rustix::fs::fstat(&file))?.size;
        match size {
            0 => Ok(Bytes::new()),
            _ => self.read_file(key, &file, 0..size),
        }
    }

    fn read_file(&self, key: &str, file: &OwnedFd, range: Range<u64>) -> Result<Bytes, StoreError> {
        let length = range.end - range.start;
        if length > MAX_OBJECT {
            return Err(self.refuse(
                ErrorKind::Unsupported,
                "get",
                key,
                format!("{length} bytes are more than the {MAX_OBJECT} that are read at once"),
            ));
        }
        let length = length as usize;
        let mut body = Vec::with_capacity(length);
        while body.len() < length {
            let offset = range.start + body.len() as u64;
            match rustix::io::pread(file, spare_capacity(&mut body), offset) {
                Ok(0) => {
                    let size = rustix::fs::fstat(file).map_or(0, |stat| stat.st_size);
                    let why = format!(
                        "the object has {size} bytes, but bytes {}..{} were asked for: it was cut short or replaced",
                        range.start, range.end
                    );
                    return Err(self.refuse(ErrorKind::Corrupt, "get", key, why));
                }
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(self.error("get", key, errno)),
            }
        }
        // The allocator may have given more room than asked for.
        body.truncate(length);
        Ok(Bytes::from(body))
    }

    pub(super) fn write(
        &self,
        operation: &'static str,
        key: &str,
        body: &Body,
        finish: Finish,
    ) -> Result<(), StoreError> {
        self.check(operation, key)?;
        let size = body.len() as u64;
        if size > MAX_OBJECT {
            let why = format!("{size} bytes are more than the {MAX_OBJECT} that an object may have");
            return Err(self.refuse(ErrorKind::Unsupported, operation, key, why));
        }
        let fail = |errno| self.error(operation, key, errno);
        let (parent, name) = key.rsplit_once('/').unwrap_or(("", key));
        let parent = self.directories.enter(&self.root, parent).map_err(fail)?;
        if finish == Finish::Absent {
            // Spares writing a body that would not be used; the rename below is what decides.
            self.refuse_existing(operation, key, &parent, name)?;
        }
        let file = TemporaryFile::create(&self.temporary).map_err(fail)?;
        file.write(body).map_err(fail)?;
        match file.rename(&parent, name, finish) {
            Err(Errno::EXIST) => {
                self.refuse_existing(operation, key, &parent, name)?;
                return Err(self.refuse(
                    ErrorKind::AlreadyExists,
                    operation,
                    key,
                    "an object is there already",
                ));
            }
            other => other.map_err(fail)?,
        }
        self.descriptors.forget(key);
        rustix::fs::fsync(&*parent).map_err(fail)
    }

    fn refuse_existing(
        &self,
        operation: &'static str,
        key: &str,
        parent: &OwnedFd,
        name: &str,
    ) -> Result<(), StoreError> {
        match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => {
                Err(self.error(operation, key, Errno::ISDIR))
            }
            Ok(_) => Err(self.refuse(ErrorKind::AlreadyExists, operation, key, "an object is there already")),
            Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(self.error(operation, key, errno)),
        }
    }

    fn stat(
        &self,
        operation: &'static str,
        key: &str,
        stat: rustix::io::Result<Stat>,
    ) -> Result<ObjectMeta, StoreError> {
        let stat = stat.map_err(|errno| self.error(operation, key, errno))?;
        object_meta(key.to_owned(), &stat).ok_or_else(|| self.error(operation, key, Errno::NOENT))
    }

    pub(super) fn head_now(&self, key: &str) -> Result<ObjectMeta, StoreError> {
        self.check("head", key)?;
        self.stat("head", key, rustix::fs::statat(&self.root, key, AtFlags::SYMLINK_NOFOLLOW))
    }

    pub(super) fn delete_now(&self, key: &str) -> Result<(), StoreError> {
        self.check("delete", key)?;
        let result = rustix::fs::unlinkat(&self.root, key, AtFlags::empty());
        self.descriptors.forget(key);
        match result {
            Ok(()) => {
                self.directories.prune(&self.root, key);
                Ok(())
            }
            // A directory is not an object.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::ISDIR) => Ok(()),
            Err(errno) => Err(self.error("delete", key, errno)),
        }
    }

    pub(super) fn space(&self) -> Option<Space> {
        let stat = rustix::fs::fstatvfs(&self.root).ok()?;
        Some(Space {
            total: stat.f_blocks.saturating_mul(stat.f_frsize),
            free: stat.f_bavail.saturating_mul(stat.f_frsize),
        })
    }
}
