//! What becomes of a local file when everything of it is stored: it is cached from then on, or removed.

use std::sync::Arc;

use headrace_cache::disk::{Adoption, Key, is_open_elsewhere};
use headrace_kv::CommitSeq;

use super::file::Staged;
use super::life::Stamp;
use super::store::Task;
use crate::error::{Error, Result};
use crate::inode::Inode;
use crate::vfs::Vfs;

/// A local file, read to be cached.
pub(super) struct Copy {
    adoption: Adoption,
    /// [`Life::changes`](super::life::Life::changes) before it was read.
    changes: u64,
}

impl Vfs {
    pub(super) fn close_staged(&self, inode: &Inode) {
        if let Some(staged) = &mut inode.state.lock().staged {
            staged.close();
        }
    }

    /// Removes the local copies of files of which everything was stored and committed, and of deleted ones, once that is durable.
    ///
    /// # Errors
    /// What was committed cannot be made durable: they stay.
    pub(crate) async fn remove_stored(self: &Arc<Self>) -> Result<()> {
        let stored = std::mem::take(&mut *self.staging.stored.lock());
        let doomed = std::mem::take(&mut *self.staging.doomed.lock());
        if stored.is_empty() && doomed.is_empty() {
            return Ok(());
        }
        let engine = &self.volume.engine;
        let upto = engine.position();
        if let Err(error) = engine.durable(upto).await {
            self.staging.stored.lock().extend(stored);
            self.staging.doomed.lock().extend(doomed);
            return Err(error.into());
        }
        for ino in stored {
            let Some(inode) = self.inodes.find(ino) else { continue };
            let copy = self.copy_for_cache(&inode).await;
            if let Err(error) = self.remove_staged(&inode, upto, copy) {
                tracing::error!(%ino, %error, "cannot finish a file that is written back; trying again");
                self.staging.watch(ino);
            }
        }
        let vfs = Arc::clone(self);
        let remove = move || {
            doomed.into_iter().for_each(|staged| vfs.staging.remove(staged));
            // What is removed is not to come back after files were changed otherwise.
            vfs.staging.sync_names()
        };
        let removed = self.runtime.spawn_blocking(remove).await;
        removed.map_err(|error| Error::Internal(format!("removing local files failed: {error}")))?
    }

    /// What a file needs for its local copy to go into the cache when it is not needed here any more; `None` if it is not to. Looked at
    /// beforehand, as it is read for that.
    pub(super) async fn copy_for_cache(&self, inode: &Inode) -> Option<Copy> {
        let cache = self.cache.as_ref()?;
        let (file, size, changes) = {
            let mut state = inode.state.lock();
            let (Some(staged), Some(directory)) = (&mut state.staged, &self.staging.directory) else {
                return None;
            };
            let Stamp { size, allocated, .. } = staged.look(directory).ok()?;
            // Small files are cached by the segments that they go into; holes are not worth reading.
            let small = size <= u64::from(self.volume.superblock.inline_max);
            if small || allocated < size || !cache.disk.could_adopt(Key::File(inode.ino), size) {
                return None;
            }
            (staged.open(directory).ok()?, size, staged.life.changes())
        };
        let read = self.on_disk(size, move || Adoption::of(file, size)).await;
        let adoption = read.inspect_err(|error| {
            tracing::warn!(ino = %inode.ino, %error, "the local copy of a file that is stored is not cached");
        });
        Some(Copy { adoption: adoption.ok()?, changes })
    }

    /// Removes the local copy, or makes `copy` of it part of the cache, unless something has happened to the file meanwhile. Metadata is durable
    /// `upto` there.
    pub(super) fn remove_staged(&self, inode: &Inode, upto: CommitSeq, copy: Option<Copy>) -> Result<()> {
        {
            let mut state = inode.state.lock();
            if state.staged.as_ref().is_some_and(|staged| staged.stored_at > upto) {
                // It was changed and stored again meanwhile.
                self.staging.stored.lock().push(inode.ino);
                return Ok(());
            }
            match self.task(inode, &mut state, false)? {
                Task::Remove { .. } => {}
                // Who has it open sees to it.
                Task::Nothing => return Ok(()),
                Task::Store { .. } => {
                    self.staging.enqueue(inode.ino);
                    return Ok(());
                }
            }
            state.size = state.staged.as_ref().map_or(state.size, |staged| staged.last.size);
            if let Some(staged) = self.staging.take(inode.ino, &mut state)
                && let Some(staged) = self.keep_in_cache(staged, copy)
            {
                self.staging.remove(staged);
            }
        }
        self.inodes.evict(inode.ino);
        Ok(())
    }

    /// Gives it back if it is not kept. The file is locked, and so nothing changes it meanwhile.
    fn keep_in_cache(&self, staged: Staged, copy: Option<Copy>) -> Option<Staged> {
        let (Some(cache), Some(directory), Some(copy), Some(file)) =
            (&self.cache, &self.staging.directory, copy, &staged.file)
        else {
            return Some(staged);
        };
        let ino = staged.name.ino;
        if copy.changes != staged.life.changes() || (staged.mappable && is_open_elsewhere(file)) {
            return Some(staged);
        }
        let prints = |chunk| self.print_of(ino, chunk);
        match cache.disk.adopt(Key::File(ino), &directory.path_of(staged.name), copy.adoption, &prints) {
            Ok(true) => None,
            Ok(false) => Some(staged),
            Err(error) => {
                tracing::warn!(%ino, %error, "the local copy of a file that is stored cannot be moved into the cache");
                Some(staged)
            }
        }
    }
}
