//! One staged file.

use std::fs::{File, FileTimes};
use std::io;
use std::sync::Arc;

use headrace_cache::disk::is_open_elsewhere;
use headrace_kv::CommitSeq;
use headrace_meta::{Attr, Time};

use super::directory::{self, Directory, Name};
use super::life::{Life, Stamp};

/// A file whose bytes are in a local file, and not or not all in the store.
#[derive(Debug)]
pub(crate) struct Staged {
    pub(super) name: Name,
    /// While somebody has it open.
    pub(crate) file: Option<Arc<File>>,
    /// When it was looked at last.
    pub(super) last: Stamp,
    /// What it looked like when it was new: then its times are those that metadata has.
    untouched: Option<Stamp>,
    pub(super) life: Life,
    /// Its name is durable.
    pub(super) named: bool,
    /// Somebody may have a mapping of it: it was open for reading.
    pub(super) mappable: bool,
    /// Some of its bytes may have been committed.
    pub(super) committed: bool,
    /// Where metadata was when storing it last ended.
    pub(super) stored_at: CommitSeq,
    /// Bytes counted for it in [`super::Staging`].
    pub(super) counted: u64,
}

impl Staged {
    /// A new file with nothing in it.
    pub(super) fn new(name: Name, file: File) -> io::Result<Staged> {
        let stamp = directory::stamp(&file)?;
        Ok(Staged {
            name,
            file: Some(Arc::new(file)),
            last: stamp,
            untouched: Some(stamp),
            life: Life::new(Some(stamp)),
            named: false,
            mappable: false,
            committed: false,
            stored_at: CommitSeq(0),
            counted: 0,
        })
    }

    /// One that an earlier mount has left, of which some may be `committed`.
    pub(super) fn found(name: Name, stamp: Stamp, committed: bool) -> Staged {
        let life = Life::new(None);
        Staged {
            name,
            file: None,
            last: stamp,
            untouched: None,
            life,
            named: true,
            mappable: true,
            committed,
            stored_at: CommitSeq(0),
            counted: 0,
        }
    }

    /// The local file, opened if it is not.
    pub(super) fn open(&mut self, directory: &Directory) -> io::Result<Arc<File>> {
        if let Some(file) = &self.file {
            return Ok(Arc::clone(file));
        }
        let file = Arc::new(directory.open_file(self.name)?);
        self.file = Some(Arc::clone(&file));
        Ok(file)
    }

    /// Nobody needs the local file for now.
    pub(super) fn close(&mut self) {
        if !self.life.is_open() && !self.life.is_being_stored() {
            self.file = None;
        }
    }

    /// Whether somebody has a mapping of it and does not have it open.
    pub(super) fn is_mapped(&self, file: &File) -> bool {
        // Who is passed through has it open as well.
        self.mappable && !self.life.is_open() && is_open_elsewhere(file)
    }

    /// What it looks like now.
    pub(super) fn look(&mut self, directory: &Directory) -> io::Result<Stamp> {
        self.last = match &self.file {
            Some(file) => directory::stamp(file)?,
            None => directory.stamp(self.name)?,
        };
        Ok(self.last)
    }

    /// When its bytes were last changed, if ever.
    pub(super) fn mtime(&self) -> Option<Time> {
        self.untouched.is_none_or(|untouched| !untouched.is_as(&self.last)).then_some(self.last.mtime)
    }

    /// Corrects attributes that metadata answered.
    pub(super) fn apply(&self, attr: &mut Attr) {
        attr.size = self.last.size;
        attr.allocated = self.last.allocated;
        if let Some(mtime) = self.mtime() {
            attr.mtime = mtime;
            attr.ctime = attr.ctime.max(mtime);
        }
    }

    /// Sets the time of its last change, which changes nothing else.
    pub(super) fn set_mtime(&mut self, mtime: Time, directory: &Directory) -> io::Result<()> {
        let before = self.look(directory)?;
        let file = self.open(directory)?;
        file.set_times(FileTimes::new().set_modified(mtime.into()))?;
        let after = self.look(directory)?;
        self.life.restamped(&before, after);
        self.close();
        Ok(())
    }
}
