//! A local file that the kernel reads by itself while the file it stands for is changed.
//!
//! Whoever has it open goes on reading it, so every change goes into it before the call that makes it is answered. From the first change on
//! it is no entry of the cache any more: it has no name, and ends with its last reader.
//!
//! One kind of change is not a call: who has the file open for reading and writing beside such a reader may map it, and the kernel maps the
//! local file. So at its flush, fsync and close the local file is compared with what is known to be in it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use headrace_cache::disk::{GROUP, Pass, sum_of};

use crate::error::{Error, Result};
use crate::handles::Backing;

/// What the kernel reads of a file by itself.
pub(crate) struct Passing {
    pass: Pass,
    changed: bool,
    /// Somebody may have a mapping of it to write through.
    mapped_to_write: bool,
    /// Groups that were written since they were compared.
    written: BTreeSet<u64>,
    /// What groups added up to that are not any more as they were when they came.
    sums: BTreeMap<u64, u32>,
}

impl Passing {
    pub(crate) fn new(pass: Pass) -> Passing {
        Passing {
            pass,
            changed: false,
            mapped_to_write: false,
            written: BTreeSet::new(),
            sums: BTreeMap::new(),
        }
    }

    /// It is open for reading and writing too.
    pub(crate) fn may_be_mapped_to_write(&mut self) {
        self.mapped_to_write = true;
    }

    /// Whether that was ever so.
    pub(crate) fn is_mapped_to_write(&self) -> bool {
        self.mapped_to_write
    }

    /// Whether somebody still reads it although it is not open any more: by a mapping, which outlives what it was made from.
    pub(crate) fn is_mapped(&self) -> bool {
        self.pass.is_open_elsewhere()
    }

    /// For the kernel.
    pub(crate) fn backing(&self) -> Backing {
        Backing(Arc::clone(self.pass.file()))
    }

    fn file(&mut self) -> &File {
        if !std::mem::replace(&mut self.changed, true) {
            self.pass.entry().detach();
        }
        self.pass.file()
    }

    fn note(&mut self, range: Range<u64>) {
        self.written.extend(range.start / GROUP..range.end.div_ceil(GROUP));
    }

    /// Bytes are written. Blocks as long as writing to a local file does.
    ///
    /// # Errors
    /// The disk is full, or fails: then the write is refused, for its readers would not see it.
    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.note(offset..offset + bytes.len() as u64);
        self.file().write_all_at(bytes, offset).map_err(|error| unwritable(&error))
    }

    /// The file has another length.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub(crate) fn resize(&mut self, size: u64) -> Result<()> {
        let before = self.file().metadata().map_err(|error| unwritable(&error))?.len();
        if before == size {
            return Ok(());
        }
        self.note(before.min(size) / GROUP * GROUP..size.max(before.min(size) + 1));
        self.file().set_len(size).map_err(|error| unwritable(&error))
    }

    /// The bytes of a group of the file, which has `size` bytes, if somebody may have changed them by a mapping since they were
    /// compared last. Blocks.
    ///
    /// # Errors
    /// The local file cannot be read.
    pub(crate) fn mapped_changes(&mut self, group: u64, size: u64) -> Result<Option<Bytes>> {
        let start = group * GROUP;
        let mut bytes = vec![0; usize::try_from(GROUP.min(size.saturating_sub(start))).unwrap_or(0)];
        self.pass.file().read_exact_at(&mut bytes, start).map_err(|error| unreadable(&error))?;
        let sum = sum_of(group, &bytes);
        let known = self.sums.get(&group).copied().or_else(|| self.pass.entry().sum_of_group(group));
        let written = self.written.remove(&group);
        if known == Some(sum) && !written {
            return Ok(None);
        }
        // It is no copy of what is in the store any more.
        let _ = self.file();
        self.sums.insert(group, sum);
        Ok(Some(Bytes::from(bytes)))
    }
}

fn unwritable(error: &io::Error) -> Error {
    Error::Internal(format!(
        "others read this file from the cache, and it cannot be written there ({error}); try again when they have closed it"
    ))
}

fn unreadable(error: &io::Error) -> Error {
    Error::Internal(format!(
        "what was written through a mapping of this file is in the cache and cannot be read there ({error})"
    ))
}
