//! Flushes written data behind its writers: when it is old, and when others wait for the write budget.

use std::sync::Weak;
use std::time::{Duration, Instant};

use crate::vfs::Vfs;

const TICK: Duration = Duration::from_secs(1);

pub(super) async fn run(weak: Weak<Vfs>) {
    loop {
        {
            let Some(vfs) = weak.upgrade() else { return };
            if vfs.background.stopping() {
                return;
            }
            let pressure = tokio::select! {
                () = vfs.admission.pressure.notified() => true,
                () = vfs.background.flusher.notified() => false,
                () = tokio::time::sleep(TICK) => false,
            };
            if vfs.background.stopping() {
                return;
            }
            let (now, age) = (Instant::now(), vfs.options.writeback_age);
            let everything = pressure && vfs.admission.waiting() > 0;
            let flushed = vfs
                .flush_dirty(|inode| {
                    let old = |since: Instant| now.saturating_duration_since(since) >= age;
                    everything
                        || (vfs.inodes.is_unpinned(inode.ino)
                            || inode.state.lock().dirty_since.is_some_and(old))
                })
                .await;
            if let Err(error) = flushed {
                tracing::warn!(%error, "flushing behind failed; it is tried again");
                // A store that fails fast must not make this a busy loop.
                tokio::time::sleep(TICK).await;
            }
        }
        tokio::task::yield_now().await;
    }
}
