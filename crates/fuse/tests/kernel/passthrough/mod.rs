//! Files that the kernel reads by itself.

mod cost;
mod modes;
mod reading;
mod refused;
mod released;
mod storm;
mod writing;

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use tempfile::TempDir;

use crate::memory::MemFs;
use crate::memory::opens::{Choice, Way};
use crate::support::{Mounted, eventually};

/// A mount, and the directory of a real disk that its backing files are in.
struct Passed {
    mounted: Mounted,
    _disk: TempDir,
}

impl Passed {
    fn new() -> Self {
        let disk = tempfile::tempdir().unwrap();
        let fs = MemFs::with_backing(disk.path());
        Passed { mounted: Mounted::with(fs, ""), _disk: disk }
    }

    /// With one file in it.
    fn with(name: &str, data: &[u8]) -> Self {
        let passed = Self::new();
        fs::write(passed.path(name), data).unwrap();
        passed.left(name, 0);
        passed
    }

    /// Waits until so many open files of one are left. A child that another test has just started may keep files open for a moment.
    fn left(&self, name: &str, opens: usize) {
        eventually("what was closed is released", || self.fs().opens(name) == opens);
    }

    fn fs(&self) -> &MemFs {
        &self.mounted.fs
    }

    fn path(&self, name: &str) -> PathBuf {
        self.mounted.path(name)
    }

    /// Opens a file for reading in a given way.
    fn open(&self, name: &str, way: Way) -> std::io::Result<File> {
        self.fs().choose(name, Choice::Always(way));
        File::open(self.path(name))
    }

    /// The same for reading and writing.
    fn open_writable(&self, name: &str, way: Way) -> std::io::Result<File> {
        self.fs().choose(name, Choice::Always(way));
        File::options().read(true).write(true).open(self.path(name))
    }

    fn reads(&self) -> usize {
        self.fs().counts.reads.load(Ordering::SeqCst)
    }

    fn writes(&self) -> usize {
        self.fs().counts.writes.load(Ordering::SeqCst)
    }
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i.wrapping_mul(31) ^ (i >> 8)) as u8).collect()
}

/// All that can be read from an open file.
fn all(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; 8 << 20];
    let mut len = 0;
    loop {
        match file.read_at(&mut bytes[len..], len as u64).unwrap() {
            0 => break,
            more => len += more,
        }
    }
    bytes.truncate(len);
    bytes
}
