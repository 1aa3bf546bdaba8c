//! The operations on the real file system, and what they answer.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use headrace_testbed::mapping::SharedMapping;
use headrace_testbed::pattern;
use rustix::fs::{AtFlags, CWD, FallocateFlags, Mode, OFlags, RenameFlags, SeekFrom, XattrFlags};
use rustix::io::Errno;

use crate::op::{Falloc, Op, PATHS, RenameMode, SLOTS, XATTRS, XattrMode};

/// What `stat` says, as far as the model knows it. `st_ino`, ctime and the like are compared elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    pub kind: char,
    pub mode: u32,
    pub nlink: u32,
    pub uid: u32,
    pub gid: u32,
    /// 0 for directories.
    pub size: u64,
    pub atime: (i64, u32),
    pub mtime: (i64, u32),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    Bytes(Vec<u8>),
    Number(u64),
    Stat(Stat),
    Names(BTreeSet<(String, char)>),
    Failed(Errno),
    /// Nothing was done: the slot is empty, or the operation makes no sense here.
    Skipped,
}

pub struct Real {
    root: PathBuf,
    shared: PathBuf,
    thread: usize,
    counter: u64,
    pub slots: [Option<File>; SLOTS],
}

type Answer = Result<Outcome, Errno>;

impl Real {
    /// `thread` has its own tree at `root`; `shared` is common to all.
    pub fn new(root: PathBuf, shared: PathBuf, thread: usize) -> Real {
        std::fs::create_dir(&root).expect("a directory for this thread");
        Real { root, shared, thread, counter: 0, slots: Default::default() }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    fn path(&self, index: usize) -> PathBuf {
        self.root.join(PATHS[index])
    }

    pub fn apply(&mut self, op: &Op) -> Outcome {
        self.try_apply(op).unwrap_or_else(Outcome::Failed)
    }

    fn try_apply(&mut self, op: &Op) -> Answer {
        match *op {
            Op::Open { .. } | Op::Tmpfile { .. } | Op::LinkSlot { .. } | Op::Close { .. } => self.open_op(op),
            Op::Truncate { path, size } => {
                // Through the path, as truncate(2) does; rustix has only the descriptor form.
                let flags = OFlags::WRONLY | OFlags::NONBLOCK;
                let file = rustix::fs::openat(CWD, self.path(path), flags, Mode::empty())?;
                done(rustix::fs::ftruncate(&file, size))
            }
            Op::SharedAppend | Op::SharedCreate | Op::SharedLink => self.shared_op(op),
            Op::Stat { path } => {
                let path = self.path(path);
                Ok(Outcome::Stat(stat(rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)?)))
            }
            Op::List { path } => list(&self.path(path)),
            _ => match self.name_op(op) {
                Some(answer) => answer,
                None => self.data_op(op),
            },
        }
    }

    fn open_op(&mut self, op: &Op) -> Answer {
        match *op {
            Op::Open { slot, path, create, excl, trunc, append, mode } => {
                let path = self.path(path);
                // A FIFO would have to be opened at both ends, and has no content to compare.
                if std::fs::symlink_metadata(&path).is_ok_and(|meta| is_fifo(&meta)) {
                    return Ok(Outcome::Skipped);
                }
                let mut flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                flags.set(OFlags::CREATE, create);
                flags.set(OFlags::EXCL, excl);
                flags.set(OFlags::TRUNC, trunc);
                flags.set(OFlags::APPEND, append);
                let file = rustix::fs::openat(CWD, path, flags, Mode::from_raw_mode(mode))?;
                self.slots[slot] = Some(file.into());
                Ok(Outcome::Done)
            }
            Op::Tmpfile { slot, mode } => {
                let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
                let file = rustix::fs::openat(CWD, &self.root, flags, Mode::from_raw_mode(mode))?;
                self.slots[slot] = Some(file.into());
                Ok(Outcome::Done)
            }
            Op::LinkSlot { slot, path } => {
                let Some(file) = &self.slots[slot] else { return Ok(Outcome::Skipped) };
                done(rustix::fs::linkat(file, c"", CWD, self.path(path), AtFlags::EMPTY_PATH))
            }
            Op::Close { slot } => {
                self.slots[slot] = None;
                Ok(Outcome::Done)
            }
            _ => Ok(Outcome::Skipped),
        }
    }

    /// Operations whose effect does not depend on the order in which the threads come by.
    fn shared_op(&mut self, op: &Op) -> Answer {
        self.counter += 1;
        let mine = self.shared.join(format!("{}-{}", self.thread, self.counter));
        match op {
            Op::SharedAppend => {
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND | OFlags::CLOEXEC;
                let log =
                    rustix::fs::openat(CWD, self.shared.join("log"), flags, Mode::from_raw_mode(0o644))?;
                let line = format!("{:08} {:08}\n", self.thread, self.counter);
                let written = rustix::io::write(&log, line.as_bytes())?;
                assert_eq!(written, line.len(), "short append");
            }
            Op::SharedCreate => {
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                let file = rustix::fs::openat(CWD, mine, flags, Mode::from_raw_mode(0o644))?;
                rustix::io::write(&file, b"x")?;
            }
            _ => rustix::fs::linkat(CWD, self.shared.join("target"), CWD, mine, AtFlags::empty())?,
        }
        Ok(Outcome::Done)
    }

