//! A volume in a temporary directory, as a file system without a kernel.
#![allow(dead_code, missing_docs)]

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use headrace_layout::InodeNo;
use headrace_store::{Location, StoreOptions};
use headrace_vfs::{Attr, Caller, Error, FileId, Vfs, VfsOptions};
use headrace_volume::{FormatOptions, OpenOptions, Volume};
use tokio::runtime::Runtime;

pub const CALLER: Caller = Caller { uid: 0, gid: 0, umask: 0o022 };
pub const READ_WRITE: i32 = libc::O_RDWR;

pub struct Rig {
    pub runtime: Runtime,
    pub dir: tempfile::TempDir,
    pub options: VfsOptions,
}

impl Rig {
    pub fn new(format: &FormatOptions, options: VfsOptions) -> Rig {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("runtime");
        let dir = tempfile::tempdir().expect("temporary directory");
        let rig = Rig { runtime, dir, options };
        let (location, store) = (rig.location(), StoreOptions::default());
        rig.runtime.block_on(headrace_volume::format(&location, &store, None, format)).expect("format");
        rig
    }

    pub fn root(&self) -> std::path::PathBuf {
        self.dir.path().join("volume")
    }

    fn location(&self) -> Location {
        self.root().to_str().expect("UTF-8 path").parse().expect("location")
    }

    pub fn open(&self) -> Arc<Vfs> {
        let volume =
            self.runtime.block_on(Volume::open(&self.location(), &OpenOptions::default())).expect("open");
        Vfs::start(volume, self.options.clone(), self.runtime.handle().clone()).expect("start")
    }

    pub fn close(&self, vfs: Arc<Vfs>) {
        self.runtime.block_on(vfs.shutdown()).expect("shutdown");
    }

    /// Closes, checks everything against everything, and opens again.
    pub fn reopen_checked(&self, vfs: Arc<Vfs>) -> Arc<Vfs> {
        self.close(vfs);
        self.check();
        self.open()
    }

    pub fn check(&self) {
        let volume =
            self.runtime.block_on(Volume::open(&self.location(), &OpenOptions::default())).expect("open");
        let mut problems = Vec::new();
        let options = headrace_volume::FsckOptions { data: true };
        self.runtime
            .block_on(headrace_volume::fsck(&volume, options, &|_| (), &mut |p| {
                problems.push(format!("{p:?}"))
            }))
            .expect("fsck runs");
        assert!(problems.is_empty(), "fsck: {problems:#?}");
        self.runtime.block_on(volume.close()).expect("close");
    }
}

/// One open file.
pub struct File<'a> {
    pub rig: &'a Rig,
    pub vfs: Arc<Vfs>,
    pub ino: InodeNo,
    pub file: FileId,
}

impl<'a> File<'a> {
    pub fn create(rig: &'a Rig, vfs: &Arc<Vfs>, name: &str) -> File<'a> {
        let (attr, file, _) =
            vfs.create(InodeNo::ROOT, name.as_bytes(), 0o644, READ_WRITE, &CALLER).expect("create");
        File { rig, vfs: Arc::clone(vfs), ino: attr.ino, file }
    }

    pub fn open(rig: &'a Rig, vfs: &Arc<Vfs>, name: &str) -> File<'a> {
        let attr = vfs.lookup(InodeNo::ROOT, name.as_bytes()).expect("lookup");
        let (file, _) = vfs.open(attr.ino, READ_WRITE).expect("open");
        File { rig, vfs: Arc::clone(vfs), ino: attr.ino, file }
    }

    pub fn try_write(&self, offset: u64, data: &[u8]) -> Result<u32, Error> {
        self.rig.runtime.block_on(self.vfs.write(
            self.ino,
            self.file,
            offset,
            Bytes::copy_from_slice(data),
            false,
        ))
    }

    pub fn write(&self, offset: u64, data: &[u8]) {
        assert_eq!(self.try_write(offset, data).expect("write"), data.len() as u32);
    }

    pub fn read(&self, offset: u64, len: u32) -> Vec<u8> {
        self.try_read(offset, len).expect("read")
    }

    pub fn try_read(&self, offset: u64, len: u32) -> Result<Vec<u8>, Error> {
        Ok(self.rig.runtime.block_on(self.vfs.read(self.ino, self.file, offset, len))?.concat())
    }

    pub fn flush(&self) -> Result<(), Error> {
        self.rig.runtime.block_on(self.vfs.flush(self.ino, self.file))
    }

    pub fn fsync(&self) -> Result<(), Error> {
        self.rig.runtime.block_on(self.vfs.fsync(self.ino, self.file, false))
    }

    pub fn truncate(&self, size: u64) -> Attr {
        self.rig
            .runtime
            .block_on(self.vfs.setattr(self.ino, Default::default(), Some(size)))
            .expect("truncate")
    }

    pub fn fallocate(&self, offset: u64, len: u64, mode: i32) -> Result<(), Error> {
        self.rig.runtime.block_on(self.vfs.fallocate(self.ino, self.file, offset, len, mode))
    }

    pub fn size(&self) -> u64 {
        self.vfs.getattr(self.ino).expect("getattr").size
    }

    pub fn release(self) {
        self.rig.runtime.block_on(self.vfs.release(self.ino, self.file)).expect("release");
    }
}

/// Bytes that differ at every offset.
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut x = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..len)
        .map(|_| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x as u8
        })
        .collect()
}

pub fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}
