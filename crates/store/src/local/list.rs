//! All objects below a prefix, one directory at a time.

use std::sync::Arc;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::files::Files;
use super::{errors, object_meta};
use crate::ObjectMeta;
use crate::error::{ErrorKind, StoreError};
use crate::key::RESERVED;

/// Deepest nesting followed: a key of the longest length cannot be deeper.
const DEEPEST: usize = 400;

/// The objects whose keys begin with a prefix, in no order. What appears or vanishes meanwhile may or may not be seen.
pub(super) struct Objects {
    files: Arc<Files>,
    prefix: String,
    /// Being read: the key of the directory with a slash at the end (empty for the root), and the rest of it.
    open: Vec<(String, Dir)>,
    /// Where to begin, once.
    begin: Option<String>,
}

impl Objects {
    pub(super) fn new(files: Arc<Files>, prefix: &str) -> Objects {
        let begin = prefix.rfind('/').map_or(String::new(), |slash| prefix[..=slash].to_owned());
        Objects { files, prefix: prefix.to_owned(), open: Vec::new(), begin: Some(begin) }
    }

    fn enter(&mut self, key: String) -> Result<(), StoreError> {
        if self.open.len() >= DEEPEST {
            let why = "directories are nested too deeply for a store";
            return Err(StoreError::new(
                ErrorKind::Unsupported,
                "list",
                format!("{}/{key}", self.files.url),
                why,
            ));
        }
        let path = if key.is_empty() { "." } else { key.as_str() };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        match rustix::fs::openat(&self.files.root, path, flags, Mode::empty()).and_then(Dir::new) {
            Ok(directory) => self.open.push((key, directory)),
            // Gone since its name was read, or a prefix with nothing below.
            Err(Errno::NOENT | Errno::NOTDIR) => {}
            Err(errno) => return Err(errors::of_object("list", &self.files.url, &key, errno)),
        }
        Ok(())
    }

    /// The next object; `None` when there is nothing more.
    fn step(&mut self) -> Result<Option<ObjectMeta>, StoreError> {
        if let Some(begin) = self.begin.take() {
            self.enter(begin)?;
        }
        while let Some((parent, directory)) = self.open.last_mut() {
            let entry = match directory.next() {
                Some(Ok(entry)) => entry,
                Some(Err(errno)) => return Err(errors::of_object("list", &self.files.url, parent, errno)),
                None => {
                    self.open.pop();
                    continue;
                }
            };
            // Objects have UTF-8 keys; another name is not one of ours.
            let Ok(name) = entry.file_name().to_str() else { continue };
            if matches!(name, "." | "..") || name.starts_with(RESERVED) {
                continue;
            }
            let key = format!("{parent}{name}");
            let mut kind = entry.file_type();
            let mut stat = None;
            if matches!(kind, FileType::RegularFile | FileType::Unknown) {
                match rustix::fs::statat(&self.files.root, &key, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(found) => {
                        kind = FileType::from_raw_mode(found.st_mode);
                        stat = Some(found);
                    }
                    Err(Errno::NOENT) => continue,
                    Err(errno) => return Err(errors::of_object("list", &self.files.url, &key, errno)),
                }
            }
            match (kind, stat) {
                (FileType::Directory, _) => {
                    let below = format!("{key}/");
                    if below.starts_with(&self.prefix) || self.prefix.starts_with(&below) {
                        self.enter(below)?;
                    }
                }
                (FileType::RegularFile, Some(stat)) if key.starts_with(&self.prefix) => {
                    return Ok(object_meta(key, &stat));
                }
                _ => {}
            }
        }
        Ok(None)
    }
}

impl Iterator for Objects {
    type Item = Result<ObjectMeta, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.step() {
            Ok(found) => found.map(Ok),
            Err(error) => {
                // An incomplete list must end with its error.
                self.open.clear();
                Some(Err(error))
            }
        }
    }
}
