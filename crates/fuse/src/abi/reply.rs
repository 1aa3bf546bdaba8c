//! Structures in replies. Fields are named as in `linux/fuse.h`, where they are described.
#![allow(missing_docs)]

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::request::wire;

wire! {
    /// Before every reply. `error` is 0 or a negative error number.
    OutHeader = 16 {
        len: u32,
        error: i32,
        unique: u64,
    }
    InitOut = 64 {
        major: u32,
        minor: u32,
        max_readahead: u32,
        flags: u32,
        max_background: u16,
        congestion_threshold: u16,
        max_write: u32,
        time_gran: u32,
        max_pages: u16,
        map_alignment: u16,
        flags2: u32,
        /// File systems that may be stacked below passthrough; 0 without it.
        max_stack_depth: u32,
        request_timeout: u16,
        unused: [u16; 11],
    }
    FuseAttr = 88 {
        ino: u64,
        size: u64,
        blocks: u64,
        atime: i64,
        mtime: i64,
        ctime: i64,
        atimensec: u32,
        mtimensec: u32,
        ctimensec: u32,
        mode: u32,
        nlink: u32,
        uid: u32,
        gid: u32,
        rdev: u32,
        blksize: u32,
        flags: u32,
    }
    EntryOut = 128 {
        nodeid: u64,
        generation: u64,
        entry_valid: u64,
        attr_valid: u64,
        entry_valid_nsec: u32,
        attr_valid_nsec: u32,
        attr: FuseAttr,
    }
    AttrOut = 104 {
        attr_valid: u64,
        attr_valid_nsec: u32,
        dummy: u32,
        attr: FuseAttr,
    }
    StatxTime = 16 {
        tv_sec: i64,
        tv_nsec: u32,
        reserved: i32,
    }
    Statx = 256 {
        mask: u32,
        blksize: u32,
        attributes: u64,
        nlink: u32,
        uid: u32,
        gid: u32,
        mode: u16,
        spare0: u16,
        ino: u64,
        size: u64,
        blocks: u64,
        attributes_mask: u64,
        atime: StatxTime,
        btime: StatxTime,
        ctime: StatxTime,
        mtime: StatxTime,
        rdev_major: u32,
        rdev_minor: u32,
        dev_major: u32,
        dev_minor: u32,
        spare2: [u64; 14],
    }
    StatxOut = 288 {
        attr_valid: u64,
        attr_valid_nsec: u32,
        flags: u32,
        spare: [u64; 2],
        stat: Statx,
    }
    OpenReply = 16 {
        fh: u64,
        open_flags: u32,
        backing_id: i32,
    }
    WriteOut = 8 {
        size: u32,
        padding: u32,
    }
    CopyFileRangeOut = 8 {
        bytes_copied: u64,
    }
    LseekOut = 8 {
        offset: u64,
    }
    GetxattrOut = 8 {
        size: u32,
        padding: u32,
    }
    StatfsOut = 80 {
        blocks: u64,
        bfree: u64,
        bavail: u64,
        files: u64,
        ffree: u64,
        bsize: u32,
        namelen: u32,
        frsize: u32,
        padding: u32,
        spare: [u32; 6],
    }
    /// A directory entry; the name follows, padded to 8 bytes.
    DirentHeader = 24 {
        ino: u64,
        off: u64,
        namelen: u32,
        kind: u32,
    }
    NotifyInvalInode = 24 {
        ino: u64,
        off: i64,
        len: i64,
    }
    /// The name and a NUL follow.
    NotifyInvalEntry = 16 {
        parent: u64,
        namelen: u32,
        flags: u32,
    }
}

/// Messages to the kernel that answer no request: the header's `unique` is 0 and its `error` one of these.
pub mod notify {
    pub const INVAL_INODE: i32 = 2;
    pub const INVAL_ENTRY: i32 = 3;
    /// In [`super::NotifyInvalEntry::flags`]: let the entry expire rather than drop it.
    pub const EXPIRE_ONLY: u32 = 1;
}
