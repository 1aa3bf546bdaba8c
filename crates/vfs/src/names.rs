//! Names, attributes of everything, extended attributes: what metadata answers without looking at data.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use headrace_kv::KvError;
use headrace_layout::InodeNo;
use headrace_meta::{Attr, Caller, DirEntry, Kind, MetaError, RenameMode, SetAttr, Unlinked, XattrMode};

use crate::error::{Error, Result};
use crate::handles::{FileId, OpenMode};
use crate::trash::shown::{changeable, is_shown, real};
use crate::vfs::Vfs;

/// Entries read in one view of the metadata; the visitor runs outside it, so that it may take locks.
const READDIR_BATCH: usize = 256;

/// The attribute that holds file capabilities: every write takes it away, as on a local file system.
pub(crate) const CAPABILITY: &[u8] = b"security.capability";
/// What SELinux knows a file by.
const LABEL: &[u8] = b"security.selinux";

impl Vfs {
    /// Finds an entry.
    pub fn lookup(&self, parent: InodeNo, name: &[u8]) -> Result<Attr> {
        if is_shown(parent) {
            return self.lookup_shown(parent, name);
        }
        if let Some(trash) = self.trash_at(parent, name)? {
            return Ok(trash);
        }
        let attr = self.meta().lookup(parent, name)?;
        Ok(self.referenced(attr))
    }

    /// Gives back `count` references.
    pub fn forget(&self, ino: InodeNo, count: u64) {
        if !is_shown(ino) && self.lookups.forget(ino, count) {
            self.settle(ino);
        }
    }

    /// Attributes, with unflushed data taken into account.
    pub fn getattr(&self, ino: InodeNo) -> Result<Attr> {
        if is_shown(ino) { self.shown_attributes(ino) } else { self.attributes(ino) }
    }

    /// Changes attributes and, with `size`, the length.
    pub fn setattr(
        self: &Arc<Self>,
        ino: InodeNo,
        change: SetAttr,
        size: Option<u64>,
    ) -> impl Future<Output = Result<Attr>> + Send + use<> {
        let vfs = Arc::clone(self);
        async move {
            vfs.writable()?;
            changeable(ino)?;
            let mut rest = change;
            if let Some(size) = size {
                vfs.truncate(ino, size, change.kill_suid).await?;
                rest.kill_suid = false;
            }
            if size.is_none() || rest != SetAttr::default() {
                vfs.change_attributes(ino, &rest)?;
            }
            vfs.attributes(ino)
        }
    }

    fn change_attributes(&self, ino: InodeNo, change: &SetAttr) -> Result<()> {
        let Some(inode) = self.inodes.find(ino) else {
            self.meta().setattr(ino, change)?;
            return Ok(());
        };
        let _in_order = inode.commit.lock();
        if change.atime.is_some() {
            inode.accessed.setting();
        }
        if let Some(mtime) = change.mtime {
            // First: the time of the last change of anything is then that of metadata.
            self.set_staged_mtime(&mut inode.state.lock(), mtime)?;
        }
        self.meta().setattr(ino, change)?;
        inode.accessed.outdated();
        if change.mtime.is_some() {
            // The time of earlier writes must not come back with their commit.
            inode.state.lock().mtime = None;
        }
        Ok(())
    }

    /// Creates a file of any kind but a symbolic link; a directory too.
    pub fn mknod(
        &self,
        parent: InodeNo,
        name: &[u8],
        kind: Kind,
        mode: u16,
        rdev: u32,
        caller: &Caller,
    ) -> Result<Attr> {
        self.writable()?;
        changeable(parent)?;
        let attr = self.meta().create(parent, name, kind, mode, rdev, None, caller)?;
        Ok(self.referenced(attr))
    }

    /// Creates a symbolic link.
    pub fn symlink(&self, parent: InodeNo, name: &[u8], target: &[u8], caller: &Caller) -> Result<Attr> {
        self.writable()?;
        changeable(parent)?;
        let attr = self.meta().create(parent, name, Kind::Symlink, 0o777, 0, Some(target), caller)?;
        Ok(self.referenced(attr))
    }

    /// Creates a regular file and opens it.
    pub fn create(
        self: &Arc<Self>,
        parent: InodeNo,
        name: &[u8],
        mode: u16,
        flags: i32,
        caller: &Caller,
    ) -> Result<(Attr, FileId, OpenMode)> {
        self.writable()?;
        changeable(parent)?;
        self.handles.has_room()?;
        let attr = self.meta().create(parent, name, Kind::File, mode, 0, None, caller)?;
        self.open_new(attr, flags)
    }

    /// Creates an unnamed regular file and opens it (`O_TMPFILE`).
    pub fn tmpfile(
        self: &Arc<Self>,
        parent: InodeNo,
        mode: u16,
        flags: i32,
        caller: &Caller,
    ) -> Result<(Attr, FileId, OpenMode)> {
        self.writable()?;
        changeable(parent)?;
        self.handles.has_room()?;
        // Until it is referred to nobody may take it for one that was left.
        let _unnamed = self.unnamed.read();
        let attr = self.meta().create_unnamed(parent, mode, caller)?;
        self.orphans.add(attr.ino);
        self.open_new(attr, flags)
    }

