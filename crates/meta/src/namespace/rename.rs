//! Moving names.

use headrace_layout::InodeNo;

use super::{Namespace, link, name, unlink};
use crate::record::{Entry, NOWHERE};
use crate::transaction::Tx;
use crate::{Kind, MetaError, RenameMode, Renamed, Result};

/// More directories above one than any path can name.
const MAX_DEPTH: u32 = 1 << 20;

/// A place for a name.
type Place<'a> = (InodeNo, &'a [u8]);

impl Namespace {
    /// Moves a name, or swaps two. A replaced name keeps its position in its directory, as does one that only changes;
    /// two names of one inode stay as they are.
    pub fn rename(
        &self,
        parent: InodeNo,
        name: &[u8],
        new_parent: InodeNo,
        new_name: &[u8],
        mode: RenameMode,
    ) -> Result<Renamed> {
        for name in [name, new_name] {
            name::check(name)?;
            if name::is_dots(name) {
                return Err(MetaError::Invalid("\".\" and \"..\" cannot be renamed"));
            }
        }
        let (from_place, to_place) = ((parent, name), (new_parent, new_name));
        let keep = self.keep();
        self.update(|tx| {
            tx.directory(parent)?;
            tx.directory(new_parent)?;
            let from = tx.require_entry(parent, name)?;
            let to = tx.entry(new_parent, new_name)?;
            let unchanged = Renamed { moved: from.ino, replaced: None };
            match (mode, to) {
                (RenameMode::Exchange, None) => return Err(MetaError::NotFound),
                (RenameMode::NoReplace, Some(_)) => return Err(MetaError::Exists),
                _ => {}
            }
            refuse_own_subtree(tx, &from, parent, new_parent)?;
            match (mode, to) {
                (_, Some(to)) if to.ino == from.ino => Ok(unchanged),
                (RenameMode::Exchange, Some(to)) => {
                    refuse_own_subtree(tx, &to, new_parent, parent)?;
                    exchange(tx, &from, from_place, &to, to_place)?;
                    Ok(unchanged)
                }
                (_, to) => {
                    let replaced = match &to {
                        Some(to) => {
                            check_replaceable(tx, &from, to)?;
                            Some(link::detach(tx, new_parent, new_name, to, keep)?)
                        }
                        None => None,
                    };
                    move_name(tx, &from, from_place, to.as_ref(), to_place)?;
                    Ok(Renamed { moved: from.ino, replaced })
                }
            }
        })
    }
}

/// A directory must not become its own ancestor.
fn refuse_own_subtree(tx: &mut Tx<'_>, moved: &Entry, parent: InodeNo, new_parent: InodeNo) -> Result<()> {
    if moved.kind != Kind::Directory || parent == new_parent {
        return Ok(());
    }
    let mut ancestor = new_parent;
    for _ in 0..MAX_DEPTH {
        if ancestor == moved.ino {
            return Err(MetaError::Invalid("a directory cannot move into itself"));
        }
        if ancestor == InodeNo::ROOT {
            return Ok(());
        }
        ancestor = match tx.directory(ancestor)?.home {
            NOWHERE => return Err(MetaError::NotFound),
            home => home,
        };
    }
    Err(MetaError::Loop)
}

fn check_replaceable(tx: &mut Tx<'_>, from: &Entry, to: &Entry) -> Result<()> {
    match (from.kind == Kind::Directory, to.kind == Kind::Directory) {
        (true, false) => Err(MetaError::NotDirectory),
        (false, true) => Err(MetaError::IsDirectory),
        (true, true) if !unlink::is_empty(tx.read(), to.ino)? => Err(MetaError::NotEmpty),
        _ => Ok(()),
    }
}

fn move_name(
    tx: &mut Tx<'_>,
    from: &Entry,
    from_place: Place<'_>,
    replaced: Option<&Entry>,
    to_place: Place<'_>,
) -> Result<()> {
    let ((parent, name), (new_parent, new_name)) = (from_place, to_place);
    link::relocate(tx, from, from_place, to_place)?;
    tx.delete_entry(parent, name, from);
    match replaced {
        Some(to) => tx.put_entry(new_parent, new_name, &Entry { cookie: to.cookie, ..*from }),
        // A listing that is under way sees a name that only changes once.
        None if parent == new_parent => tx.put_entry(parent, new_name, from),
        None => tx.append_entry(new_parent, new_name, from.ino, from.kind)?,
    }
    tx.touch(parent)?;
    tx.touch(new_parent)
}

fn exchange(
    tx: &mut Tx<'_>,
    from: &Entry,
    from_place: Place<'_>,
    to: &Entry,
    to_place: Place<'_>,
) -> Result<()> {
    link::relocate(tx, from, from_place, to_place)?;
    link::relocate(tx, to, to_place, from_place)?;
    tx.put_entry(from_place.0, from_place.1, &Entry { cookie: from.cookie, ..*to });
    tx.put_entry(to_place.0, to_place.1, &Entry { cookie: to.cookie, ..*from });
    tx.touch(from_place.0)?;
    tx.touch(to_place.0)
}
