//! A disk in memory behind a real mount, so that any program can use it until the power goes.

use std::future;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use headrace_fuse::{
    Attr, Caller, DirEntry, Errno, FileId, FileSystem, InodeNo, Kind, MountConfig, OpenMode, Pending,
    ReadReply, RenameMode, Result, Session, SetAttr, StatFs, Time, XattrMode,
};
use headrace_testbed::power::{self, Attributes, Disk, Replace};
use tokio::runtime::Runtime;

/// `fallocate` modes that are known.
const KEEP_SIZE: i32 = 1;
const PUNCH_HOLE: i32 = 2 | KEEP_SIZE;

/// A disk mounted on a directory. Dropping it unmounts.
pub struct MountedDisk {
    pub disk: Arc<Disk>,
    session: Session,
    _runtime: Runtime,
}

impl MountedDisk {
    /// Mounts `disk` on `dir`.
    pub fn new(disk: Disk, dir: &Path) -> MountedDisk {
        let disk = Arc::new(disk);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime for a mount");
        let front = Front { disk: Arc::clone(&disk), handles: AtomicU64::new(1), at: Time::now() };
        let session = Session::mount(front, dir, MountConfig::default(), runtime.handle().clone())
            .unwrap_or_else(|error| panic!("mounting a disk on {}: {error}", dir.display()));
        MountedDisk { disk, session, _runtime: runtime }
    }
}

impl Drop for MountedDisk {
    fn drop(&mut self) {
        if self.session.unmount(false).is_err() {
            // Somebody still has files open, which is of no use without power.
            let _ = self.session.abort();
            let _ = self.session.unmount(true);
        }
        self.session.wait();
    }
}

struct Front {
    disk: Arc<Disk>,
    handles: AtomicU64,
    /// The only time there is on this disk.
    at: Time,
}

fn errno(error: rustix::io::Errno) -> Errno {
    Errno::new(error.raw_os_error())
}

fn ready<T: Send + 'static>(value: rustix::io::Result<T>) -> Pending<T> {
    Box::pin(future::ready(value.map_err(errno)))
}

impl Front {
    fn attr(&self, found: Attributes) -> Attr {
        Attr {
            ino: InodeNo(found.ino),
            kind: match found.kind {
                power::Kind::File => Kind::File,
                power::Kind::Directory => Kind::Directory,
                power::Kind::Symlink => Kind::Symlink,
            },
            mode: found.mode as u16,
            nlink: found.nlink,
            uid: found.uid,
            gid: found.gid,
            rdev: 0,
            size: found.size,
            allocated: found.size,
            atime: self.at,
            mtime: self.at,
            ctime: self.at,
            btime: self.at,
        }
    }

    fn opened(&self) -> (FileId, OpenMode) {
        let file = FileId(self.handles.fetch_add(1, Ordering::Relaxed));
        // The page cache is on: the embedded engine maps its files.
        (file, OpenMode { keep_cache: true, direct_io: false, noflush: true, backing: None })
    }

    fn change(&self, ino: InodeNo, change: SetAttr, size: Option<u64>) -> rustix::io::Result<Attributes> {
        if let Some(size) = size {
            self.disk.truncate(ino.0, size)?;
        }
        if let Some(mode) = change.mode {
            self.disk.set_mode(ino.0, u32::from(mode))?;
        }
        if change.uid.is_some() || change.gid.is_some() {
            self.disk.set_owner(ino.0, change.uid, change.gid)?;
        }
        self.disk.attributes(ino.0)
    }
}

impl FileSystem for Front {
    fn exclusive(&self) -> bool {
        true
    }

    fn lookup(&self, parent: InodeNo, name: &[u8]) -> Result<Attr> {
        self.disk.lookup(parent.0, name).map(|found| self.attr(found)).map_err(errno)
    }

    fn forget(&self, ino: InodeNo, count: u64) {
        self.disk.forget(ino.0, count);
    }

    fn getattr(&self, ino: InodeNo) -> Result<Attr> {
        self.disk.attributes(ino.0).map(|found| self.attr(found)).map_err(errno)
    }

    fn setattr(&self, ino: InodeNo, change: SetAttr, size: Option<u64>) -> Pending<Attr> {
        ready(self.change(ino, change, size).map(|found| self.attr(found)))
    }

    fn mknod(
        &self,
        parent: InodeNo,
        name: &[u8],
        kind: Kind,
        mode: u16,
        _rdev: u32,
        caller: &Caller,
    ) -> Result<Attr> {
        let kind = match kind {
            Kind::File => power::Kind::File,
            Kind::Directory => power::Kind::Directory,
            _ => return Err(Errno::EOPNOTSUPP),
        };
        let made = self.disk.make(parent.0, name, kind, u32::from(mode & !caller.umask)).map_err(errno)?;
        Ok(self.attr(made))
    }

    fn symlink(&self, parent: InodeNo, name: &[u8], target: &[u8], _caller: &Caller) -> Result<Attr> {
        self.disk.symlink(parent.0, name, target).map(|made| self.attr(made)).map_err(errno)
    }

    fn create(
        &self,
        parent: InodeNo,
        name: &[u8],
        mode: u16,
        _flags: i32,
        caller: &Caller,
    ) -> Result<(Attr, FileId, OpenMode)> {
        let made = self.mknod(parent, name, Kind::File, mode, 0, caller)?;
        let (file, mode) = self.opened();
        Ok((made, file, mode))
    }

    fn tmpfile(
        &self,
        _parent: InodeNo,
        mode: u16,
        _flags: i32,
        caller: &Caller,
    ) -> Result<(Attr, FileId, OpenMode)> {
        let made = self.disk.make_unnamed(u32::from(mode & !caller.umask)).map_err(errno)?;
        let (file, mode) = self.opened();
        Ok((self.attr(made), file, mode))
    }

