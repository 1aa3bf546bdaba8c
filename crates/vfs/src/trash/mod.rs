//! What was deleted and is kept: how much there is, what it is called, and how it comes back.

pub(crate) mod shown;

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use headrace_layout::InodeNo;
use headrace_meta::{Attr, Kept, Kind, MetaError, Restored, Revival, Time, Trashed, Unlinked};
use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;

use crate::error::Error;
use crate::vfs::Vfs;

/// Deleted files listed at a time.
const PAGE: usize = 1024;
/// Paths of directories remembered while a list is made.
const PATHS: usize = 4096;

/// How much is in the trash. What is deleted and restored is counted as it happens, and everything anew now and then.
#[derive(Default)]
pub(crate) struct Trash {
    /// Held by who takes out of it.
    lock: Mutex<()>,
    sums: Mutex<Sums>,
    /// Names of what was listed, for those who remove what they list.
    places: Mutex<HashMap<InodeNo, (InodeNo, Vec<u8>)>>,
    /// See [`Vfs::take_renewed`].
    renewed: Mutex<Vec<InodeNo>>,
}

#[derive(Clone, Copy, Default)]
struct Sums {
    files: i64,
    bytes: i64,
    /// Of these, what happened since the last time that all was counted began.
    since: (i64, i64),
}

/// Everything being counted.
pub(crate) struct Count {
    began: Time,
    files: i64,
    bytes: i64,
}

impl Count {
    pub(crate) fn add(&mut self, kept: &Kept, bytes: u64) {
        // What was deleted meanwhile is counted as it happens.
        if kept.deleted < self.began {
            self.files += 1;
            self.bytes = self.bytes.saturating_add(i64::try_from(bytes).unwrap_or(i64::MAX));
        }
    }
}

impl Trash {
    pub(crate) fn lock(&self) -> MutexGuard<'_, ()> {
        self.lock.lock()
    }

    /// Begins to count everything.
    pub(crate) fn count(&self) -> Count {
        self.sums.lock().since = (0, 0);
        Count { began: Time::now(), files: 0, bytes: 0 }
    }

    pub(crate) fn counted(&self, count: &Count) {
        let mut sums = self.sums.lock();
        sums.files = count.files.saturating_add(sums.since.0);
        sums.bytes = count.bytes.saturating_add(sums.since.1);
    }

    /// A listing may have to go on behind this one, when it is gone.
    fn remember(&self, kept: &Kept) {
        let mut places = self.places.lock();
        if places.len() >= shown::PLACES {
            places.clear();
        }
        places.insert(kept.ino, (kept.parent, kept.name.clone()));
    }

    fn remembered(&self, dir: InodeNo, ino: InodeNo) -> Option<Vec<u8>> {
        let places = self.places.lock();
        places.get(&ino).filter(|(parent, _)| *parent == dir).map(|(_, name)| name.clone())
    }

    fn change(&self, files: i64, bytes: u64) {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX).saturating_mul(files.signum());
        let mut sums = self.sums.lock();
        sums.files += files;
        sums.bytes = sums.bytes.saturating_add(bytes);
        sums.since = (sums.since.0 + files, sums.since.1.saturating_add(bytes));
    }

    pub(crate) fn figures(&self, keep: Option<Duration>) -> TrashFigures {
        let sums = *self.sums.lock();
        TrashFigures {
            keep_secs: keep.map(|time| time.as_secs_f64()),
            files: u64::try_from(sums.files).unwrap_or(0),
            bytes: u64::try_from(sums.bytes).unwrap_or(0),
        }
    }
}

/// How much is in the trash.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct TrashFigures {
    /// For how long what is deleted now is kept, seconds; `None`: not at all.
    pub keep_secs: Option<f64>,
    /// Deleted files, links and directories that are kept.
    pub files: u64,
    /// Bytes of data that they hold.
    pub bytes: u64,
}

/// Something deleted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Deleted {
    /// The path that it had, from the root of the volume; `None` if its directory is gone for good.
    pub path: Option<Vec<u8>>,
    /// When, until when, and its name.
    pub kept: Kept,
    /// Its attributes.
    pub attr: Attr,
}

/// What is to come back.
#[derive(Clone, Debug)]
pub struct Wanted<'a> {
    /// The path that it had: its names from the root.
    pub path: &'a [&'a [u8]],
    /// Which of several, by its inode; `None`: the one deleted last.
    pub version: Option<u64>,
    /// Where to; `None`: where it was.
    pub to: Option<&'a [&'a [u8]]>,
}

/// What came back.
#[derive(Clone, Debug)]
pub struct Restoration {
    /// It; `None`: a directory that is there, which has back what was deleted in it.
    pub kept: Option<Kept>,
    /// What it is.
    pub attr: Attr,
    /// Everything, with what is in it and the directories above it.
    pub restored: Restored,
    /// How many others were deleted under the same path.
    pub others: u64,
}

