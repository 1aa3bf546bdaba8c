//! The real file system behind the front end.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use headrace_vfs::{Keeper, MemoryPlan, Vfs};

use crate::{
    Attr, Caller, DirEntry, Errno, FileId, FileSystem, InodeNo, Kind, OpenMode, Pending, ReadReply,
    RenameMode, Result, SetAttr, StatFs, XattrMode,
};

/// The caller of the system call only gets a number; what is behind an EIO goes to the log, once per failure.
fn number(call: &'static str, ino: InodeNo, error: &headrace_vfs::Error) -> Errno {
    let errno = Errno::new(error.errno());
    if errno == Errno::EIO && !error.is_logged() {
        tracing::error!(call, ino = ino.0, "{error}");
    } else {
        tracing::trace!(call, ino = ino.0, ?errno, "{error}");
    }
    errno
}

/// A call that answers at once.
fn now<T>(call: &'static str, ino: InodeNo, result: Result<T, headrace_vfs::Error>) -> Result<T> {
    result.map_err(|error| number(call, ino, &error))
}

/// A call that may have to wait.
fn later<T: Send + 'static>(
    call: &'static str,
    ino: InodeNo,
    future: impl Future<Output = Result<T, headrace_vfs::Error>> + Send + 'static,
) -> Pending<T> {
    Box::pin(async move { now(call, ino, future.await) })
}

/// A call that changes something: it waits until there is room for that.
fn changing<T: Send + 'static>(
    vfs: &Vfs,
    call: &'static str,
    ino: InodeNo,
    future: impl Future<Output = Result<T, headrace_vfs::Error>> + Send + 'static,
) -> Pending<T> {
    match vfs.admit() {
        None => later(call, ino, future),
        Some(room) => later(call, ino, async move {
            room.await?;
            future.await
        }),
    }
}

impl FileSystem for Arc<Vfs> {
    fn exclusive(&self) -> bool {
        Vfs::exclusive(self)
    }

    fn admit(&self) -> Option<Pending<()>> {
        Vfs::admit(self).map(|room| later("waiting for the store", InodeNo::ROOT, room))
    }

    fn memory(&self) -> MemoryPlan {
        Vfs::memory_plan(self)
    }

    fn wait_for_room(&self, at_most: Duration) -> bool {
        Vfs::wait_for_room(self, at_most)
    }

    fn keep_buffers(&self, keeper: Arc<dyn Keeper>) {
        // Of two mounts of one the second has what the plan has for both.
        Vfs::keep_buffers(self, keeper);
    }

    fn passthrough(&self, possible: Result<(), String>) {
        Vfs::passthrough_possible(self, possible);
    }

    fn lookup(&self, parent: InodeNo, name: &[u8]) -> Result<Attr> {
        now("lookup", parent, Vfs::lookup(self, parent, name))
    }

    fn forget(&self, ino: InodeNo, count: u64) {
        Vfs::forget(self, ino, count);
    }

    fn getattr(&self, ino: InodeNo) -> Result<Attr> {
        now("getattr", ino, Vfs::getattr(self, ino))
    }

    fn setattr(&self, ino: InodeNo, change: SetAttr, size: Option<u64>) -> Pending<Attr> {
        changing(self, "setattr", ino, Vfs::setattr(self, ino, change, size))
    }

    fn mknod(
        &self,
        parent: InodeNo,
        name: &[u8],
        kind: Kind,
        mode: u16,
        rdev: u32,
        caller: &Caller,
    ) -> Result<Attr> {
        now("mknod", parent, Vfs::mknod(self, parent, name, kind, mode, rdev, caller))
    }

    fn symlink(&self, parent: InodeNo, name: &[u8], target: &[u8], caller: &Caller) -> Result<Attr> {
        now("symlink", parent, Vfs::symlink(self, parent, name, target, caller))
    }

    fn create(
        &self,
        parent: InodeNo,
        name: &[u8],
        mode: u16,
        flags: i32,
        caller: &Caller,
    ) -> Result<(Attr, FileId, OpenMode)> {
        now("create", parent, Vfs::create(self, parent, name, mode, flags, caller))
    }

    fn tmpfile(
        &self,
        parent: InodeNo,
        mode: u16,
        flags: i32,
        caller: &Caller,
    ) -> Result<(Attr, FileId, OpenMode)> {
        now("tmpfile", parent, Vfs::tmpfile(self, parent, mode, flags, caller))
    }

    fn unlink(&self, parent: InodeNo, name: &[u8]) -> Result<()> {
        now("unlink", parent, Vfs::unlink(self, parent, name))
    }

    fn rmdir(&self, parent: InodeNo, name: &[u8]) -> Result<()> {
        now("rmdir", parent, Vfs::rmdir(self, parent, name))
    }