    fn unlink(&self, parent: InodeNo, name: &[u8]) -> Result<()> {
        self.disk.unlink(parent.0, name).map_err(errno)
    }

    fn rmdir(&self, parent: InodeNo, name: &[u8]) -> Result<()> {
        self.disk.rmdir(parent.0, name).map_err(errno)
    }

    fn link(&self, ino: InodeNo, parent: InodeNo, name: &[u8]) -> Result<Attr> {
        self.disk.link(ino.0, parent.0, name).map(|found| self.attr(found)).map_err(errno)
    }

    fn rename(
        &self,
        parent: InodeNo,
        name: &[u8],
        new_parent: InodeNo,
        new_name: &[u8],
        mode: RenameMode,
    ) -> Pending<()> {
        let replace = match mode {
            RenameMode::Replace => Ok(Replace::Yes),
            RenameMode::NoReplace => Ok(Replace::No),
            RenameMode::Exchange => Err(Errno::EINVAL),
        };
        let renamed = replace.and_then(|replace| {
            self.disk.rename(parent.0, name, new_parent.0, new_name, replace).map_err(errno)
        });
        Box::pin(std::future::ready(renamed))
    }

    fn readlink(&self, ino: InodeNo) -> Result<Vec<u8>> {
        self.disk.read_link(ino.0).map_err(errno)
    }

    fn open(&self, ino: InodeNo, _flags: i32) -> Result<(FileId, OpenMode)> {
        self.getattr(ino)?;
        Ok(self.opened())
    }

    fn read(&self, ino: InodeNo, _file: FileId, offset: u64, len: u32) -> Pending<ReadReply> {
        ready(self.disk.read(ino.0, offset, len).map(|bytes| vec![Bytes::from(bytes)]))
    }

    fn write(&self, ino: InodeNo, _file: FileId, offset: u64, data: Bytes, _kill_suid: bool) -> Pending<u32> {
        ready(self.disk.write(ino.0, offset, &data).map(|()| data.len() as u32))
    }

    fn flush(&self, _ino: InodeNo, _file: FileId) -> Pending<()> {
        ready(Ok(()))
    }

    fn fsync(&self, ino: InodeNo, _file: FileId, _datasync: bool) -> Pending<()> {
        ready(self.disk.sync_file(ino.0))
    }

    fn fsyncdir(&self, ino: InodeNo) -> Pending<()> {
        ready(self.disk.sync_directory(ino.0))
    }

    fn release(&self, _ino: InodeNo, _file: FileId) -> Pending<()> {
        ready(Ok(()))
    }

    fn fallocate(&self, ino: InodeNo, _file: FileId, offset: u64, len: u64, mode: i32) -> Pending<()> {
        ready(match mode {
            0 => self.disk.allocate(ino.0, offset, len, true),
            KEEP_SIZE => self.disk.allocate(ino.0, offset, len, false),
            PUNCH_HOLE => self.disk.punch(ino.0, offset, len),
            _ => Err(rustix::io::Errno::OPNOTSUPP),
        })
    }

    fn lseek(&self, _ino: InodeNo, _offset: u64, _whence: i32) -> Pending<u64> {
        ready(Err(rustix::io::Errno::NOSYS))
    }

    fn copy_file_range(
        &self,
        _source: InodeNo,
        _source_offset: u64,
        _target: InodeNo,
        _target_offset: u64,
        _len: u64,
    ) -> Pending<u64> {
        ready(Err(rustix::io::Errno::NOSYS))
    }

    fn opendir(&self, _ino: InodeNo) -> Result<FileId> {
        Ok(self.opened().0)
    }

    fn readdir(
        &self,
        dir: InodeNo,
        after: u64,
        plus: bool,
        visit: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<()> {
        let here = self.disk.attributes(dir.0).map_err(errno)?;
        let above = self.disk.parent(dir.0).and_then(|ino| self.disk.attributes(ino)).map_err(errno)?;
        let dots = [(1, b".".to_vec(), here), (2, b"..".to_vec(), above)];
        let entries = self.disk.list(dir.0).map_err(errno)?;
        let entries = entries.into_iter().map(|entry| (entry.cookie, entry.name, entry.attributes));
        for (cookie, name, found) in dots.into_iter().chain(entries).filter(|entry| entry.0 > after) {
            let attr = self.attr(found);
            let (ino, kind) = (attr.ino, attr.kind);
            if !visit(DirEntry { cookie, ino, kind, name: &name, attr: plus.then_some(attr) }) {
                break;
            }
            if plus && cookie > 2 {
                // Counts the reference. The entry may be gone since it was listed; then the kernel finds out.
                let _ = self.disk.lookup(dir.0, &name);
            }
        }
        Ok(())
    }

    fn getxattr(&self, _ino: InodeNo, _name: &[u8]) -> Result<Vec<u8>> {
        Err(Errno::EOPNOTSUPP)
    }

    fn setxattr(
        &self,
        _ino: InodeNo,
        _name: &[u8],
        _value: &[u8],
        _mode: XattrMode,
        _kill_sgid: bool,
    ) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    fn listxattr(&self, _ino: InodeNo) -> Result<Vec<Vec<u8>>> {
        Err(Errno::EOPNOTSUPP)
    }

    fn removexattr(&self, _ino: InodeNo, _name: &[u8]) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    fn statfs(&self) -> Result<StatFs> {
        let blocks = 8 << 20;
        Ok(StatFs {
            blocks,
            bfree: blocks,
            bavail: blocks,
            files: 1 << 20,
            ffree: 1 << 20,
            bsize: 4096,
            namelen: 255,
        })
    }

    fn flush_all(&self) -> Pending<()> {
        ready(Ok(()))
    }
}
