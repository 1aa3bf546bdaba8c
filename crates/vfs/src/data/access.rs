//! Access times: when a read sets one, and that it never undoes what a user has set meanwhile.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use headrace_meta::Time;
use parking_lot::Mutex;

use crate::inode::Inode;
use crate::options::AtimePolicy;
use crate::vfs::Vfs;

/// How long, seconds, a read does not look again whether the access time is old (relatime).
const LOOK_AGAIN: i64 = 60;

/// How much later than its reader asked a read may come: the kernel reads ahead, and around what is mapped, and neither
/// waits for it nor keeps it in order with other calls. Milliseconds were seen on a busy machine.
const LATE: Duration = Duration::from_secs(1);

/// What is known of a file's access time without asking metadata.
pub(crate) struct Accessed {
    /// Until this second a read need not look at it (relatime).
    until: AtomicI64,
    /// When a user set it last.
    set: Mutex<Option<Instant>>,
}

impl Default for Accessed {
    fn default() -> Self {
        Accessed { until: AtomicI64::new(i64::MIN), set: Mutex::default() }
    }
}

impl Accessed {
    /// The file has changed: the next read may have to set the access time.
    pub(crate) fn outdated(&self) {
        self.until.store(i64::MIN, Ordering::Relaxed);
    }

    /// A user is about to set it.
    pub(crate) fn setting(&self) {
        *self.set.lock() = Some(Instant::now());
    }

    /// Whether a user has set it since, for all that can be known of a read that came at `came` through a file that was
    /// opened at `opened`.
    fn set_since(&self, opened: Instant, came: Instant) -> bool {
        self.set.lock().is_some_and(|set| opened <= set && came <= set + LATE)
    }
}

impl Vfs {
    /// A read that came at `came` through a file that was opened at `opened` has succeeded.
    pub(crate) fn touch(&self, inode: &Inode, opened: Instant, came: Instant) {
        if self.options.read_only || self.options.atime == AtimePolicy::NoAtime {
            return;
        }
        let (now, accessed) = (Time::now(), &inode.accessed);
        let relatime = self.options.atime == AtimePolicy::RelAtime;
        if relatime && now.secs < accessed.until.load(Ordering::Relaxed) {
            return;
        }
        let wanted = || !accessed.set_since(opened, came);
        if !wanted() {
            return;
        }
        if relatime {
            accessed.until.store(now.secs.saturating_add(LOOK_AGAIN), Ordering::Relaxed);
            let Ok(attr) = self.attributes(inode.ino) else { return };
            let fresh =
                attr.atime > attr.mtime && attr.atime > attr.ctime && attr.atime.secs + 86_400 > now.secs;
            if fresh {
                return;
            }
        }
        if let Err(error) = self.meta().touch_atime(inode.ino, now, wanted) {
            tracing::debug!(ino = %inode.ino, %error, "cannot set the access time");
        }
        if !wanted() {
            accessed.outdated();
        }
    }
}
