//! Bits in requests and replies. Bits that are not listed are ignored, as the protocol asks.

use bitflags::bitflags;

bitflags! {
    /// What kernel and file system can do, exchanged at INIT (the upper half travels in `flags2`).
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct InitFlags: u64 {
        /// Several reads of one file at a time.
        const ASYNC_READ = 1 << 0;
        /// POSIX locks are the file system's business.
        const POSIX_LOCKS = 1 << 1;
        /// O_TRUNC arrives with OPEN.
        const ATOMIC_O_TRUNC = 1 << 3;
        /// "." and ".." can be looked up in any inode.
        const EXPORT_SUPPORT = 1 << 4;
        /// Writes beyond one page.
        const BIG_WRITES = 1 << 5;
        /// The file system applies the umask (or a default ACL instead).
        const DONT_MASK = 1 << 6;
        /// BSD locks are the file system's business.
        const FLOCK_LOCKS = 1 << 10;
        /// ioctl on directories.
        const HAS_IOCTL_DIR = 1 << 11;
        /// Drop cached pages when size or mtime change unexpectedly.
        const AUTO_INVAL_DATA = 1 << 12;
        /// READDIRPLUS.
        const DO_READDIRPLUS = 1 << 13;
        /// READDIRPLUS only where it seems to pay.
        const READDIRPLUS_AUTO = 1 << 14;
        /// Several direct requests of one call at a time.
        const ASYNC_DIO = 1 << 15;
        /// The kernel keeps dirty pages.
        const WRITEBACK_CACHE = 1 << 16;
        /// ENOSYS to OPEN means that opens need no message.
        const NO_OPEN_SUPPORT = 1 << 17;
        /// Lookups and readdirs in one directory run in parallel.
        const PARALLEL_DIROPS = 1 << 18;
        /// First version of HANDLE_KILLPRIV_V2.
        const HANDLE_KILLPRIV = 1 << 19;
        /// POSIX ACLs, enforced by the kernel.
        const POSIX_ACL = 1 << 20;
        /// Reading from an aborted connection gives ECONNABORTED rather than ENODEV.
        const ABORT_ERROR = 1 << 21;
        /// `max_pages` in the INIT reply counts.
        const MAX_PAGES = 1 << 22;
        /// Symbolic links may be cached.
        const CACHE_SYMLINKS = 1 << 23;
        /// ENOSYS to OPENDIR means that opens need no message.
        const NO_OPENDIR_SUPPORT = 1 << 24;
        /// Cached pages go only when the file system says so.
        const EXPLICIT_INVAL_DATA = 1 << 25;
        /// The file system clears setuid, setgid and capabilities, when it is told to.
        const HANDLE_KILLPRIV_V2 = 1 << 28;
        /// SETXATTR carries flags.
        const SETXATTR_EXT = 1 << 29;
        /// `flags2` counts.
        const INIT_EXT = 1 << 30;
        /// Security labels come with creating requests.
        const SECURITY_CTX = 1 << 32;
        /// The supplementary group that matters comes with creating requests.
        const CREATE_SUPP_GROUP = 1 << 34;
        /// Entries can be expired without being dropped.
        const HAS_EXPIRE_ONLY = 1 << 35;
        /// Shared mappings of files in direct mode.
        const DIRECT_IO_ALLOW_MMAP = 1 << 36;
        /// Reads and writes may go straight to a local file.
        const PASSTHROUGH = 1 << 37;
        /// No export over NFS.
        const NO_EXPORT_SUPPORT = 1 << 38;
        /// Requests can be sent again after a restart.
        const HAS_RESEND = 1 << 39;
        /// Mounts with mapped ids.
        const ALLOW_IDMAP = 1 << 40;
        /// The io_uring transport.
        const OVER_IO_URING = 1 << 41;
        /// The kernel gives up on requests after a time.
        const REQUEST_TIMEOUT = 1 << 42;
    }

    /// Which fields of SETATTR count.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct SetattrValid: u32 {
        /// `mode`.
        const MODE = 1 << 0;
        /// `uid`.
        const UID = 1 << 1;
        /// `gid`.
        const GID = 1 << 2;
        /// `size`.
        const SIZE = 1 << 3;
        /// `atime`.
        const ATIME = 1 << 4;
        /// `mtime`.
        const MTIME = 1 << 5;
        /// `fh`.
        const FH = 1 << 6;
        /// Access time becomes now.
        const ATIME_NOW = 1 << 7;
        /// Modification time becomes now.
        const MTIME_NOW = 1 << 8;
        /// `lock_owner`.
        const LOCKOWNER = 1 << 9;
        /// `ctime`.
        const CTIME = 1 << 10;
        /// Clear setuid, and setgid if the group may execute.
        const KILL_SUIDGID = 1 << 11;
    }

    /// In OPEN and CREATE requests.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct OpenIn: u32 {
        /// Clear setuid and setgid because of O_TRUNC. Only sent with ATOMIC_O_TRUNC, or for a CREATE of a file that
        /// exists, which an exclusively owned directory does not see.
        const KILL_SUIDGID = 1 << 0;
    }

    /// In replies to OPEN, OPENDIR, CREATE and TMPFILE.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct OpenOut: u32 {
        /// No page cache.
        const DIRECT_IO = 1 << 0;
        /// Pages cached earlier are still right.
        const KEEP_CACHE = 1 << 1;
        /// No seeking.
        const NONSEEKABLE = 1 << 2;
        /// The kernel may cache the entries of this directory.
        const CACHE_DIR = 1 << 3;
        /// A stream.
        const STREAM = 1 << 4;
        /// No FLUSH at close.
        const NOFLUSH = 1 << 5;
        /// Direct writes in parallel.
        const PARALLEL_DIRECT_WRITES = 1 << 6;
        /// Read and write the backing file named by `backing_id`.
        const PASSTHROUGH = 1 << 7;
    }

    /// In WRITE requests.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct WriteFlags: u32 {
        /// From the page cache (mmap): the handle is a guess.
        const CACHE = 1 << 0;
        /// `lock_owner` counts.
        const LOCKOWNER = 1 << 1;
        /// The writer may not keep setuid and setgid.
        const KILL_SUIDGID = 1 << 2;
    }

    /// In SETXATTR requests.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct SetxattrFlags: u32 {
        /// Clear setgid with this ACL.
        const ACL_KILL_SGID = 1 << 0;
    }

    /// In FSYNC and FSYNCDIR requests.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct FsyncFlags: u32 {
        /// Data, and only the attributes needed to find it.
        const DATASYNC = 1 << 0;
    }

    /// `fallocate(2)` modes.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct FallocateMode: i32 {
        /// The size stays.
        const KEEP_SIZE = 1;
        /// Make a hole.
        const PUNCH_HOLE = 2;
        /// Make zeroes.
        const ZERO_RANGE = 16;
    }
}

/// `renameat2(2)` flags.
pub mod rename {
    /// Fail if the new name exists.
    pub const NOREPLACE: u32 = 1;
    /// Swap the two.
    pub const EXCHANGE: u32 = 2;
}
