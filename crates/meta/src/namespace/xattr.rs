//! Extended attributes.

use std::ops::ControlFlow;

use headrace_kv::Read;
use headrace_layout::InodeNo;

use super::Namespace;
use super::acl::Acl;
use crate::key::Key;
use crate::record::{Flags, Inode};
use crate::transaction::Tx;
use crate::{Kind, MetaError, Result, XattrMode, key};

/// Longest name, as in Linux.
const MAX_XATTR_NAME: usize = 255;
/// Longest value, as in Linux.
pub(super) const MAX_VALUE: usize = 64 << 10;
/// Longest list of names, each with its NUL, as in Linux.
const MAX_LIST: usize = 64 << 10;

pub(super) const ACCESS_ACL: &[u8] = b"system.posix_acl_access";
pub(super) const DEFAULT_ACL: &[u8] = b"system.posix_acl_default";
const CAPABILITY: &[u8] = b"security.capability";

/// The families of attributes that differ in their rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Family {
    AccessAcl,
    DefaultAcl,
    User,
    /// trusted.* and security.*
    Kernel,
}

impl Family {
    fn of(name: &[u8]) -> Result<Family> {
        if name.is_empty() || name.len() > MAX_XATTR_NAME || name.contains(&0) {
            return Err(MetaError::Range);
        }
        if name == ACCESS_ACL {
            return Ok(Family::AccessAcl);
        }
        if name == DEFAULT_ACL {
            return Ok(Family::DefaultAcl);
        }
        for (prefix, family) in
            [(&b"user."[..], Family::User), (b"trusted.", Family::Kernel), (b"security.", Family::Kernel)]
        {
            if name == prefix {
                return Err(MetaError::Invalid("the name of the attribute is only a prefix"));
            }
            if name.starts_with(prefix) {
                return Ok(family);
            }
        }
        Err(MetaError::Unsupported("attributes of this family"))
    }

    /// Whether such an inode can have one.
    fn check_kind(self, kind: Kind) -> Result<()> {
        match (self, kind) {
            (Family::User, Kind::File | Kind::Directory) | (Family::Kernel, _) => Ok(()),
            (Family::User, _) => {
                Err(MetaError::NotPermitted("user attributes are for files and directories"))
            }
            (Family::AccessAcl | Family::DefaultAcl, Kind::Symlink) => {
                Err(MetaError::Unsupported("an ACL on a symbolic link"))
            }
            (Family::AccessAcl, _) | (Family::DefaultAcl, Kind::Directory) => Ok(()),
            (Family::DefaultAcl, _) => Err(MetaError::Access("a default ACL is for directories")),
        }
    }
}

/// The flag that says that an attribute is there, for those that have one of their own.
fn flag_of(name: &[u8]) -> Option<u16> {
    match name {
        name if name == ACCESS_ACL => Some(Flags::ACCESS_ACL),
        name if name == DEFAULT_ACL => Some(Flags::DEFAULT_ACL),
        name if name == CAPABILITY => Some(Flags::CAPABILITY),
        _ => None,
    }
}

/// What the flags of an inode with these attributes are, as far as attributes decide them.
pub(crate) fn expected_flags<'a>(names: impl Iterator<Item = &'a [u8]>) -> u16 {
    names.fold(0, |flags, name| flags | Flags::XATTRS | flag_of(name).unwrap_or(0))
}

impl Namespace {
    /// The value of an attribute. [`MetaError::NoData`] if there is none, which costs one lookup on an inode without any.
    pub fn getxattr(&self, ino: InodeNo, name: &[u8]) -> Result<Vec<u8>> {
        Family::of(name)?;
        self.view(|read| {
            let inode = Inode::require(read, ino)?;
            if !inode.flags.has(flag_of(name).unwrap_or(Flags::XATTRS)) {
                return Err(MetaError::NoData);
            }
            read.get(&key::xattr(ino, name))?.map(|value| value.into_owned()).ok_or(MetaError::NoData)
        })
    }

    /// The names of all attributes.
    pub fn listxattr(&self, ino: InodeNo) -> Result<Vec<Vec<u8>>> {
        self.view(|read| {
            let inode = Inode::require(read, ino)?;
            if !inode.flags.has(Flags::XATTRS) {
                return Ok(Vec::new());
            }
            names(read, ino)
        })
    }

