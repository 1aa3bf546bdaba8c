//! Sees to staged files when it is time.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Semaphore;

use super::directory::Directory;
use crate::vfs::Vfs;

/// Files stored side by side.
pub(super) const AT_ONCE: usize = 128;
/// How often those are looked at that no call tells of.
const TICK: Duration = Duration::from_secs(1);
/// Before a file is tried again that could not be stored.
const AGAIN: Duration = Duration::from_secs(5);

/// Ends with the file system, or when it is told to.
pub(crate) async fn run(weak: Weak<Vfs>) {
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let mut next_look = tokio::time::Instant::now() + TICK;
    loop {
        let Some(vfs) = weak.upgrade() else { return };
        if vfs.background.is_stopping() {
            return;
        }
        tokio::select! {
            () = vfs.staging.wake.notified() => {}
            () = tokio::time::sleep_until(next_look) => {
                next_look = tokio::time::Instant::now() + TICK;
                vfs.look_at_staged();
                if let Err(error) = vfs.remove_stored().await {
                    tracing::error!(%error, "cannot finish files that are written back");
                }
            }
        }
        loop {
            let Some(ino) = vfs.staging.queue.lock().pop_front() else { break };
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            let Some(inode) = vfs.inodes.find(ino).map(|pinned| Arc::clone(&pinned)) else { continue };
            let vfs = Arc::clone(&vfs);
            tokio::spawn(async move {
                if let Err(error) = vfs.see_to_staged(&inode, false).await {
                    tracing::error!(%ino, path = vfs.path_hint(ino), %error, "cannot store a file that is written back; trying again");
                    tokio::time::sleep(AGAIN).await;
                    vfs.staging.watch(ino);
                }
                drop(place);
            });
        }
    }
}

impl Vfs {
    /// Looks at what no call tells of: files that grow, mappings that end, the room on the disk.
    fn look_at_staged(&self) {
        let Some(directory) = &self.staging.directory else { return };
        self.staging.measure_room();
        let watched = std::mem::take(&mut *self.staging.watched.lock());
        watched.into_iter().for_each(|ino| self.staging.enqueue(ino));
        let open: Vec<_> = self.staging.open.lock().iter().copied().collect();
        for ino in open {
            self.measure_staged(directory, ino);
        }
    }

    fn measure_staged(&self, directory: &Directory, ino: headrace_layout::InodeNo) {
        let Some(inode) = self.inodes.find(ino) else { return };
        let mut state = inode.state.lock();
        let Some(staged) = &mut state.staged else { return };
        if staged.look(directory).is_ok() {
            let bytes = staged.last.allocated;
            self.staging.count(staged, bytes);
        }
    }
}
