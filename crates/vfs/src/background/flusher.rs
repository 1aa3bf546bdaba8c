//! Flushes written data behind its writers: when it is old, and when others wait for the write budget.

use std::sync::Weak;
use std::time::{Duration, Instant};

use crate::vfs::Vfs;

const TICK: Duration = Duration::from_secs(1);
/// How long a round waits for what it has sent on its way. A store that takes nothing must not keep the rest from being flushed.
const ROUND: Duration = Duration::from_secs(5);

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
            let flushed = vfs.flush_behind(ROUND, |inode| {
                let old = |since: Instant| now.saturating_duration_since(since) >= age;
                everything
                    || (vfs.inodes.is_unpinned(inode.ino) || inode.state.lock().dirty_since.is_some_and(old))
            });
            tokio::select! {
                biased;
                () = flushed => {}
                // Something else is to be flushed, or this is the end: what is on its way needs no watching.
                () = vfs.background.flusher.notified() => vfs.background.wake_flusher(),
            }
            if vfs.background.stopping() {
                return;
            }
            if vfs.outage.is_on() {
                // Writers who wait ask again and again; while nothing can be stored this must not be a busy loop.
                tokio::time::sleep(TICK).await;
            }
        }
        tokio::task::yield_now().await;
    }
}