    fn link(&self, ino: InodeNo, parent: InodeNo, name: &[u8]) -> Result<Attr> {
        now("link", ino, Vfs::link(self, ino, parent, name))
    }

    fn rename(
        &self,
        parent: InodeNo,
        name: &[u8],
        new_parent: InodeNo,
        new_name: &[u8],
        mode: RenameMode,
    ) -> Pending<()> {
        later("rename", parent, Vfs::rename(self, parent, name, new_parent, new_name, mode))
    }

    fn take_renewed(&self) -> Vec<InodeNo> {
        Vfs::take_renewed(self)
    }

    fn readlink(&self, ino: InodeNo) -> Result<Vec<u8>> {
        now("readlink", ino, Vfs::readlink(self, ino))
    }

    fn open(&self, ino: InodeNo, flags: i32) -> Result<(FileId, OpenMode)> {
        now("open", ino, Vfs::open(self, ino, flags))
    }

    fn not_passed_through(&self, ino: InodeNo, file: FileId, why: Errno) -> Result<OpenMode> {
        let why = io::Error::from_raw_os_error(why.raw());
        now("open", ino, Vfs::not_passed_through(self, ino, file, why))
    }

    fn read(&self, ino: InodeNo, file: FileId, offset: u64, len: u32) -> Pending<ReadReply> {
        let read = Vfs::read(self, ino, file, offset, len);
        // Not [`later`]: the file system has logged what went wrong, and at which bytes.
        Box::pin(async move { read.await.map_err(|error| Errno::new(error.errno())) })
    }

    fn write(&self, ino: InodeNo, file: FileId, offset: u64, data: Bytes, kill_suid: bool) -> Pending<u32> {
        changing(self, "write", ino, Vfs::write(self, ino, file, offset, data, kill_suid))
    }

    fn flush(&self, ino: InodeNo, file: FileId) -> Pending<()> {
        later("flush", ino, Vfs::flush(self, ino, file))
    }

    fn fsync(&self, ino: InodeNo, file: FileId, datasync: bool) -> Pending<()> {
        later("fsync", ino, Vfs::fsync(self, ino, file, datasync))
    }

    fn fsyncdir(&self, ino: InodeNo) -> Pending<()> {
        later("fsyncdir", ino, Vfs::fsyncdir(self, ino))
    }

    fn release(&self, ino: InodeNo, file: FileId) -> Pending<()> {
        later("release", ino, Vfs::release(self, ino, file))
    }

    fn fallocate(&self, ino: InodeNo, file: FileId, offset: u64, len: u64, mode: i32) -> Pending<()> {
        changing(self, "fallocate", ino, Vfs::fallocate(self, ino, file, offset, len, mode))
    }

    fn lseek(&self, ino: InodeNo, offset: u64, whence: i32) -> Pending<u64> {
        later("lseek", ino, Vfs::lseek(self, ino, offset, whence))
    }

    fn copy_file_range(
        &self,
        source: InodeNo,
        source_offset: u64,
        target: InodeNo,
        target_offset: u64,
        len: u64,
    ) -> Pending<u64> {
        let copy = Vfs::copy_file_range(self, source, source_offset, target, target_offset, len);
        changing(self, "copy_file_range", target, copy)
    }

    fn opendir(&self, ino: InodeNo) -> Result<FileId> {
        now("opendir", ino, Vfs::opendir(self, ino))
    }

    fn readdir(
        &self,
        dir: InodeNo,
        after: u64,
        plus: bool,
        visit: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<()> {
        now("readdir", dir, Vfs::readdir(self, dir, after, plus, visit))
    }

    fn getxattr(&self, ino: InodeNo, name: &[u8]) -> Result<Vec<u8>> {
        now("getxattr", ino, Vfs::getxattr(self, ino, name))
    }

    fn setxattr(
        &self,
        ino: InodeNo,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
        kill_sgid: bool,
    ) -> Result<()> {
        now("setxattr", ino, Vfs::setxattr(self, ino, name, value, mode, kill_sgid))
    }

    fn listxattr(&self, ino: InodeNo) -> Result<Vec<Vec<u8>>> {
        now("listxattr", ino, Vfs::listxattr(self, ino))
    }

    fn removexattr(&self, ino: InodeNo, name: &[u8]) -> Result<()> {
        now("removexattr", ino, Vfs::removexattr(self, ino, name))
    }

    fn statfs(&self) -> Result<StatFs> {
        now("statfs", InodeNo::ROOT, Vfs::statfs(self))
    }

    fn flush_all(&self) -> Pending<()> {
        let vfs = Arc::clone(self);
        later("syncfs", InodeNo::ROOT, async move { vfs.flush_all().await })
    }
}