    fn open_new(self: &Arc<Self>, attr: Attr, flags: i32) -> Result<(Attr, FileId, OpenMode)> {
        let inode = self.inodes.pin(attr.ino, || Ok(attr.clone()))?;
        let (file, mode) = self.handle(inode, flags)?;
        self.lookups.add(attr.ino);
        Ok((attr, file, mode))
    }

    /// Removes a name that is not a directory's.
    pub fn unlink(&self, parent: InodeNo, name: &[u8]) -> Result<()> {
        self.writable()?;
        if is_shown(parent) {
            return self.remove_shown(parent, name, false);
        }
        let unlinked = match self.meta().unlink(parent, name) {
            // Nobody could make room otherwise.
            Err(MetaError::Kv(KvError::Full { .. })) if self.staging.release_reserve() => {
                self.meta().unlink(parent, name)?
            }
            unlinked => unlinked?,
        };
        self.lost_a_name(&unlinked);
        Ok(())
    }

    /// Removes an empty directory.
    pub fn rmdir(&self, parent: InodeNo, name: &[u8]) -> Result<()> {
        self.writable()?;
        if is_shown(parent) {
            return self.remove_shown(parent, name, true);
        }
        self.not_the_trash(parent, name)?;
        let unlinked = self.meta().rmdir(parent, name)?;
        self.lost_a_name(&unlinked);
        Ok(())
    }

    /// Gives an inode another name.
    pub fn link(&self, ino: InodeNo, parent: InodeNo, name: &[u8]) -> Result<Attr> {
        self.writable()?;
        changeable(ino).and(changeable(parent))?;
        let attr = self.meta().link(ino, parent, name)?;
        self.orphans.revive(ino);
        if let Some(inode) = self.inodes.find(ino) {
            inode.unlinked.store(false, Ordering::Relaxed);
        }
        Ok(self.referenced(attr))
    }

    /// Renames, as `renameat2`. What was written to a file that takes another's place is stored first: programs that replace a file so
    /// are to find the old or the new one after a crash, although they did not ask for the new one to be durable. Dropping the future
    /// before it is ready leaves the names as they were.
    pub fn rename(
        self: &Arc<Self>,
        parent: InodeNo,
        name: &[u8],
        new_parent: InodeNo,
        new_name: &[u8],
        mode: RenameMode,
    ) -> impl Future<Output = Result<()>> + Send + use<> {
        let vfs = Arc::clone(self);
        let (name, new_name) = (name.to_vec(), new_name.to_vec());
        async move {
            vfs.writable()?;
            if is_shown(parent) {
                let moving = Arc::clone(&vfs);
                let moved = vfs
                    .runtime
                    .spawn_blocking(move || moving.move_out(parent, &name, new_parent, &new_name, mode));
                return moved
                    .await
                    .unwrap_or_else(|error| Err(Error::Internal(format!("restoring failed: {error}"))));
            }
            changeable(new_parent)?;
            vfs.not_the_trash(parent, &name).and(vfs.not_the_trash(new_parent, &new_name))?;
            if mode != RenameMode::NoReplace
                && let Ok(moved) = vfs.meta().lookup(parent, &name)
                && let Some(inode) = vfs.inodes.find(moved.ino)
                && inode.state.lock().has_uncommitted()
                && vfs.meta().lookup(new_parent, &new_name).is_ok()
            {
                if vfs.is_staged(moved.ino) {
                    vfs.sync_staged(&inode).await?;
                } else {
                    vfs.commit_pending(&inode).await?;
                }
            }
            let renamed = vfs.meta().rename(parent, &name, new_parent, &new_name, mode)?;
            if let Some(replaced) = &renamed.replaced {
                vfs.lost_a_name(replaced);
            }
            Ok(())
        }
    }

    /// A symbolic link's target.
    pub fn readlink(&self, ino: InodeNo) -> Result<Vec<u8>> {
        Ok(self.meta().readlink(real(ino))?)
    }

    /// Opens a directory.
    pub fn opendir(&self, ino: InodeNo) -> Result<FileId> {
        let attr = self.meta().getattr(real(ino))?;
        if attr.kind != Kind::Directory {
            return Err(MetaError::NotDirectory.into());
        }
        Ok(self.handles.number())
    }

