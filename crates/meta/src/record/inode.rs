//! The inode record.

use headrace_kv::Read;
use headrace_layout::InodeNo;

use super::{Fields, VERSION, put_time};
use crate::{Attr, DirTotals, Kind, MAX_SYMLINK, MetaError, Result, Time, key};

/// The home of an inode that is in no directory.
pub(crate) const NOWHERE: InodeNo = InodeNo(0);

/// What an inode has, so that asking for it costs nothing where it has not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Flags(u16);

impl Flags {
    /// Extended attributes of any kind.
    pub const XATTRS: u16 = 1;
    /// An access ACL.
    pub const ACCESS_ACL: u16 = 1 << 1;
    /// A default ACL.
    pub const DEFAULT_ACL: u16 = 1 << 2;
    /// `security.capability`.
    pub const CAPABILITY: u16 = 1 << 3;
    /// Created without a name and never linked: may be.
    pub const LINKABLE: u16 = 1 << 4;
    /// Chunks past the end wait to be dropped.
    pub const UNSETTLED: u16 = 1 << 5;

    const KNOWN: u16 = (1 << 6) - 1;

    pub(crate) fn has(self, flag: u16) -> bool {
        self.0 & flag != 0
    }

    pub(crate) fn set(&mut self, flag: u16, on: bool) {
        if on {
            self.0 |= flag;
        } else {
            self.0 &= !flag;
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Inode {
    pub kind: Kind,
    pub flags: Flags,
    pub mode: u16,
    pub nlink: u32,
    pub uid: u32,
    pub gid: u32,
    pub rdev: u32,
    pub size: u64,
    pub allocated: u64,
    pub atime: Time,
    pub mtime: Time,
    pub ctime: Time,
    pub btime: Time,
    /// The directory that counts it in its totals: a directory's parent, the directory of a file's home name.
    pub home: InodeNo,
    /// Directories: the position of the next new name.
    pub next_cookie: u64,
    /// Symbolic links: where to.
    pub target: Vec<u8>,
}

impl Inode {
    pub(crate) fn load(read: &dyn Read, ino: InodeNo) -> Result<Option<Inode>> {
        read.get(&key::inode(ino))?.map(|bytes| Inode::decode(&bytes)).transpose()
    }

    pub(crate) fn require(read: &dyn Read, ino: InodeNo) -> Result<Inode> {
        Inode::load(read, ino)?.ok_or(MetaError::NotFound)
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Inode> {
        let mut fields = Fields::new("inode", bytes)?;
        let mut inode = Inode {
            kind: fields.kind()?,
            flags: Flags(fields.u16()?),
            mode: fields.u16()?,
            nlink: fields.u32()?,
            uid: fields.u32()?,
            gid: fields.u32()?,
            rdev: fields.u32()?,
            size: fields.u64()?,
            allocated: fields.u64()?,
            atime: fields.time()?,
            mtime: fields.time()?,
            ctime: fields.time()?,
            btime: fields.time()?,
            home: fields.ino()?,
            next_cookie: 0,
            target: Vec::new(),
        };
        match inode.kind {
            Kind::Directory => inode.next_cookie = fields.u64()?,
            Kind::Symlink => inode.target = fields.rest().to_vec(),
            _ => {}
        }
        fields.end()?;
        if inode.mode > 0o7777 || inode.flags.0 & !Flags::KNOWN != 0 {
            return Err(fields.error("mode or flags out of range"));
        }
        if inode.target.len() > MAX_SYMLINK {
            return Err(fields.error("the target is too long"));
        }
        Ok(inode)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(102 + self.target.len());
        out.extend_from_slice(&[VERSION, self.kind as u8]);
        out.extend_from_slice(&self.flags.0.to_be_bytes());
        out.extend_from_slice(&self.mode.to_be_bytes());
        for value in [self.nlink, self.uid, self.gid, self.rdev] {
            out.extend_from_slice(&value.to_be_bytes());
        }
        out.extend_from_slice(&self.size.to_be_bytes());
        out.extend_from_slice(&self.allocated.to_be_bytes());
        for time in [self.atime, self.mtime, self.ctime, self.btime] {
            put_time(&mut out, time);
        }
        out.extend_from_slice(&self.home.0.to_be_bytes());
        match self.kind {
            Kind::Directory => out.extend_from_slice(&self.next_cookie.to_be_bytes()),
            Kind::Symlink => out.extend_from_slice(&self.target),
            _ => {}
        }
        out
    }

    pub(crate) fn attr(&self, ino: InodeNo) -> Attr {
        Attr {
            ino,
            kind: self.kind,
            mode: self.mode,
            nlink: self.nlink,
            uid: self.uid,
            gid: self.gid,
            rdev: self.rdev,
            size: self.size,
            allocated: self.allocated,
            atime: self.atime,
            mtime: self.mtime,
            ctime: self.ctime,
            btime: self.btime,
        }
    }

    pub(crate) fn is_dir(&self) -> bool {
        self.kind == Kind::Directory
    }

    /// Sets mtime and ctime.
    pub(crate) fn modified(&mut self, now: Time) {
        self.mtime = now;
        self.ctime = now;
    }

    /// What a write or a change of owner takes away: set-user-id, and set-group-id where group execution is allowed
    /// (without it the bit means mandatory locking, which stays).
    pub(crate) fn kill_suid(&mut self) {
        self.mode &= !0o4000;
        if self.mode & 0o0010 != 0 {
            self.mode &= !0o2000;
        }
    }

    /// What it adds to the totals of its home.
    pub(crate) fn usage(&self) -> DirTotals {
        if self.is_dir() {
            DirTotals { directories: 1, ..DirTotals::default() }
        } else {
            DirTotals { files: 1, directories: 0, bytes: self.size, allocated: self.allocated }
        }
    }
}
