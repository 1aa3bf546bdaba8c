//! What callers see of an inode, and what they may ask to change.

use headrace_layout::InodeNo;

use crate::Time;

/// What an inode is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Kind {
    /// A regular file.
    File = 1,
    /// A directory.
    Directory = 2,
    /// A symbolic link.
    Symlink = 3,
    /// A character device.
    CharDevice = 4,
    /// A block device.
    BlockDevice = 5,
    /// A named pipe.
    Fifo = 6,
    /// A Unix socket.
    Socket = 7,
}

impl Kind {
    /// From the byte that records hold.
    pub(crate) fn from_byte(byte: u8) -> Option<Kind> {
        Some(match byte {
            1 => Kind::File,
            2 => Kind::Directory,
            3 => Kind::Symlink,
            4 => Kind::CharDevice,
            5 => Kind::BlockDevice,
            6 => Kind::Fifo,
            7 => Kind::Socket,
            _ => return None,
        })
    }
}

/// The attributes of an inode.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attr {
    /// Its number.
    pub ino: InodeNo,
    /// What it is.
    pub kind: Kind,
    /// Permission bits, `0..=0o7777`.
    pub mode: u16,
    /// Names it has; for a directory 2 plus its subdirectories. 0: unlinked, held by open files only.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number of a device node.
    pub rdev: u32,
    /// Length in bytes; of a symlink's target for a symlink; a constant for directories.
    pub size: u64,
    /// Bytes of data held (holes do not count); `st_blocks` is this in units of 512, rounded up.
    pub allocated: u64,
    /// Last access.
    pub atime: Time,
    /// Last change of the contents.
    pub mtime: Time,
    /// Last change of the inode.
    pub ctime: Time,
    /// Creation.
    pub btime: Time,
}

/// Who creates an inode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caller {
    /// Owner of what is created.
    pub uid: u32,
    /// Group of what is created, unless the directory is setgid.
    pub gid: u32,
    /// Permission bits to withhold, unless the directory has a default ACL.
    pub umask: u16,
}

/// A change of attributes; what is `None` stays. The length goes through [`crate::Namespace::truncate`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SetAttr {
    /// New permission bits.
    pub mode: Option<u16>,
    /// New owner.
    pub uid: Option<u32>,
    /// New group.
    pub gid: Option<u32>,
    /// New access time.
    pub atime: Option<Time>,
    /// New modification time.
    pub mtime: Option<Time>,
    /// New change time instead of now.
    pub ctime: Option<Time>,
    /// Clear set-user-id, and set-group-id where group execution is allowed.
    pub kill_suid: bool,
}

/// What became of an inode that lost a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unlinked {
    /// The inode.
    pub ino: InodeNo,
    /// Names left. 0: an orphan until [`crate::Namespace::reclaim`].
    pub nlink: u32,
    /// What it is.
    pub kind: Kind,
    /// It is kept in the trash ([`crate::Namespace::keep_deleted`]), with so many bytes of data.
    pub kept: Option<u64>,
}

/// How to treat an existing target of a rename.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RenameMode {
    /// Replace it.
    Replace,
    /// Fail with EEXIST.
    NoReplace,
    /// Swap the two.
    Exchange,
}

/// What a rename did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Renamed {
    /// The inode that was named by the old name.
    pub moved: InodeNo,
    /// What lost the new name, if something was replaced.
    pub replaced: Option<Unlinked>,
}

/// How to set an extended attribute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum XattrMode {
    /// Create or replace.
    Set,
    /// EEXIST if it is there.
    CreateOnly,
    /// ENODATA if it is not.
    ReplaceOnly,
}

/// A name in a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirEntry<'a> {
    /// Position: pass it as `after` to go on behind this entry. 3 or more; never reused in the directory.
    pub cookie: u64,
    /// The inode.
    pub ino: InodeNo,
    /// What it is.
    pub kind: Kind,
    /// The name.
    pub name: &'a [u8],
    /// Its attributes, if asked for.
    pub attr: Option<Attr>,
}

/// Totals of a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Inodes, orphans included.
    pub inodes: u64,
    /// Bytes of file data held, holes not counted, orphans included.
    pub bytes: u64,
}

/// Totals of what is in a directory. A file with several names counts once, in the directory of its first name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DirTotals {
    /// Everything that is not a directory.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Sum of lengths of what is not a directory.
    pub bytes: u64,
    /// Bytes of data held.
    pub allocated: u64,
}
