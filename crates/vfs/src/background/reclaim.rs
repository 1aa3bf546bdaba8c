//! Takes back what deleted files held.

use std::sync::{Arc, Weak};
use std::time::Duration;

use headrace_cache::disk::Key;
use headrace_layout::InodeNo;
use headrace_meta::MetaError;

use crate::vfs::Vfs;

pub(super) fn run(weak: Weak<Vfs>) {
    loop {
        let Some(vfs) = weak.upgrade() else { return };
        if vfs.background.stopping() {
            return;
        }
        while let Some(ino) = vfs.orphans.next() {
            vfs.reclaim(ino);
        }
        vfs.background.reclaim.wait(Duration::from_secs(1));
    }
}

impl Vfs {
    fn reclaim(&self, ino: InodeNo) {
        if let Some(inode) = self.inodes.find(ino) {
            let mut state = inode.state.lock();
            self.discard_pending(ino, &mut state, 0);
            self.staging.drop_staged(ino, &mut state);
            drop(state);
            inode.changed.notify_waiters();
        }
        match self.meta().reclaim(ino) {
            Ok(()) | Err(MetaError::NotFound | MetaError::Stale) => {}
            // Metadata still lists it: the next mount tries again.
            Err(error) => tracing::error!(%ino, %error, "cannot reclaim a deleted file"),
        }
        if let Some(cache) = &self.cache {
            cache.disk.forget(Key::File(ino));
        }
        self.inodes.evict(ino);
    }

    /// Reclaims every deleted file: the front end is gone, so nobody holds one any more.
    pub(crate) async fn reclaim_all(self: &Arc<Self>) {
        let vfs = Arc::clone(self);
        let all = move || vfs.orphans.drain().into_iter().for_each(|ino| vfs.reclaim(ino));
        if let Err(error) = tokio::task::spawn_blocking(all).await {
            tracing::error!(%error, "reclaiming deleted files failed");
        }
    }
}
