//! A real volume in a directory, as a file system without a kernel.
#![allow(dead_code, reason = "each benchmark takes what it needs")]

use std::sync::Arc;

use bytes::Bytes;
use headrace_layout::InodeNo;
use headrace_store::{Location, StoreOptions};
use headrace_vfs::{Caller, FileId, Vfs, VfsOptions};
use headrace_volume::{FormatOptions, OpenOptions, Volume};
use tempfile::TempDir;
use tokio::runtime::Runtime;

const CALLER: Caller = Caller { uid: 0, gid: 0, umask: 0o022 };

/// The file system and all that it stands on.
pub struct Rig {
    pub vfs: Arc<Vfs>,
    pub runtime: Runtime,
    _dir: TempDir,
}

impl Rig {
    /// A new volume with the defaults, open.
    pub fn new() -> Rig {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let dir = tempfile::tempdir().expect("a temporary directory");
        let location: Location =
            dir.path().join("volume").to_str().expect("UTF-8").parse().expect("a location");
        let vfs = runtime.block_on(async {
            headrace_volume::format(&location, &StoreOptions::default(), None, &FormatOptions::default())
                .await
                .expect("format");
            let volume = Volume::open(&location, &OpenOptions::default()).await.expect("open");
            Vfs::start(volume, VfsOptions::default(), runtime.handle().clone()).expect("start")
        });
        Rig { vfs, runtime, _dir: dir }
    }

    /// A new file that is open.
    pub fn create(&self, name: &str) -> (InodeNo, FileId) {
        let made = self.vfs.create(InodeNo::ROOT, name.as_bytes(), 0o644, libc::O_RDWR, &CALLER);
        let (attr, file, _) = made.expect("a file");
        (attr.ino, file)
    }

    pub fn write(&self, (ino, file): (InodeNo, FileId), offset: u64, data: Bytes) {
        self.runtime.block_on(self.vfs.write(ino, file, offset, data, false)).expect("a write");
    }

    /// What was written gets its place in the store or the engine.
    pub fn flush(&self, (ino, file): (InodeNo, FileId)) {
        self.runtime.block_on(self.vfs.flush(ino, file)).expect("a flush");
    }

    pub fn read(&self, (ino, file): (InodeNo, FileId), offset: u64, len: u32) -> Vec<Bytes> {
        self.runtime.block_on(self.vfs.read(ino, file, offset, len)).expect("a read")
    }

    /// Small files' bytes move from the engine to shared segments.
    pub fn pack(&self) {
        self.runtime.block_on(headrace_volume::pack(self.vfs.volume(), u64::MAX)).expect("packing");
    }

    pub fn close(self) {
        self.runtime.block_on(self.vfs.shutdown()).expect("shutdown");
    }
}
