//! What is known of an inode, and what follows from it.

use headrace_layout::InodeNo;

use super::names::COOKIE_BOUND;
use crate::namespace::FIRST_COOKIE;
use crate::record::{Flags, Inode, NOWHERE};
use crate::{Kind, Time};

/// What its own record and all others say of an inode.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    pub kind: Kind,
    /// The directory of its home name; of a directory, where it is.
    pub home: InodeNo,
    /// Names its record counts.
    pub nlink: u32,
    pub size: u64,
    pub next_cookie: u64,
    /// Names there are.
    pub names: u32,
    /// Names in it, if it is a directory.
    pub entries: u64,
    /// Subdirectories in it.
    pub subdirectories: u32,
    pub orphan: bool,
    pub unsettled: bool,
    /// Flags that its attributes ask for.
    pub attributes: u16,
    /// Bytes that its extents cover.
    pub covered: u64,
    /// Where its data ends.
    pub data_end: u64,
    /// Where its data ends in the chunk that its end is in: what an unsettled file drops begins behind that chunk.
    pub last_chunk_end: u64,
}

impl Facts {
    pub(super) fn of(ino: InodeNo, inode: &Inode) -> Facts {
        Facts {
            kind: inode.kind,
            home: if ino == InodeNo::ROOT { ino } else { inode.home },
            nlink: inode.nlink,
            size: inode.size,
            // What names and positions show raises it again. Positions behind the bound would be given up by the next repair.
            next_cookie: if inode.next_cookie < COOKIE_BOUND { inode.next_cookie } else { FIRST_COOKIE },
            names: 0,
            entries: 0,
            subdirectories: 0,
            orphan: false,
            unsettled: inode.kind == Kind::File && inode.flags.has(Flags::UNSETTLED),
            attributes: 0,
            covered: 0,
            data_end: 0,
            last_chunk_end: 0,
        }
    }

    pub(super) fn is_dir(&self) -> bool {
        self.kind == Kind::Directory
    }

    /// The record as it should be.
    pub(super) fn corrected(&self, ino: InodeNo, stored: &Inode) -> Inode {
        let mut inode = stored.clone();
        let unlinked = self.names == 0 && self.orphan;
        inode.nlink = match (unlinked, self.is_dir()) {
            (true, _) => 0,
            (false, true) => self.subdirectories.saturating_add(2),
            (false, false) => self.names,
        };
        inode.home = match (unlinked, ino == InodeNo::ROOT) {
            (true, _) => NOWHERE,
            (false, true) => InodeNo::ROOT,
            (false, false) => self.home,
        };
        if self.is_dir() {
            inode.next_cookie = self.next_cookie;
        }
        for flag in [Flags::XATTRS, Flags::ACCESS_ACL, Flags::DEFAULT_ACL, Flags::CAPABILITY] {
            inode.flags.set(flag, self.attributes & flag != 0);
        }
        inode.flags.set(Flags::UNSETTLED, self.unsettled);
        inode.allocated = self.covered;
        // What is past the end of an unsettled file is being dropped; everything else that is there is data.
        if self.kind == Kind::File && !self.orphan {
            inode.size = inode.size.max(if self.unsettled { self.last_chunk_end } else { self.data_end });
        }
        inode
    }
}

/// What differs between two records, in words.
pub(super) fn differences(before: &Inode, after: &Inode) -> Vec<String> {
    let mut found = Vec::new();
    let mut note = |what: &str, old: u64, new: u64| {
        if old != new {
            found.push(format!("{what} {old} becomes {new}"));
        }
    };
    note("link count", u64::from(before.nlink), u64::from(after.nlink));
    note("home directory", before.home.0, after.home.0);
    note("next position", before.next_cookie, after.next_cookie);
    note("bytes of data", before.allocated, after.allocated);
    note("length", before.size, after.size);
    if before.flags != after.flags {
        found.push("flags are set anew".to_owned());
    }
    found
}

/// A record for an inode whose own is lost: owned by root and closed to others, since nobody knows who may read it.
pub(super) fn substitute(kind: Kind, now: Time) -> Inode {
    let mode = if kind == Kind::Directory { 0o700 } else { 0o600 };
    Inode::empty(kind, mode, now)
}
