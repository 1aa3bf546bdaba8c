//! The data file, read beside the mapping.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use crate::KvError;

pub(in super::super) struct DataFile<'f> {
    file: &'f File,
    /// For messages.
    path: &'f str,
}

impl<'f> DataFile<'f> {
    pub(in super::super) fn new(file: &'f File, path: &'f str) -> DataFile<'f> {
        DataFile { file, path }
    }

    /// Reads all of `buffer` at `offset`; a file that ends before is damaged.
    pub(super) fn read(&self, buffer: &mut [u8], offset: u64) -> Result<(), KvError> {
        self.file.read_exact_at(buffer, offset).map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof => self.damaged("it ends before its contents do"),
            _ => KvError::Io { path: self.path.into(), detail: format!("cannot read at {offset}: {e}") },
        })
    }

    pub(super) fn len(&self) -> Result<u64, KvError> {
        let metadata = self.file.metadata();
        let len = metadata.map(|m| m.len());
        len.map_err(|e| KvError::Io { path: self.path.into(), detail: format!("cannot stat: {e}") })
    }

    pub(super) fn damaged(&self, detail: &str) -> KvError {
        KvError::Corrupt(format!("{}: {detail}", self.path))
    }
}
