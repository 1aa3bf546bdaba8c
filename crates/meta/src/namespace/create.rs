//! New inodes.

use headrace_layout::InodeNo;

use super::{Namespace, acl, name, xattr};
use crate::record::{Flags, Inode};
use crate::transaction::Tx;
use crate::{Attr, Caller, Kind, MAX_SYMLINK, MetaError, Result, key};

impl Namespace {
    /// Creates an inode of any kind under a name. `target` is a symbolic link's, and only theirs; `rdev` a device node's.
    /// Group and set-group-id come from a set-group-id directory; permissions from its default ACL, else the umask.
    #[allow(clippy::too_many_arguments)]
    pub fn create(
        &self,
        parent: InodeNo,
        name: &[u8],
        kind: Kind,
        mode: u16,
        rdev: u32,
        target: Option<&[u8]>,
        caller: &Caller,
    ) -> Result<Attr> {
        name::check_new(name)?;
        let target = match (kind, target) {
            (Kind::Symlink, Some([])) => return Err(MetaError::NotFound),
            (Kind::Symlink, Some(target)) if target.len() > MAX_SYMLINK => {
                return Err(MetaError::NameTooLong);
            }
            (Kind::Symlink, Some(target)) if target.contains(&0) => {
                return Err(MetaError::Invalid("the target of a symbolic link holds NUL"));
            }
            (Kind::Symlink, Some(target)) => target,
            (Kind::Symlink, None) => return Err(MetaError::Invalid("a symbolic link needs a target")),
            (_, Some(_)) => return Err(MetaError::Invalid("only a symbolic link has a target")),
            (_, None) => &[],
        };
        let rdev = if matches!(kind, Kind::CharDevice | Kind::BlockDevice) { rdev } else { 0 };
        self.update(|tx| {
            tx.directory(parent)?;
            if tx.entry(parent, name)?.is_some() {
                return Err(MetaError::Exists);
            }
            let (mut inode, inherited) = inherit(tx, parent, kind, mode, caller)?;
            inode.home = parent;
            inode.rdev = rdev;
            if kind == Kind::Symlink {
                inode.size = target.len() as u64;
                inode.target = target.to_vec();
            }
            let ino = tx.add_inode(inode)?;
            inherited.write(tx, ino)?;
            if kind == Kind::Directory {
                tx.gain_subdirectory(parent)?;
            }
            tx.append_entry(parent, name, ino, kind)?;
            tx.touch(parent)?;
            Ok(tx.inode(ino)?.attr(ino))
        })
    }

    /// Creates a file without a name (`O_TMPFILE`), an orphan that [`Namespace::link`] may give one.
    pub fn create_unnamed(&self, parent: InodeNo, mode: u16, caller: &Caller) -> Result<Attr> {
        self.update(|tx| {
            tx.directory(parent)?;
            let (mut inode, inherited) = inherit(tx, parent, Kind::File, mode, caller)?;
            inode.nlink = 0;
            inode.flags.set(Flags::LINKABLE, true);
            let ino = tx.add_inode(inode)?;
            inherited.write(tx, ino)?;
            tx.put(&key::orphan(ino), &[]);
            Ok(tx.inode(ino)?.attr(ino))
        })
    }
}

/// ACLs, encoded, that a new inode starts with.
struct InheritedAcls {
    access: Option<Vec<u8>>,
    default: Option<Vec<u8>>,
}

impl InheritedAcls {
    fn write(&self, tx: &mut Tx<'_>, ino: InodeNo) -> Result<()> {
        for (name, value) in [(xattr::ACCESS_ACL, &self.access), (xattr::DEFAULT_ACL, &self.default)] {
            if let Some(value) = value {
                xattr::store(tx, ino, name, value)?;
            }
        }
        Ok(())
    }
}

/// What a new inode takes over from its directory.
fn inherit(
    tx: &mut Tx<'_>,
    parent: InodeNo,
    kind: Kind,
    mode: u16,
    caller: &Caller,
) -> Result<(Inode, InheritedAcls)> {
    let now = tx.now;
    let directory = tx.directory(parent)?;
    let (parent_mode, parent_gid, flags) = (directory.mode, directory.gid, directory.flags);
    let mut mode = mode & 0o7777;
    let mut acls = InheritedAcls { access: None, default: None };
    if kind == Kind::Symlink {
        mode = 0o777;
    } else if flags.has(Flags::DEFAULT_ACL) {
        let encoded = tx.read().get(&key::xattr(parent, xattr::DEFAULT_ACL))?.map(|value| value.into_owned());
        let encoded = encoded
            .ok_or_else(|| MetaError::Corrupt(format!("the default ACL of directory {parent} is missing")))?;
        let mut acl = acl::Acl::decode(&encoded)?
            .ok_or_else(|| MetaError::Corrupt(format!("the default ACL of directory {parent} is empty")))?;
        mode = acl.restrict(mode);
        acls.access = (!acl.is_minimal()).then(|| acl.encode());
        acls.default = (kind == Kind::Directory).then_some(encoded);
    } else {
        mode &= !(caller.umask & 0o777);
    }
    let mut gid = caller.gid;
    if parent_mode & 0o2000 != 0 {
        gid = parent_gid;
        if kind == Kind::Directory {
            mode |= 0o2000;
        }
    }
    let inode = Inode { uid: caller.uid, gid, ..Inode::empty(kind, mode, now) };
    Ok((inode, acls))
}