    fn data_op(&mut self, op: &Op) -> Answer {
        let slots = &self.slots;
        let file = |slot: usize| slots[slot].as_ref();
        match *op {
            Op::Write { slot, offset, len, seed } => {
                let Some(file) = file(slot) else { return Ok(Outcome::Skipped) };
                file.write_all_at(&pattern(seed, len as usize), offset).map_err(errno)?;
                Ok(Outcome::Done)
            }
            Op::Read { slot, offset, len } => {
                let Some(file) = file(slot) else { return Ok(Outcome::Skipped) };
                Ok(Outcome::Bytes(read_at(file, offset, len)?))
            }
            Op::MapWrite { slot, offset, len, .. } | Op::MapRead { slot, offset, len } => {
                let Some(file) = file(slot) else { return Ok(Outcome::Skipped) };
                let size = file.metadata().map_err(errno)?.len();
                let len = size.saturating_sub(offset).min(len);
                if len == 0 {
                    return Ok(Outcome::Skipped);
                }
                let map = SharedMapping::new(file, (offset + len) as usize).map_err(errno)?;
                let Op::MapWrite { seed, sync, .. } = *op else {
                    return Ok(Outcome::Bytes(map.read(offset as usize, len as usize)));
                };
                map.write(offset as usize, &pattern(seed, len as usize));
                if sync {
                    map.sync().map_err(errno)?;
                }
                Ok(Outcome::Done)
            }
            Op::Ftruncate { slot, size } => {
                let Some(file) = file(slot) else { return Ok(Outcome::Skipped) };
                done(rustix::fs::ftruncate(file, size))
            }
            Op::Fallocate { slot, mode, offset, len } => {
                let Some(file) = file(slot) else { return Ok(Outcome::Skipped) };
                let flags = match mode {
                    Falloc::Allocate => FallocateFlags::empty(),
                    Falloc::KeepSize => FallocateFlags::KEEP_SIZE,
                    Falloc::Punch => FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
                    Falloc::Zero => FallocateFlags::ZERO_RANGE,
                    Falloc::ZeroKeepSize => FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE,
                    Falloc::Collapse => FallocateFlags::COLLAPSE_RANGE,
                    Falloc::Insert => FallocateFlags::INSERT_RANGE,
                };
                done(rustix::fs::fallocate(file, flags, offset, len))
            }
            Op::Copy { from, to, mut from_offset, mut to_offset, len } => {
                let (Some(from), Some(to)) = (file(from), file(to)) else { return Ok(Outcome::Skipped) };
                let copied = rustix::fs::copy_file_range(
                    from,
                    Some(&mut from_offset),
                    to,
                    Some(&mut to_offset),
                    len as usize,
                )?;
                Ok(Outcome::Number(copied as u64))
            }
            Op::Seek { slot, offset, hole } => {
                let Some(file) = file(slot) else { return Ok(Outcome::Skipped) };
                let from = if hole { SeekFrom::Hole(offset) } else { SeekFrom::Data(offset) };
                Ok(Outcome::Number(rustix::fs::seek(file, from)?))
            }
            Op::Fsync { slot, data_only } => {
                let Some(file) = file(slot) else { return Ok(Outcome::Skipped) };
                done(if data_only { rustix::fs::fdatasync(file) } else { rustix::fs::fsync(file) })
            }
            Op::Fstat { slot } => {
                let Some(file) = file(slot) else { return Ok(Outcome::Skipped) };
                Ok(Outcome::Stat(stat(rustix::fs::fstat(file)?)))
            }
            _ => Ok(Outcome::Skipped),
        }
    }

