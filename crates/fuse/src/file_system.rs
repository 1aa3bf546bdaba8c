//! What the front end asks of a file system. `headrace_vfs::Vfs` is the real one (see `adapter`).

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use headrace_vfs::{Keeper, MemoryPlan};

pub use headrace_vfs::{
    Attr, Backing, Caller, DirEntry, FileId, InodeNo, Kind, OpenMode, ReadReply, RenameMode, SetAttr, StatFs,
    Time, XattrMode,
};

use crate::Errno;

/// What a call gives, or the number that the caller of the system call will see.
pub type Result<T, E = Errno> = std::result::Result<T, E>;

/// A call that may have to wait. It is polled once in the thread that read the request; if it is not ready it moves
/// to the runtime. Dropping it must leave the file system consistent: that is what an interrupt does.
pub type Pending<T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'static>>;

/// The calls that requests from the kernel turn into.
///
/// Permissions are not checked here: the kernel does it (`default_permissions`). Every call that answers an entry
/// (`lookup`, `mknod`, `symlink`, `create`, `tmpfile`, `link`, and each entry other than "." and ".." that a
/// `readdir` with `plus` had accepted) counts one reference, which `forget` gives back.
pub trait FileSystem: Send + Sync + 'static {
    /// Whether nothing but this mount can change the volume, so that the kernel may cache for long.
    fn exclusive(&self) -> bool;

    /// What of the process's memory is for requests: their buffers, those who read them, those that wait.
    fn memory(&self) -> MemoryPlan {
        MemoryPlan::new(512 << 20, 16 << 20)
    }

    /// Whether there is room for the data of more requests. Blocks for it, but no longer than `at_most`.
    fn wait_for_room(&self, _at_most: Duration) -> bool {
        true
    }

    /// Told once: who keeps buffers of written data that nobody uses, to be told how much they may take. Without an answer they take none
    /// beyond the plan's.
    fn keep_buffers(&self, _keeper: Arc<dyn Keeper>) {}

    /// What to wait for before a change of names or attributes; `None` if there is room for it. Asked before each call that
    /// changes something and is not [`Pending`].
    fn admit(&self) -> Option<Pending<()>> {
        None
    }

    /// Told once, before anything is asked: whether opens may have a backing file ([`OpenMode::backing`]), or why not, in words
    /// for a person. One that has it all the same is answered through [`FileSystem::not_passed_through`].
    fn passthrough(&self, _possible: Result<(), String>) {}

    /// Finds an entry. "." and ".." are asked for when a mount is exported over NFS.
    fn lookup(&self, parent: InodeNo, name: &[u8]) -> Result<Attr>;
    /// Gives back `count` references.
    fn forget(&self, ino: InodeNo, count: u64);
    /// Attributes, with data not yet flushed taken into account.
    fn getattr(&self, ino: InodeNo) -> Result<Attr>;
    /// Changes attributes and, with `size`, the length.
    fn setattr(&self, ino: InodeNo, change: SetAttr, size: Option<u64>) -> Pending<Attr>;
    /// Creates a file of any kind but a symbolic link; a directory too.
    fn mknod(
        &self,
        parent: InodeNo,
        name: &[u8],
        kind: Kind,
        mode: u16,
        rdev: u32,
        caller: &Caller,
    ) -> Result<Attr>;
    /// Creates a symbolic link.
    fn symlink(&self, parent: InodeNo, name: &[u8], target: &[u8], caller: &Caller) -> Result<Attr>;
    /// Creates a regular file and opens it.
    fn create(
        &self,
        parent: InodeNo,
        name: &[u8],
        mode: u16,
        flags: i32,
        caller: &Caller,
    ) -> Result<(Attr, FileId, OpenMode)>;
    /// Creates an unnamed regular file and opens it (`O_TMPFILE`).
    fn tmpfile(
        &self,
        parent: InodeNo,
        mode: u16,
        flags: i32,
        caller: &Caller,
    ) -> Result<(Attr, FileId, OpenMode)>;
    /// Removes a name that is not a directory's.
    fn unlink(&self, parent: InodeNo, name: &[u8]) -> Result<()>;
    /// Removes an empty directory.
    fn rmdir(&self, parent: InodeNo, name: &[u8]) -> Result<()>;
    /// Gives an inode another name.
    fn link(&self, ino: InodeNo, parent: InodeNo, name: &[u8]) -> Result<Attr>;
    /// Renames, as `renameat2`.
    fn rename(
        &self,
        parent: InodeNo,
        name: &[u8],
        new_parent: InodeNo,
        new_name: &[u8],
        mode: RenameMode,
    ) -> Pending<()>;
    /// Directories that came back with a rename out of the trash while the kernel held them as removed, each told of once.
    fn take_renewed(&self) -> Vec<InodeNo> {
        Vec::new()
    }
    /// A symbolic link's target.
    fn readlink(&self, ino: InodeNo) -> Result<Vec<u8>>;

    /// Opens a regular file.
    ///
    /// The modes of an inode's open files bear on each other. From the first open with a backing file to the release of the last such
    /// one, every open must have that same backing file, or it fails with `EIO`. The first must wait for the release of all that have
    /// none: it fails so while one is cached, or is mapped shared, as a file in `direct_io` may be without anybody being told; and
    /// one whose answer is still on its way to the kernel fails itself. An open counts from before its answer to its release.
    ///
    /// Opening with a backing file drops what the kernel has cached of the inode. A mapping of a file opened so is a mapping of
    /// the backing file: what is written to it goes there unheard, `direct_io` or not, and it outlives the release. A backing file
    /// must thus never be shortened or given holes while somebody may have it mapped, which a lease (`F_SETLEASE`) tells.
    fn open(&self, ino: InodeNo, flags: i32) -> Result<(FileId, OpenMode)>;
    /// The kernel refused the backing file of `file`, which was just opened or created: `why` is `EPERM` without `CAP_SYS_ADMIN`,
    /// `ELOOP` for a file on a stacked file system such as overlayfs, `EBUSY` if the inode is open with another one, or what else
    /// it says. Answers the mode in which it is opened instead, which must have no backing file. On an error the open fails, and
    /// `file` is released.
    fn not_passed_through(&self, _ino: InodeNo, _file: FileId, _why: Errno) -> Result<OpenMode> {
        Ok(OpenMode { keep_cache: self.exclusive(), ..OpenMode::default() })
    }
    /// Reads up to `len` bytes; fewer only at the end of the file.
    fn read(&self, ino: InodeNo, file: FileId, offset: u64, len: u32) -> Pending<ReadReply>;
    /// Writes; answers how many bytes were accepted.
    fn write(&self, ino: InodeNo, file: FileId, offset: u64, data: Bytes, kill_suid: bool) -> Pending<u32>;
    /// One descriptor of an open file was closed.
    fn flush(&self, ino: InodeNo, file: FileId) -> Pending<()>;
    /// Makes a file durable.
    fn fsync(&self, ino: InodeNo, file: FileId, datasync: bool) -> Pending<()>;
    /// Makes a directory durable.
    fn fsyncdir(&self, ino: InodeNo) -> Pending<()>;
    /// The last descriptor of an open file is gone.
    fn release(&self, ino: InodeNo, file: FileId) -> Pending<()>;
    /// As `fallocate(2)`.
    fn fallocate(&self, ino: InodeNo, file: FileId, offset: u64, len: u64, mode: i32) -> Pending<()>;
    /// `SEEK_DATA` and `SEEK_HOLE`.
    fn lseek(&self, ino: InodeNo, offset: u64, whence: i32) -> Pending<u64>;
    /// As `copy_file_range(2)`.
    fn copy_file_range(
        &self,
        source: InodeNo,
        source_offset: u64,
        target: InodeNo,
        target_offset: u64,
        len: u64,
    ) -> Pending<u64>;

    /// Opens a directory. Not asked by an owner: the kernel then does without.
    fn opendir(&self, ino: InodeNo) -> Result<FileId>;
    /// Entries after the cookie `after` (0: from the start), "." and ".." first, until `visit` declines one.
    fn readdir(
        &self,
        dir: InodeNo,
        after: u64,
        plus: bool,
        visit: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<()>;

    /// The value of an extended attribute.
    fn getxattr(&self, ino: InodeNo, name: &[u8]) -> Result<Vec<u8>>;
    /// Sets one. `kill_sgid`: setting this access ACL must clear the set-group-id bit.
    fn setxattr(
        &self,
        ino: InodeNo,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
        kill_sgid: bool,
    ) -> Result<()>;
    /// The names of all extended attributes.
    fn listxattr(&self, ino: InodeNo) -> Result<Vec<Vec<u8>>>;
    /// Removes one.
    fn removexattr(&self, ino: InodeNo, name: &[u8]) -> Result<()>;

    /// Space and inode counts.
    fn statfs(&self) -> Result<StatFs>;
    /// Everything acknowledged is made durable.
    fn flush_all(&self) -> Pending<()>;
}
