//! The bytes of a file: in memory, or in a file of a real disk while the kernel may read them by itself.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use headrace_fuse::Backing;

#[derive(Debug)]
pub(super) enum Contents {
    Memory(Vec<u8>),
    Disk(Backing),
}

impl Contents {
    pub fn len(&self) -> usize {
        match self {
            Contents::Memory(bytes) => bytes.len(),
            Contents::Disk(file) => file.0.metadata().unwrap().len() as usize,
        }
    }

    /// The bytes from `start` to `end`, as far as there are any.
    pub fn read(&self, start: usize, end: usize) -> Vec<u8> {
        let len = self.len();
        let (start, end) = (start.min(len), end.min(len));
        match self {
            Contents::Memory(bytes) => bytes[start.min(end)..end].to_vec(),
            Contents::Disk(file) => {
                let mut bytes = vec![0; end.saturating_sub(start)];
                file.0.read_exact_at(&mut bytes, start as u64).unwrap();
                bytes
            }
        }
    }

    pub fn all(&self) -> Vec<u8> {
        self.read(0, usize::MAX)
    }

    pub fn write(&mut self, start: usize, piece: &[u8]) {
        match self {
            Contents::Memory(bytes) => {
                let end = start + piece.len();
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                bytes[start..end].copy_from_slice(piece);
            }
            Contents::Disk(file) => file.0.write_all_at(piece, start as u64).unwrap(),
        }
    }

    pub fn resize(&mut self, len: usize) {
        match self {
            Contents::Memory(bytes) => bytes.resize(len, 0),
            Contents::Disk(file) => file.0.set_len(len as u64).unwrap(),
        }
    }

    /// Moves them to a new file at `path`, unless they are on disk already.
    pub fn move_to_disk(&mut self, path: &Path) -> Backing {
        match self {
            Contents::Disk(file) => file.clone(),
            Contents::Memory(bytes) => {
                let new = path.with_extension("new");
                let file =
                    File::options().read(true).write(true).create(true).truncate(true).open(&new).unwrap();
                file.write_all_at(bytes, 0).unwrap();
                std::fs::rename(new, path).unwrap();
                let backing = Backing(Arc::new(file));
                *self = Contents::Disk(backing.clone());
                backing
            }
        }
    }

    pub fn on_disk(&self) -> bool {
        matches!(self, Contents::Disk(_))
    }

    /// Moves them back.
    pub fn move_to_memory(&mut self) {
        *self = Contents::Memory(self.all());
    }
}
