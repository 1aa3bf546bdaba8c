//! Structures in requests. Fields are named as in `linux/fuse.h`, where they are described.
#![allow(missing_docs)]

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

macro_rules! wire {
    ($($(#[$meta:meta])* $name:ident = $size:literal { $($(#[$doc:meta])* $field:ident: $type:ty,)* })*) => {
        $(
            $(#[$meta])*
            #[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
            #[repr(C)]
            pub struct $name {
                $($(#[$doc])* pub $field: $type,)*
            }

            const _: () = assert!(size_of::<$name>() == $size);
        )*
    };
}
pub(super) use wire;

wire! {
    /// Before every request.
    InHeader = 40 {
        len: u32,
        opcode: u32,
        unique: u64,
        nodeid: u64,
        uid: u32,
        gid: u32,
        pid: u32,
        /// Length of trailing extensions in units of 8 bytes.
        total_extlen: u16,
        padding: u16,
    }
    /// INIT up to 7.35; later kernels send `flags2` and padding after it.
    InitIn = 16 {
        major: u32,
        minor: u32,
        max_readahead: u32,
        flags: u32,
    }
    ForgetIn = 8 {
        nlookup: u64,
    }
    ForgetOne = 16 {
        nodeid: u64,
        nlookup: u64,
    }
    BatchForgetIn = 8 {
        count: u32,
        dummy: u32,
    }
    GetattrIn = 16 {
        getattr_flags: u32,
        dummy: u32,
        fh: u64,
    }
    StatxIn = 24 {
        getattr_flags: u32,
        reserved: u32,
        fh: u64,
        sx_flags: u32,
        sx_mask: u32,
    }
    SetattrIn = 88 {
        valid: u32,
        padding: u32,
        fh: u64,
        size: u64,
        lock_owner: u64,
        atime: i64,
        mtime: i64,
        ctime: i64,
        atimensec: u32,
        mtimensec: u32,
        ctimensec: u32,
        mode: u32,
        unused4: u32,
        uid: u32,
        gid: u32,
        unused5: u32,
    }
    MknodIn = 16 {
        mode: u32,
        rdev: u32,
        umask: u32,
        padding: u32,
    }
    MkdirIn = 8 {
        mode: u32,
        umask: u32,
    }
    RenameIn = 8 {
        newdir: u64,
    }
    Rename2In = 16 {
        newdir: u64,
        flags: u32,
        padding: u32,
    }
    LinkIn = 8 {
        oldnodeid: u64,
    }
    OpenRequest = 8 {
        flags: u32,
        open_flags: u32,
    }
    CreateIn = 16 {
        flags: u32,
        mode: u32,
        umask: u32,
        open_flags: u32,
    }
    ReleaseIn = 24 {
        fh: u64,
        flags: u32,
        release_flags: u32,
        lock_owner: u64,
    }
    FlushIn = 24 {
        fh: u64,
        unused: u32,
        padding: u32,
        lock_owner: u64,
    }
    ReadIn = 40 {
        fh: u64,
        offset: u64,
        size: u32,
        read_flags: u32,
        lock_owner: u64,
        flags: u32,
        padding: u32,
    }
    WriteIn = 40 {
        fh: u64,
        offset: u64,
        size: u32,
        write_flags: u32,
        lock_owner: u64,
        flags: u32,
        padding: u32,
    }
    FsyncIn = 16 {
        fh: u64,
        fsync_flags: u32,
        padding: u32,
    }
    /// With SETXATTR_EXT; without it only the first 8 bytes are sent.
    SetxattrIn = 16 {
        size: u32,
        flags: u32,
        setxattr_flags: u32,
        padding: u32,
    }
    GetxattrIn = 8 {
        size: u32,
        padding: u32,
    }
    InterruptIn = 8 {
        unique: u64,
    }
    FallocateIn = 32 {
        fh: u64,
        offset: u64,
        length: u64,
        mode: u32,
        padding: u32,
    }
    LseekIn = 24 {
        fh: u64,
        offset: u64,
        whence: u32,
        padding: u32,
    }
    CopyFileRangeIn = 56 {
        fh_in: u64,
        off_in: u64,
        nodeid_out: u64,
        fh_out: u64,
        off_out: u64,
        len: u64,
        flags: u64,
    }
}
