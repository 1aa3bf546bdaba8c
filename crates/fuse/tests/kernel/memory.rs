//! A small file system in memory, with files that misbehave on demand.

// Named in full, because the front end's own tests include this file from elsewhere.
#[path = "memory/contents.rs"]
mod contents;
#[path = "memory/control.rs"]
mod control;
#[path = "memory/opens.rs"]
pub mod opens;
#[path = "memory/state.rs"]
mod state;

use std::collections::HashMap;
use std::future;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use headrace_fuse::{
    Attr, Caller, DirEntry, Errno, FileId, FileSystem, InodeNo, Kind, OpenMode, Pending, ReadReply,
    RenameMode, Result, SetAttr, StatFs, XattrMode,
};

use contents::Contents;
use opens::Passing;
use state::{Manner, Node, State};

/// What was asked of the file system.
#[derive(Debug, Default)]
pub struct Counts {
    pub reads: AtomicUsize,
    pub writes: AtomicUsize,
    pub largest_read: AtomicUsize,
    pub largest_write: AtomicUsize,
    pub unaligned_large_writes: AtomicUsize,
    pub killing_writes: AtomicUsize,
    pub lookups: AtomicUsize,
    pub getattrs: AtomicUsize,
    pub readdirs: AtomicUsize,
    pub flushes: AtomicUsize,
    pub releases: AtomicUsize,
    pub fsyncs: AtomicUsize,
    /// FORGETs of more references than there were.
    pub forgotten_too_often: AtomicUsize,
    /// Futures of reads that were dropped before they were done.
    pub given_up: Arc<AtomicUsize>,
}

/// The file system. Clones share it.
#[derive(Clone)]
pub struct MemFs {
    state: Arc<Mutex<State>>,
    pub counts: Arc<Counts>,
    pub passing: Arc<Passing>,
    exclusive: bool,
    handles: Arc<AtomicU64>,
}

struct GivenUp(Option<Arc<AtomicUsize>>);

impl GivenUp {
    fn done(&mut self) {
        self.0 = None;
    }
}

impl Drop for GivenUp {
    fn drop(&mut self) {
        if let Some(count) = &self.0 {
            count.fetch_add(1, Ordering::SeqCst);
        }
    }
}

fn ready<T: Send + 'static>(value: Result<T>) -> Pending<T> {
    Box::pin(future::ready(value))
}

/// The end of a range, which must stay small enough for memory.
fn end_of(offset: u64, len: u64) -> Result<usize> {
    match offset.checked_add(len) {
        Some(end) if end <= 256 << 20 => Ok(end as usize),
        _ => Err(Errno::new(libc::EFBIG)),
    }
}