/// A name that there is again: the kernel may believe that there is none.
#[derive(Clone, Copy, Debug)]
pub struct Came<'a> {
    /// Its directory.
    pub parent: InodeNo,
    /// The name.
    pub name: &'a [u8],
    /// Its inode.
    pub ino: InodeNo,
    /// It is a directory that the kernel still holds as one that was removed.
    pub held: bool,
}

/// Why nothing came back.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// Nothing that was deleted under that path is kept.
    #[error("nothing of that name is in the trash")]
    NotThere,
    /// No such version of it.
    #[error("version {0} of it is not in the trash")]
    NoVersion(u64),
    /// Something has the name.
    #[error("the name is taken")]
    Taken,
    /// The directory that it is to come back into does not exist.
    #[error("there is no such directory to restore into")]
    NoDirectory,
    /// What else can happen.
    #[error(transparent)]
    Failed(#[from] Error),
}

impl From<MetaError> for RestoreError {
    fn from(error: MetaError) -> Self {
        RestoreError::Failed(error.into())
    }
}

impl Vfs {
    /// Whether what lost its last name is kept. A file that is open and empty is not: programs make temporary files so.
    pub(crate) fn is_kept(&self, unlinked: &Unlinked) -> bool {
        let Some(bytes) = unlinked.kept else { return false };
        let temporary = unlinked.kind == Kind::File
            && bytes == 0
            && !self.inodes.is_unpinned(unlinked.ino)
            && self.attributes(unlinked.ino).is_ok_and(|attr| attr.size == 0);
        if temporary && self.meta().let_go(unlinked.ino).unwrap_or(false) {
            return false;
        }
        self.trash.change(1, bytes);
        true
    }

    /// Everything deleted that is kept, in the order of inodes, until `visit` declines one. Blocks.
    ///
    /// # Errors
    /// When metadata cannot be read.
    pub fn deleted(&self, visit: &mut dyn FnMut(Deleted) -> bool) -> Result<(), Error> {
        let mut paths: HashMap<InodeNo, Option<Vec<u8>>> = HashMap::new();
        let mut after = Some(InodeNo(0));
        while let Some(from) = after {
            let (page, next) = self.meta().nameless(from, PAGE)?;
            for (kept, attr) in page.into_iter().filter_map(|nameless| nameless.kept) {
                if paths.len() >= PATHS {
                    paths.clear();
                }
                let above = match paths.get(&kept.parent) {
                    Some(known) => known.clone(),
                    None => {
                        let path = self.meta().path_of(kept.parent)?;
                        paths.insert(kept.parent, path.clone());
                        path
                    }
                };
                let path = above.map(|mut path| {
                    if !path.ends_with(b"/") {
                        path.push(b'/');
                    }
                    path.extend_from_slice(&kept.name);
                    path
                });
                if !visit(Deleted { path, kept, attr }) {
                    return Ok(());
                }
            }
            after = next;
        }
        Ok(())
    }

