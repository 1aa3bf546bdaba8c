//! Changing attributes.

use headrace_layout::InodeNo;

use super::{Namespace, xattr};
use crate::record::Flags;
use crate::{Attr, MetaError, Result, SetAttr, Time};

impl Namespace {
    /// Changes attributes. A change of permission bits is carried into the access ACL; a change of owner or group of
    /// anything but a directory takes away set-user-id, set-group-id (where group execution is allowed) and
    /// `security.capability`.
    pub fn setattr(&self, ino: InodeNo, change: &SetAttr) -> Result<Attr> {
        for time in [change.atime, change.mtime, change.ctime].into_iter().flatten() {
            time.check()?;
        }
        self.update(|tx| {
            let now = tx.now;
            let inode = tx.inode(ino)?;
            let chown = change.uid.is_some() || change.gid.is_some();
            inode.uid = change.uid.unwrap_or(inode.uid);
            inode.gid = change.gid.unwrap_or(inode.gid);
            let strip = !inode.is_dir() && (chown || change.kill_suid);
            if strip {
                inode.kill_suid();
            }
            if let Some(mode) = change.mode {
                inode.mode = mode & 0o7777;
            }
            inode.atime = change.atime.unwrap_or(inode.atime);
            inode.mtime = change.mtime.unwrap_or(inode.mtime);
            inode.ctime = change.ctime.unwrap_or(now);
            let (mode, flags) = (inode.mode, inode.flags);
            if change.mode.is_some() && flags.has(Flags::ACCESS_ACL) {
                xattr::carry_mode_into_acl(tx, ino, mode)?;
            }
            if strip {
                xattr::drop_capability(tx, ino)?;
            }
            Ok(tx.inode(ino)?.attr(ino))
        })
    }
}

impl Time {
    /// Refuses what cannot be written down.
    pub(crate) fn check(self) -> Result<()> {
        if self.nanos < 1_000_000_000 {
            Ok(())
        } else {
            Err(MetaError::Invalid("a time has more than a second of nanoseconds"))
        }
    }
}
