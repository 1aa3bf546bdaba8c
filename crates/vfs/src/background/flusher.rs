//! Flushes written data behind its writers: when it is old, and when others wait for the write budget.

use std::sync::Weak;
use std::time::{Duration, Instant};

use crate::vfs::Vfs;

const TICK: Duration = Duration::from_secs(1);
/// How long a round waits for what it has sent on its way. A store that takes nothing must not keep the rest from being flushed.
const ROUND: Duration = Duration::from_secs(5);

/// Why it flushes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// Writers wait although little is on its way: it is told whenever that comes to be so.
    Window,
    /// Writers wait for memory.
    Memory,
    /// Something is old, or nobody has it open any more.
    Time,
}

pub(super) async fn run(weak: Weak<Vfs>) {
    loop {
        {
            let Some(vfs) = weak.upgrade() else { return };
            if vfs.background.stopping() {
                return;
            }
            let cause = tokio::select! {
                () = vfs.backpressure.send.notified() => Cause::Window,
                () = vfs.admission.pressure.notified() => Cause::Memory,
                () = vfs.background.flusher.notified() => Cause::Time,
                () = tokio::time::sleep(TICK) => Cause::Time,
            };
            if vfs.background.stopping() {
                return;
            }
            let (now, age) = (Instant::now(), vfs.options.writeback_age);
            let everything = match cause {
                Cause::Window => vfs.backpressure.waiting() > 0,
                Cause::Memory => vfs.admission.waiting() > 0,
                // What was gathered came after the word to send it, while it waited for memory.
                Cause::Time => vfs.backpressure.figures().is_starved(),
            };
            let sent = vfs.send_behind(|inode| {
                let old = |since: Instant| now.saturating_duration_since(since) >= age;
                everything
                    || (vfs.inodes.is_unpinned(inode.ino) || inode.state.lock().dirty_since.is_some_and(old))
            });
            if cause != Cause::Window {
                tokio::select! {
                    biased;
                    () = vfs.settled_behind(&sent, ROUND) => {}
                    // Something else is to be flushed, or this is the end: what is on its way needs no watching.
                    () = vfs.background.flusher.notified() => vfs.background.wake_flusher(),
                    () = vfs.backpressure.send.notified() => vfs.backpressure.send.notify_one(),
                }
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