    /// Brings back what was deleted, with everything that was deleted in it and the directories above it that are missing. If there is a
    /// directory under the path, and neither a version nor another name is wanted, it gets what was deleted in it, below it, and in
    /// directories that had its path before. `came` gets each name that the kernel may know of. Blocks.
    ///
    /// # Errors
    /// When nothing came back; and when metadata fails on the way, with what is in a directory partly there.
    pub fn restore_deleted(
        &self,
        wanted: &Wanted<'_>,
        came: &mut dyn FnMut(Came<'_>),
    ) -> Result<Restoration, RestoreError> {
        self.writable()?;
        // Nothing of it expires meanwhile.
        let _settled = self.trash.lock();
        let versions = self.meta().deleted_as(wanted.path)?;
        if wanted.version.is_none() && wanted.to.is_none() {
            match self.directory(wanted.path) {
                Ok(dir) => return self.restore_into(dir, versions, came),
                Err(RestoreError::NoDirectory) => {}
                Err(error) => return Err(error),
            }
        }
        let others = versions.len().saturating_sub(1) as u64;
        let chosen = match wanted.version {
            None => versions.into_iter().next().ok_or(RestoreError::NotThere)?,
            Some(version) => {
                if versions.is_empty() {
                    return Err(RestoreError::NotThere);
                }
                let of = |trashed: &Trashed| trashed.kept.ino.0 == version;
                versions.into_iter().find(of).ok_or(RestoreError::NoVersion(version))?
            }
        };
        let Trashed { kept, above, into, .. } = chosen;
        let revivals = match wanted.to {
            None => {
                let mut revivals = above;
                revivals.push(Revival { ino: kept.ino, parent: into, name: kept.name.clone() });
                revivals
            }
            Some(to) => {
                let (name, directories) = to.split_last().ok_or(RestoreError::Taken)?;
                let parent = self.directory(directories)?;
                vec![Revival { ino: kept.ino, parent, name: name.to_vec() }]
            }
        };
        let mut restored = Restored::default();
        let attr = self.bring_back(revivals, &mut restored, came).map_err(|error| match error {
            MetaError::Exists => RestoreError::Taken,
            MetaError::NotFound | MetaError::NotDirectory => RestoreError::NoDirectory,
            other => other.into(),
        })?;
        Ok(Restoration { kept: Some(kept), attr, restored, others })
    }

    /// Brings back what was deleted in a directory that is there, of whose path `same` was deleted. The trash is locked.
    fn restore_into(
        &self,
        dir: InodeNo,
        same: Vec<Trashed>,
        came: &mut dyn FnMut(Came<'_>),
    ) -> Result<Restoration, RestoreError> {
        let others = same.len() as u64;
        let was_directory = |found: Trashed| (found.attr.kind == Kind::Directory).then_some(found.kept.ino);
        let before = same.into_iter().filter_map(was_directory).collect();
        let restored = self.meta().revive_into(dir, before, &mut |revival, attr| {
            self.came_back(revival, attr, came);
        })?;
        if restored.files + restored.directories == 0 {
            let stays = restored.taken > 0 || others > 0;
            return Err(if stays { RestoreError::Taken } else { RestoreError::NotThere });
        }
        Ok(Restoration { kept: None, attr: self.meta().getattr(dir)?, restored, others })
    }

    /// Gives names back, and all that was deleted in the last if it is a directory; the attributes of that. The trash is locked.
    fn bring_back(
        &self,
        revivals: Vec<Revival>,
        restored: &mut Restored,
        came: &mut dyn FnMut(Came<'_>),
    ) -> Result<Attr, MetaError> {
        let attrs = self.meta().revive(&revivals)?;
        for (revival, attr) in revivals.iter().zip(&attrs) {
            restored.add(attr);
            self.came_back(revival, attr, came);
        }
        let attr = attrs.into_iter().next_back().ok_or(MetaError::NotFound)?;
        if attr.kind == Kind::Directory {
            let below = self.meta().revive_into(attr.ino, Vec::new(), &mut |revival, attr| {
                self.came_back(revival, attr, came);
            })?;
            *restored = restored.plus(&below);
        }
        Ok(attr)
    }

    /// The directory at a path.
    fn directory(&self, path: &[&[u8]]) -> Result<InodeNo, RestoreError> {
        let mut at = InodeNo::ROOT;
        for name in path {
            let attr = match self.meta().lookup(at, name) {
                Ok(attr) if attr.kind == Kind::Directory => attr,
                Ok(_) | Err(MetaError::NotFound) => return Err(RestoreError::NoDirectory),
                Err(error) => return Err(error.into()),
            };
            at = attr.ino;
        }
        Ok(at)
    }

    fn came_back(&self, revival: &Revival, attr: &Attr, came: &mut dyn FnMut(Came<'_>)) {
        self.trash.change(-1, attr.allocated);
        if let Some(inode) = self.inodes.find(revival.ino) {
            inode.unlinked.store(false, Ordering::Relaxed);
        }
        let known = |ino| ino == InodeNo::ROOT || self.lookups.any(ino);
        if known(revival.parent) || known(revival.ino) {
            let held = attr.kind == Kind::Directory && known(revival.ino);
            came(Came { parent: revival.parent, name: &revival.name, ino: revival.ino, held });
        }
    }

    /// Lets go of everything that is kept; how much that was, files and bytes. Blocks.
    ///
    /// # Errors
    /// When the volume is read-only, or metadata fails.
    pub fn empty_trash(&self) -> Result<TrashFigures, Error> {
        self.writable()?;
        let before = self.trash.figures(None);
        self.let_go_until(Time { secs: i64::MAX, nanos: 0 })?;
        Ok(before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(deleted: Time) -> Kept {
        Kept { ino: InodeNo(2), deleted, until: deleted, parent: InodeNo::ROOT, name: b"a".to_vec() }
    }

    #[test]
    fn figures_follow_what_happens_while_all_is_counted() {
        let trash = Trash::default();
        trash.change(1, 10);
        trash.change(1, 5);
        let long_ago = Time::default();
        let mut count = trash.count();
        count.add(&kept(long_ago), 10);
        trash.change(1, 7);
        count.add(&kept(Time::now().after(Duration::from_secs(1))), 7);
        trash.change(-1, 5);
        trash.counted(&count);
        let figures = trash.figures(Some(Duration::from_millis(1500)));
        assert_eq!(figures, TrashFigures { keep_secs: Some(1.5), files: 1, bytes: 12 });
    }
}