    /// Entries of `dir` after the cookie `after` (0: from the start), "." (cookie 1) and ".." (cookie 2) first, until `visit`
    /// declines one. With `plus` entries carry attributes, and each but "." and ".." that `visit` accepts counts one reference.
    pub fn readdir(
        &self,
        dir: InodeNo,
        after: u64,
        plus: bool,
        visit: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<()> {
        if is_shown(dir) {
            return self.readdir_shown(dir, after, plus, visit);
        }
        for (cookie, name) in [(1, &b"."[..]), (2, b"..")] {
            if after < cookie {
                let ino = if cookie == 1 { dir } else { self.meta().parent(dir).unwrap_or(dir) };
                let attr = if plus { Some(self.attributes(ino)?) } else { None };
                if !visit(DirEntry { cookie, ino, kind: Kind::Directory, name, attr }) {
                    return Ok(());
                }
            }
        }
        let mut after = after.max(2);
        let mut names: Vec<u8> = Vec::new();
        let mut batch: Vec<(u64, InodeNo, Kind, Option<Attr>, usize)> = Vec::with_capacity(READDIR_BATCH);
        loop {
            names.clear();
            batch.clear();
            self.meta().readdir(dir, after, plus, &mut |entry| {
                names.extend_from_slice(entry.name);
                batch.push((entry.cookie, entry.ino, entry.kind, entry.attr, names.len()));
                batch.len() < READDIR_BATCH
            })?;
            let full = batch.len() == READDIR_BATCH;
            let mut from = 0;
            for (cookie, ino, kind, attr, to) in batch.drain(..) {
                let attr = attr.map(|attr| self.corrected(attr));
                if plus {
                    self.lookups.add(ino);
                }
                if !visit(DirEntry { cookie, ino, kind, name: &names[from..to], attr }) {
                    if plus {
                        self.forget(ino, 1);
                    }
                    return Ok(());
                }
                from = to;
                after = cookie;
            }
            if !full {
                return Ok(());
            }
        }
    }

    /// Attributes that metadata answered a moment ago: where a file is being written, its attributes are read
    /// again so that no commit in between is missed.
    fn corrected(&self, attr: Attr) -> Attr {
        if attr.kind == Kind::File && self.inodes.contains(attr.ino) {
            self.attributes(attr.ino).unwrap_or(attr)
        } else {
            attr
        }
    }

    /// The value of an extended attribute.
    pub fn getxattr(&self, ino: InodeNo, name: &[u8]) -> Result<Vec<u8>> {
        match self.meta().getxattr(real(ino), name) {
            Err(MetaError::NoData) if name == LABEL && !self.options.labels => {
                Err(Error::Unsupported("labels of SELinux, which this kernel does not run"))
            }
            value => Ok(value?),
        }
    }

    /// Sets one. `kill_sgid`: setting this access ACL must clear the set-group-id bit.
    pub fn setxattr(
        &self,
        ino: InodeNo,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
        kill_sgid: bool,
    ) -> Result<()> {
        self.writable()?;
        changeable(ino)?;
        if name == CAPABILITY
            && let Some(inode) = self.inodes.find(ino)
        {
            inode.without_capability.store(false, Ordering::Relaxed);
        }
        Ok(self.meta().setxattr(ino, name, value, mode, kill_sgid)?)
    }

    /// The names of all extended attributes.
    pub fn listxattr(&self, ino: InodeNo) -> Result<Vec<Vec<u8>>> {
        Ok(self.meta().listxattr(real(ino))?)
    }

    /// Removes one.
    pub fn removexattr(&self, ino: InodeNo, name: &[u8]) -> Result<()> {
        self.writable()?;
        changeable(ino)?;
        Ok(self.meta().removexattr(ino, name)?)
    }

    /// Makes a directory durable; with it everything in metadata that came before.
    pub fn fsyncdir(self: &Arc<Self>, _ino: InodeNo) -> impl Future<Output = Result<()>> + Send + use<> {
        let durable = self.volume.engine.durable(self.volume.engine.position());
        async move { durable.await.map_err(Error::from) }
    }

    fn referenced(&self, attr: Attr) -> Attr {
        self.lookups.add(attr.ino);
        // Read again under the file's lock if it is being written.
        self.corrected(attr)
    }

    fn lost_a_name(&self, unlinked: &Unlinked) {
        if unlinked.nlink == 0 && !self.is_kept(unlinked) {
            self.make_orphan(unlinked.ino);
        }
    }

    /// Nobody can find an inode any more: it is reclaimed when nobody refers to it either.
    pub(crate) fn make_orphan(&self, ino: InodeNo) {
        if let Some(inode) = self.inodes.find(ino) {
            inode.unlinked.store(true, Ordering::Relaxed);
            self.unlinked_staged(&inode);
        }
        self.orphans.add(ino);
        self.settle(ino);
    }

    /// Whether the kernel or an open file refers to an inode.
    pub(crate) fn is_referred_to(&self, ino: InodeNo) -> bool {
        self.lookups.any(ino) || !self.inodes.is_unpinned(ino)
    }

    /// Has a nameless inode reclaimed once neither the kernel nor an open file refers to it.
    pub(crate) fn settle(&self, ino: InodeNo) {
        if self.orphans.settle(ino, || !self.is_referred_to(ino)) {
            self.background.wake();
        }
    }
}
