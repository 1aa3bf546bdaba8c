//! Attributes and entries on the wire.

use std::time::Duration;

use zerocopy::FromZeros as _;

use crate::abi::{AttrOut, EntryOut, FuseAttr, OpenOut, OpenReply, Statx, StatxOut, StatxTime};
use crate::session::{BackingId, View};
use crate::{Attr, FileId, Kind, OpenMode, Time};

/// `st_blksize` of regular files: what stdio and many tools read and write at a time.
const FILE_BLOCK: u32 = 64 << 10;
const OTHER_BLOCK: u32 = 4096;
/// The unit of `st_blocks`.
const SECTOR: u64 = 512;

/// `S_IFMT` bits.
pub(super) fn type_bits(kind: Kind) -> u32 {
    match kind {
        Kind::File => libc::S_IFREG,
        Kind::Directory => libc::S_IFDIR,
        Kind::Symlink => libc::S_IFLNK,
        Kind::CharDevice => libc::S_IFCHR,
        Kind::BlockDevice => libc::S_IFBLK,
        Kind::Fifo => libc::S_IFIFO,
        Kind::Socket => libc::S_IFSOCK,
    }
}

/// From `S_IFMT` bits as mknod(2) takes them, where none means a regular file.
pub(super) fn kind_of(mode: u32) -> Option<Kind> {
    Some(match mode & libc::S_IFMT {
        0 | libc::S_IFREG => Kind::File,
        libc::S_IFCHR => Kind::CharDevice,
        libc::S_IFBLK => Kind::BlockDevice,
        libc::S_IFIFO => Kind::Fifo,
        libc::S_IFSOCK => Kind::Socket,
        _ => return None,
    })
}

fn block_size(kind: Kind) -> u32 {
    if kind == Kind::File { FILE_BLOCK } else { OTHER_BLOCK }
}

fn attr(attr: &Attr) -> FuseAttr {
    FuseAttr {
        ino: attr.ino.0,
        // The kernel takes an inode with a size beyond this for broken.
        size: attr.size.min(i64::MAX as u64),
        blocks: attr.allocated.div_ceil(SECTOR),
        atime: attr.atime.secs,
        mtime: attr.mtime.secs,
        ctime: attr.ctime.secs,
        atimensec: attr.atime.nanos,
        mtimensec: attr.mtime.nanos,
        ctimensec: attr.ctime.nanos,
        mode: type_bits(attr.kind) | u32::from(attr.mode & 0o7777),
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        rdev: attr.rdev,
        blksize: block_size(attr.kind),
        flags: 0,
    }
}

fn parts(duration: Duration) -> (u64, u32) {
    (duration.as_secs(), duration.subsec_nanos())
}

/// An entry that exists, about to be told.
pub(super) fn entry(found: &Attr, view: &View) -> EntryOut {
    view.told(found);
    let (secs, nanos) = parts(view.ttl(found.ino));
    EntryOut {
        nodeid: found.ino.0,
        // Inode numbers are never reused, but a directory may come back.
        generation: view.generation(found.ino),
        entry_valid: secs,
        attr_valid: secs,
        entry_valid_nsec: nanos,
        attr_valid_nsec: nanos,
        attr: attr(found),
    }
}

/// An entry that does not exist, which the kernel may remember.
pub(super) fn no_entry(believed: Duration) -> EntryOut {
    let (secs, nanos) = parts(believed);
    EntryOut { entry_valid: secs, entry_valid_nsec: nanos, ..EntryOut::new_zeroed() }
}

/// Attributes.
pub(super) fn attributes(found: &Attr, view: &View) -> AttrOut {
    view.told(found);
    let (secs, nanos) = parts(view.ttl(found.ino));
    AttrOut { attr_valid: secs, attr_valid_nsec: nanos, dummy: 0, attr: attr(found) }
}

/// Attributes with the time of creation.
pub(super) fn statx(found: &Attr, view: &View) -> StatxOut {
    view.told(found);
    let (secs, nanos) = parts(view.ttl(found.ino));
    let time = |time: Time| StatxTime { tv_sec: time.secs, tv_nsec: time.nanos, reserved: 0 };
    let plain = attr(found);
    let stat = Statx {
        mask: libc::STATX_BASIC_STATS | libc::STATX_BTIME,
        blksize: plain.blksize,
        nlink: plain.nlink,
        uid: plain.uid,
        gid: plain.gid,
        mode: plain.mode as u16,
        ino: plain.ino,
        size: plain.size,
        blocks: plain.blocks,
        atime: time(found.atime),
        btime: time(found.btime),
        ctime: time(found.ctime),
        mtime: time(found.mtime),
        // As the kernel packs device numbers into 32 bits.
        rdev_major: (plain.rdev >> 8) & 0xfff,
        rdev_minor: (plain.rdev & 0xff) | ((plain.rdev >> 12) & 0xf_ff00),
        ..Statx::new_zeroed()
    };
    StatxOut { attr_valid: secs, attr_valid_nsec: nanos, flags: 0, spare: [0; 2], stat }
}

/// An open file; `backing`: that of its mode, by the number the kernel gave it.
pub(super) fn opened(file: FileId, mode: &OpenMode, backing: Option<BackingId>) -> OpenReply {
    let mut flags = OpenOut::empty();
    // What is passed through is not in the page cache of this inode. The kernel takes the two together for a mistake.
    flags.set(OpenOut::KEEP_CACHE, mode.keep_cache && backing.is_none());
    flags.set(OpenOut::DIRECT_IO, mode.direct_io);
    flags.set(OpenOut::NOFLUSH, mode.noflush);
    flags.set(OpenOut::PASSTHROUGH, backing.is_some());
    OpenReply { fh: file.0, open_flags: flags.bits(), backing_id: backing.map_or(0, |id| id.0) }
}