    /// Sets an attribute. An access ACL sets the permission bits, and is not stored if they say as much; with `kill_sgid`
    /// it takes set-group-id away. An ACL without entries is removed.
    pub fn setxattr(
        &self,
        ino: InodeNo,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
        kill_sgid: bool,
    ) -> Result<()> {
        let family = Family::of(name)?;
        if value.len() > MAX_VALUE {
            return Err(MetaError::TooBig);
        }
        let acl = match family {
            Family::AccessAcl | Family::DefaultAcl => Acl::decode(value)?,
            _ => None,
        };
        self.update(|tx| {
            let now = tx.now;
            let inode = tx.inode(ino)?;
            family.check_kind(inode.kind)?;
            inode.ctime = now;
            if kill_sgid {
                inode.mode &= !0o2000;
            }
            let present = tx.read().get(&key::xattr(ino, name))?.is_some();
            match (mode, present) {
                (XattrMode::CreateOnly, true) => return Err(MetaError::Exists),
                (XattrMode::ReplaceOnly, false) => return Err(MetaError::NoData),
                _ => {}
            }
            let encoded;
            let stored = match (family, &acl) {
                (Family::AccessAcl, Some(acl)) => {
                    let inode = tx.inode(ino)?;
                    inode.mode = inode.mode & !0o777 | acl.mode();
                    encoded = acl.encode();
                    (!acl.is_minimal()).then_some(&encoded[..])
                }
                (Family::DefaultAcl, Some(acl)) => {
                    encoded = acl.encode();
                    Some(&encoded[..])
                }
                (Family::AccessAcl | Family::DefaultAcl, None) => None,
                (Family::User | Family::Kernel, _) => Some(value),
            };
            match stored {
                Some(value) => {
                    if !present {
                        check_list(tx, ino, name)?;
                    }
                    store(tx, ino, name, value)
                }
                None if present => erase(tx, ino, name),
                None => Ok(()),
            }
        })
    }

    /// Removes an attribute. An ACL that is not there is as good as removed.
    pub fn removexattr(&self, ino: InodeNo, name: &[u8]) -> Result<()> {
        let family = Family::of(name)?;
        self.update(|tx| {
            let now = tx.now;
            tx.inode(ino)?;
            if tx.read().get(&key::xattr(ino, name))?.is_none() {
                return match family {
                    Family::AccessAcl | Family::DefaultAcl => Ok(()),
                    Family::User | Family::Kernel => Err(MetaError::NoData),
                };
            }
            tx.inode(ino)?.ctime = now;
            erase(tx, ino, name)
        })
    }
}

fn names(read: &dyn Read, ino: InodeNo) -> Result<Vec<Vec<u8>>> {
    let range = key::all_of(key::XATTR, ino);
    let mut names = Vec::new();
    read.scan(&range.start, &range.end, &mut |key, _| {
        if let Some(Key::Xattr(_, name)) = Key::parse(key) {
            names.push(name.to_vec());
        }
        ControlFlow::Continue(())
    })?;
    Ok(names)
}

/// Refuses a name that would make the list of names longer than Linux can hand out.
fn check_list(tx: &mut Tx<'_>, ino: InodeNo, name: &[u8]) -> Result<()> {
    let listed: usize = names(tx.read(), ino)?.iter().map(|name| name.len() + 1).sum();
    if listed + name.len() + 1 > MAX_LIST {
        return Err(MetaError::NoSpace("the inode has too many attributes"));
    }
    Ok(())
}

/// Writes an attribute and its flags.
pub(super) fn store(tx: &mut Tx<'_>, ino: InodeNo, name: &[u8], value: &[u8]) -> Result<()> {
    let inode = tx.inode(ino)?;
    inode.flags.set(Flags::XATTRS | flag_of(name).unwrap_or(0), true);
    tx.put(&key::xattr(ino, name), value);
    Ok(())
}

/// Removes an attribute and what its flags said.
fn erase(tx: &mut Tx<'_>, ino: InodeNo, name: &[u8]) -> Result<()> {
    tx.delete(&key::xattr(ino, name));
    let range = key::all_of(key::XATTR, ino);
    let mut left = false;
    tx.read().scan(&range.start, &range.end, &mut |_, _| {
        left = true;
        ControlFlow::Break(())
    })?;
    let inode = tx.inode(ino)?;
    if let Some(flag) = flag_of(name) {
        inode.flags.set(flag, false);
    }
    inode.flags.set(Flags::XATTRS, left);
    Ok(())
}

/// Takes file capabilities away, as a write or a change of owner does. Costs nothing where there are none.
pub(crate) fn drop_capability(tx: &mut Tx<'_>, ino: InodeNo) -> Result<()> {
    if tx.inode(ino)?.flags.has(Flags::CAPABILITY) { erase(tx, ino, CAPABILITY) } else { Ok(()) }
}

/// Brings the access ACL in step with new permission bits.
pub(super) fn carry_mode_into_acl(tx: &mut Tx<'_>, ino: InodeNo, mode: u16) -> Result<()> {
    let key = key::xattr(ino, ACCESS_ACL);
    let decoded = tx.read().get(&key)?.map(|value| Acl::decode(&value)).transpose()?.flatten();
    let mut acl =
        decoded.ok_or_else(|| MetaError::Corrupt(format!("the access ACL of inode {ino} is missing")))?;
    acl.set_mode(mode);
    tx.put(&key, &acl.encode());
    Ok(())
}

/// Removes every attribute of an inode that goes.
pub(crate) fn erase_all(tx: &mut Tx<'_>, ino: InodeNo) -> Result<()> {
    for name in names(tx.read(), ino)? {
        tx.delete(&key::xattr(ino, &name));
    }
    Ok(())
}