impl MemFs {
    pub fn new(exclusive: bool) -> Self {
        let mut state = State { nodes: HashMap::new(), next: 1 };
        state.add(Kind::Directory, 0o755, InodeNo::ROOT, b"", &Caller { uid: 0, gid: 0, umask: 0 });
        MemFs {
            state: Arc::new(Mutex::new(state)),
            counts: Arc::default(),
            passing: Arc::default(),
            exclusive,
            handles: Arc::new(AtomicU64::new(1)),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn opened(&self, node: &mut Node, flags: i32) -> (FileId, OpenMode) {
        let file = FileId(self.handles.fetch_add(1, Ordering::Relaxed));
        let mode = node.open(file, flags, self.exclusive, &self.passing);
        (file, mode)
    }
}

impl FileSystem for MemFs {
    fn exclusive(&self) -> bool {
        self.exclusive
    }

    fn lookup(&self, parent: InodeNo, name: &[u8]) -> Result<Attr> {
        self.counts.lookups.fetch_add(1, Ordering::Relaxed);
        let mut state = self.state();
        let ino = match name {
            b"." => parent,
            b".." => state.node(parent)?.parent,
            _ => state.find(parent, name)?,
        };
        state.referenced(ino)
    }

    fn forget(&self, ino: InodeNo, count: u64) {
        let mut state = self.state();
        if let Ok(node) = state.node(ino) {
            match node.references.checked_sub(count) {
                Some(left) => node.references = left,
                None => drop(self.counts.forgotten_too_often.fetch_add(1, Ordering::Relaxed)),
            }
        }
        state.reap(ino);
    }

    fn getattr(&self, ino: InodeNo) -> Result<Attr> {
        self.counts.getattrs.fetch_add(1, Ordering::Relaxed);
        let mut state = self.state();
        let node = state.node(ino)?;
        node.measure();
        Ok(node.attr.clone())
    }

    fn setattr(&self, ino: InodeNo, change: SetAttr, size: Option<u64>) -> Pending<Attr> {
        let mut state = self.state();
        ready(state.node(ino).and_then(|node| {
            let size = size.map(|size| end_of(0, size)).transpose()?;
            if change.kill_suid {
                node.kill_suid();
            }
            if let Some(size) = size {
                node.data.resize(size);
                node.touch(true);
            }
            node.touch(false);
            let attr = &mut node.attr;
            attr.mode = change.mode.unwrap_or(attr.mode);
            attr.uid = change.uid.unwrap_or(attr.uid);
            attr.gid = change.gid.unwrap_or(attr.gid);
            attr.atime = change.atime.unwrap_or(attr.atime);
            attr.mtime = change.mtime.unwrap_or(attr.mtime);
            Ok(attr.clone())
        }))
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
        let mut state = self.state();
        let ino = state.make(kind, mode, parent, name, caller)?;
        state.node(ino)?.attr.rdev = rdev;
        state.referenced(ino)
    }

    fn symlink(&self, parent: InodeNo, name: &[u8], target: &[u8], caller: &Caller) -> Result<Attr> {
        let mut state = self.state();
        let ino = state.make(Kind::Symlink, 0o777, parent, name, caller)?;
        let node = state.node(ino)?;
        node.data = Contents::Memory(target.to_vec());
        node.attr.size = target.len() as u64;
        state.referenced(ino)
    }

    fn create(
        &self,
        parent: InodeNo,
        name: &[u8],
        mode: u16,
        flags: i32,
        caller: &Caller,
    ) -> Result<(Attr, FileId, OpenMode)> {
        if name == b"panic-on-create" {
            panic!("as the test wants it");
        }
        let mut state = self.state();
        let ino = state.make(Kind::File, mode, parent, name, caller)?;
        let (file, mode) = self.opened(state.node(ino)?, flags);
        Ok((state.referenced(ino)?, file, mode))
    }

    fn tmpfile(
        &self,
        parent: InodeNo,
        mode: u16,
        flags: i32,
        caller: &Caller,
    ) -> Result<(Attr, FileId, OpenMode)> {
        let mut state = self.state();
        let name: &[u8] = if self.passing.dir.is_some() { b".passed" } else { b"" };
        let ino = state.add(Kind::File, mode, parent, name, caller);
        state.node(ino)?.attr.nlink = 0;
        let (file, mode) = self.opened(state.node(ino)?, flags);
        Ok((state.referenced(ino)?, file, mode))
    }

    fn unlink(&self, parent: InodeNo, name: &[u8]) -> Result<()> {
        let mut state = self.state();
        let ino = state.remove(parent, name)?;
        state.drop_name(ino)
    }

    fn rmdir(&self, parent: InodeNo, name: &[u8]) -> Result<()> {
        let mut state = self.state();
        let ino = state.find(parent, name)?;
        if !state.node(ino)?.entries.is_empty() {
            return Err(Errno::ENOTEMPTY);
        }
        state.remove(parent, name)?;
        state.drop_name(ino)
    }

    fn link(&self, ino: InodeNo, parent: InodeNo, name: &[u8]) -> Result<Attr> {
        let mut state = self.state();
        if state.find(parent, name).is_ok() {
            return Err(Errno::EEXIST);
        }
        state.enter(parent, name, ino)?;
        let node = state.node(ino)?;
        node.attr.nlink += 1;
        node.touch(false);
        state.referenced(ino)
    }

    fn rename(
        &self,
        parent: InodeNo,
        name: &[u8],
        new_parent: InodeNo,
        new_name: &[u8],
        mode: RenameMode,
    ) -> Pending<()> {
        let renamed = || {
            let mut state = self.state();
            let moved = state.find(parent, name)?;
            let target = state.find(new_parent, new_name).ok();
            match (mode, target) {
                (RenameMode::NoReplace, Some(_)) => return Err(Errno::EEXIST),
                (RenameMode::Exchange, None) => return Err(Errno::ENOENT),
                (RenameMode::Exchange, Some(other)) => {
                    state.remove(parent, name)?;
                    state.remove(new_parent, new_name)?;
                    state.enter(parent, name, other)?;
                    return state.enter(new_parent, new_name, moved);
                }
                (_, Some(replaced)) => {
                    state.remove(new_parent, new_name)?;
                    state.drop_name(replaced)?;
                }
                (_, None) => {}
            }
            state.remove(parent, name)?;
            state.enter(new_parent, new_name, moved)
        };
        Box::pin(std::future::ready(renamed()))
    }

    fn readlink(&self, ino: InodeNo) -> Result<Vec<u8>> {
        Ok(self.state().node(ino)?.data.all())
    }

    fn open(&self, ino: InodeNo, flags: i32) -> Result<(FileId, OpenMode)> {
        let mut state = self.state();
        Ok(self.opened(state.node(ino)?, flags))
    }

    fn passthrough(&self, possible: Result<(), String>) {
        let before = self.passing.possible.lock().unwrap().replace(possible);
        assert!(before.is_none(), "told once");
    }

    fn not_passed_through(&self, ino: InodeNo, file: FileId, why: Errno) -> Result<OpenMode> {
        self.passing.refusals.lock().unwrap().push(why);
        Ok(self.state().node(ino)?.reopen(file))
    }

    fn read(&self, ino: InodeNo, _file: FileId, offset: u64, len: u32) -> Pending<ReadReply> {
        self.counts.reads.fetch_add(1, Ordering::SeqCst);
        self.counts.largest_read.fetch_max(len as usize, Ordering::Relaxed);
        let mut state = self.state();
        let node = match state.node(ino) {
            Ok(node) => node,
            Err(errno) => return ready(Err(errno)),
        };
        let start = (offset as usize).min(node.data.len());
        let bytes = node.data.read(start, start + len as usize);
        // Many small pieces: more than one system call takes.
        let pieces: ReadReply = bytes.chunks(700).map(Bytes::copy_from_slice).collect();
        let mut given_up = GivenUp(Some(Arc::clone(&self.counts.given_up)));
        match node.manner {
            Manner::Plain => {
                given_up.done();
                ready(Ok(pieces))
            }
            Manner::Hang => Box::pin(async move {
                let _given_up = given_up;
                future::pending().await
            }),
            Manner::Slow => Box::pin(async move {
                tokio::time::sleep(Duration::from_millis(500)).await;
                given_up.done();
                Ok(pieces)
            }),
            Manner::Panic => {
                given_up.done();
                panic!("as the test wants it")
            }
            Manner::PanicLater => Box::pin(async move {
                given_up.done();
                tokio::time::sleep(Duration::from_millis(10)).await;
                panic!("as the test wants it")
            }),
        }
    }

    fn write(&self, ino: InodeNo, _file: FileId, offset: u64, data: Bytes, kill_suid: bool) -> Pending<u32> {
        self.counts.writes.fetch_add(1, Ordering::Relaxed);
        self.counts.largest_write.fetch_max(data.len(), Ordering::Relaxed);
        if data.len() >= 1 << 20 && data.as_ptr().align_offset(4096) != 0 {
            self.counts.unaligned_large_writes.fetch_add(1, Ordering::Relaxed);
        }
        let mut state = self.state();
        ready(state.node(ino).and_then(|node| {
            end_of(offset, data.len() as u64)?;
            if kill_suid {
                self.counts.killing_writes.fetch_add(1, Ordering::Relaxed);
                node.kill_suid();
            }
            node.data.write(offset as usize, &data);
            node.touch(true);
            Ok(data.len() as u32)
        }))
    }

    fn flush(&self, _ino: InodeNo, _file: FileId) -> Pending<()> {
        self.counts.flushes.fetch_add(1, Ordering::Relaxed);
        ready(Ok(()))
    }

    fn fsync(&self, _ino: InodeNo, _file: FileId, _datasync: bool) -> Pending<()> {
        self.counts.fsyncs.fetch_add(1, Ordering::Relaxed);
        ready(Ok(()))
    }

    fn fsyncdir(&self, _ino: InodeNo) -> Pending<()> {
        self.counts.fsyncs.fetch_add(1, Ordering::Relaxed);
        ready(Ok(()))
    }

    fn release(&self, ino: InodeNo, file: FileId) -> Pending<()> {
        if let Ok(node) = self.state().node(ino) {
            node.close(file);
        }
        self.counts.releases.fetch_add(1, Ordering::SeqCst);
        ready(Ok(()))
    }

    fn fallocate(&self, ino: InodeNo, _file: FileId, offset: u64, len: u64, mode: i32) -> Pending<()> {
        let mut state = self.state();
        ready(state.node(ino).and_then(|node| {
            let (start, end) = (offset as usize, end_of(offset, len)?);
            match mode {
                0 => {
                    if node.data.len() < end {
                        node.data.resize(end);
                    }
                }
                // PUNCH_HOLE | KEEP_SIZE
                3 => {
                    let size = node.data.len();
                    node.data.write(start.min(size), &vec![0; end.min(size).saturating_sub(start)]);
                }
                _ => return Err(Errno::EOPNOTSUPP),
            }
            node.touch(true);
            Ok(())
        }))
    }

    fn lseek(&self, ino: InodeNo, offset: u64, whence: i32) -> Pending<u64> {
        let mut state = self.state();
        ready(state.node(ino).and_then(|node| {
            let size = node.data.len() as u64;
            match whence {
                _ if offset >= size => Err(Errno::ENXIO),
                libc::SEEK_DATA => Ok(offset),
                libc::SEEK_HOLE => Ok(size),
                _ => Err(Errno::EINVAL),
            }
        }))
    }

    fn copy_file_range(
        &self,
        source: InodeNo,
        source_offset: u64,
        target: InodeNo,
        target_offset: u64,
        len: u64,
    ) -> Pending<u64> {
        let mut state = self.state();
        ready((|| {
            let start = source_offset as usize;
            let piece = state.node(source)?.data.read(start, start.saturating_add(len as usize));
            let node = state.node(target)?;
            end_of(target_offset, piece.len() as u64)?;
            node.data.write(target_offset as usize, &piece);
            node.touch(true);
            Ok(piece.len() as u64)
        })())
    }

    fn opendir(&self, _ino: InodeNo) -> Result<FileId> {
        Ok(FileId(self.handles.fetch_add(1, Ordering::Relaxed)))
    }

    fn readdir(
        &self,
        dir: InodeNo,
        after: u64,
        plus: bool,
        visit: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<()> {
        self.counts.readdirs.fetch_add(1, Ordering::Relaxed);
        let mut state = self.state();
        let parent = state.node(dir)?.parent;
        let entries: Vec<_> = state
            .node(dir)?
            .entries
            .range(after.saturating_add(1)..)
            .map(|(c, (n, i))| (*c, n.clone(), *i))
            .collect();
        let dots = [(1, b".".to_vec(), dir), (2, b"..".to_vec(), parent)];
        for (cookie, name, ino) in dots.into_iter().filter(|dot| dot.0 > after).chain(entries) {
            let attr = state.node(ino)?.attr.clone();
            let kind = attr.kind;
            if !visit(DirEntry { cookie, ino, kind, name: &name, attr: plus.then_some(attr) }) {
                break;
            }
            if plus && cookie > 2 {
                state.referenced(ino)?;
            }
        }
        Ok(())
    }

    fn getxattr(&self, ino: InodeNo, name: &[u8]) -> Result<Vec<u8>> {
        self.state().node(ino)?.xattrs.get(name).cloned().ok_or(Errno::ENODATA)
    }

    fn setxattr(
        &self,
        ino: InodeNo,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
        _kill_sgid: bool,
    ) -> Result<()> {
        let mut state = self.state();
        let xattrs = &mut state.node(ino)?.xattrs;
        match (mode, xattrs.contains_key(name)) {
            (XattrMode::CreateOnly, true) => Err(Errno::EEXIST),
            (XattrMode::ReplaceOnly, false) => Err(Errno::ENODATA),
            _ => {
                xattrs.insert(name.to_vec(), value.to_vec());
                Ok(())
            }
        }
    }

    fn listxattr(&self, ino: InodeNo) -> Result<Vec<Vec<u8>>> {
        Ok(self.state().node(ino)?.xattrs.keys().cloned().collect())
    }

    fn removexattr(&self, ino: InodeNo, name: &[u8]) -> Result<()> {
        self.state().node(ino)?.xattrs.remove(name).map(drop).ok_or(Errno::ENODATA)
    }

    fn statfs(&self) -> Result<StatFs> {
        Ok(StatFs { blocks: 1000, bfree: 600, bavail: 500, files: 100, ffree: 90, bsize: 4096, namelen: 255 })
    }

    fn flush_all(&self) -> Pending<()> {
        ready(Ok(()))
    }
}