    /// `None` when `op` is not about names or attributes.
    fn name_op(&self, op: &Op) -> Option<Answer> {
        let nofollow = AtFlags::SYMLINK_NOFOLLOW;
        Some(match *op {
            Op::Mkdir { path, mode } => {
                done(rustix::fs::mkdirat(CWD, self.path(path), Mode::from_raw_mode(mode)))
            }
            Op::Rmdir { path } => done(rustix::fs::unlinkat(CWD, self.path(path), AtFlags::REMOVEDIR)),
            Op::Unlink { path } => done(rustix::fs::unlinkat(CWD, self.path(path), AtFlags::empty())),
            Op::Rename { from, to, mode } => {
                let flags = match mode {
                    RenameMode::Replace => RenameFlags::empty(),
                    RenameMode::NoReplace => RenameFlags::NOREPLACE,
                    RenameMode::Exchange => RenameFlags::EXCHANGE,
                };
                done(rustix::fs::renameat_with(CWD, self.path(from), CWD, self.path(to), flags))
            }
            Op::Link { from, to } => {
                done(rustix::fs::linkat(CWD, self.path(from), CWD, self.path(to), AtFlags::empty()))
            }
            Op::Symlink { path, target } => {
                done(rustix::fs::symlinkat(target_name(target), CWD, self.path(path)))
            }
            Op::Readlink { path } => rustix::fs::readlinkat(CWD, self.path(path), Vec::new())
                .map(|target| Outcome::Bytes(target.into_bytes())),
            Op::Fifo { path, mode } => {
                let kind = rustix::fs::FileType::Fifo;
                done(rustix::fs::mknodat(CWD, self.path(path), kind, Mode::from_raw_mode(mode), 0))
            }
            Op::Chmod { path, mode } => {
                done(rustix::fs::chmodat(CWD, self.path(path), Mode::from_raw_mode(mode), AtFlags::empty()))
            }
            Op::Chown { path, uid, gid } => {
                let uid = uid.map(rustix::fs::Uid::from_raw);
                let gid = gid.map(rustix::fs::Gid::from_raw);
                done(rustix::fs::chownat(CWD, self.path(path), uid, gid, nofollow))
            }
            Op::Utimens { path, atime, mtime } => {
                let spec =
                    |(secs, nanos): (i64, u32)| rustix::fs::Timespec { tv_sec: secs, tv_nsec: nanos.into() };
                let times =
                    rustix::fs::Timestamps { last_access: spec(atime), last_modification: spec(mtime) };
                done(rustix::fs::utimensat(CWD, self.path(path), &times, nofollow))
            }
            Op::SetXattr { path, xattr, len, seed, mode } => {
                let flags = match mode {
                    XattrMode::Set => XattrFlags::empty(),
                    XattrMode::Create => XattrFlags::CREATE,
                    XattrMode::Replace => XattrFlags::REPLACE,
                };
                done(rustix::fs::lsetxattr(self.path(path), XATTRS[xattr], &pattern(seed, len), flags))
            }
            Op::GetXattr { path, xattr } => {
                let mut value = vec![0; 65_536];
                rustix::fs::lgetxattr(self.path(path), XATTRS[xattr], &mut value[..]).map(|len| {
                    value.truncate(len);
                    Outcome::Bytes(value)
                })
            }
            Op::RemoveXattr { path, xattr } => done(rustix::fs::lremovexattr(self.path(path), XATTRS[xattr])),
            Op::ListXattr { path } => {
                let mut names = vec![0; 65_536];
                rustix::fs::llistxattr(self.path(path), &mut names[..]).map(|len| {
                    let names = names[..len].split(|byte| *byte == 0).filter(|name| !name.is_empty());
                    Outcome::Names(
                        names.map(|name| (String::from_utf8_lossy(name).into_owned(), 'x')).collect(),
                    )
                })
            }
            _ => return None,
        })
    }
}

/// Symbolic links point nowhere: following them always ends in ENOENT.
pub fn target_name(target: u8) -> String {
    format!("nowhere-{}", "x".repeat(usize::from(target)))
}

pub fn read_at(file: &File, offset: u64, len: u64) -> Result<Vec<u8>, Errno> {
    let mut bytes = vec![0; len as usize];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], offset + filled as u64).map_err(errno)? {
            0 => break,
            n => filled += n,
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

pub fn list(path: &Path) -> Answer {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = rustix::fs::openat(CWD, path, flags, Mode::empty())?;
    let mut names = BTreeSet::new();
    let mut count = 0;
    for entry in rustix::fs::Dir::read_from(&dir)? {
        let entry = entry?;
        count += 1;
        names.insert((entry.file_name().to_string_lossy().into_owned(), type_letter(entry.file_type())));
    }
    assert_eq!(count, names.len(), "{path:?} lists a name twice");
    for dot in [".", ".."] {
        assert!(names.remove(&(dot.to_string(), 'd')), "{path:?} does not list {dot:?}");
    }
    Ok(Outcome::Names(names))
}

fn type_letter(kind: rustix::fs::FileType) -> char {
    match kind {
        rustix::fs::FileType::RegularFile => 'f',
        rustix::fs::FileType::Directory => 'd',
        rustix::fs::FileType::Symlink => 'l',
        rustix::fs::FileType::Fifo => 'p',
        _ => '?',
    }
}

pub fn stat(stat: rustix::fs::Stat) -> Stat {
    let kind = type_letter(rustix::fs::FileType::from_raw_mode(stat.st_mode));
    Stat {
        kind,
        mode: stat.st_mode & 0o7777,
        nlink: stat.st_nlink as u32,
        uid: stat.st_uid,
        gid: stat.st_gid,
        size: if kind == 'd' { 0 } else { stat.st_size as u64 },
        atime: (stat.st_atime, stat.st_atime_nsec as u32),
        mtime: (stat.st_mtime, stat.st_mtime_nsec as u32),
    }
}

fn is_fifo(meta: &std::fs::Metadata) -> bool {
    std::os::unix::fs::FileTypeExt::is_fifo(&meta.file_type())
}

fn done(result: Result<(), Errno>) -> Answer {
    result.map(|()| Outcome::Done)
}

fn errno(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or_else(|| panic!("an error with no errno: {error}"))
}
