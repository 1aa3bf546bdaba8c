//! What the kernel has been told, and for how long it may believe it.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use headrace_vfs::is_shown;
use parking_lot::Mutex;

use crate::{Attr, InodeNo, Kind};

const SETUID: u16 = 0o4000;
const SETGID: u16 = 0o2000;
/// Setuid and setgid files that are remembered one by one.
const PRIVILEGED_MAX: usize = 65_536;

/// The kernel's view of the file system.
#[derive(Debug)]
pub(crate) struct View {
    /// Nothing else can change the volume.
    pub exclusive: bool,
    /// For how long entries and attributes may be believed, as a rule.
    ttl: Duration,
    /// For how long it may be believed that a name does not exist.
    negative: Duration,
    /// Files that the kernel may believe to be setuid or setgid.
    privileged: Mutex<HashSet<InodeNo>>,
    /// How many those are: nearly always none. Beyond [`PRIVILEGED_MAX`], it could be any file.
    count: AtomicUsize,
    /// Directories that came back while the kernel still held them as removed, and how often: it takes nothing into such a one, so each is
    /// told as another that has its number.
    renewed: Mutex<HashMap<InodeNo, u64>>,
    /// Whether there are any: nearly never.
    any_renewed: AtomicBool,
}

impl View {
    pub fn new(exclusive: bool, shared_ttl: Duration) -> Self {
        // All changes go through this kernel, which keeps its caches in step; the limit is only a precaution.
        let day = Duration::from_secs(24 * 60 * 60);
        // A name that another machine creates must be found at once, so absence is not believed at all.
        let (ttl, negative) = if exclusive { (day, day) } else { (shared_ttl, Duration::ZERO) };
        View {
            exclusive,
            ttl,
            negative,
            privileged: Mutex::default(),
            count: AtomicUsize::new(0),
            renewed: Mutex::default(),
            any_renewed: AtomicBool::new(false),
        }
    }

    /// For how long what is said of an inode may be believed: of the trash, which changes with everything that is deleted, not at all.
    pub fn ttl(&self, ino: InodeNo) -> Duration {
        if is_shown(ino) { Duration::ZERO } else { self.ttl }
    }

    /// For how long it may be believed that there is no such name in `dir`.
    pub fn negative(&self, dir: InodeNo) -> Duration {
        if is_shown(dir) { Duration::ZERO } else { self.negative }
    }

    /// A removed directory is there again, and the kernel may still hold it.
    pub fn renew(&self, ino: InodeNo) {
        *self.renewed.lock().entry(ino).or_default() += 1;
        self.any_renewed.store(true, Ordering::Release);
    }

    /// Which one of those with this number it is.
    pub fn generation(&self, ino: InodeNo) -> u64 {
        if !self.any_renewed.load(Ordering::Acquire) {
            return 0;
        }
        self.renewed.lock().get(&ino).copied().unwrap_or(0)
    }

    /// These attributes are about to be told.
    pub fn told(&self, attr: &Attr) {
        if attr.kind != Kind::File {
            return;
        }
        let count = self.count.load(Ordering::Acquire);
        if attr.mode & (SETUID | SETGID) != 0 {
            let mut privileged = self.privileged.lock();
            if self.count.load(Ordering::Acquire) > PRIVILEGED_MAX {
                return;
            }
            if privileged.len() < PRIVILEGED_MAX || privileged.contains(&attr.ino) {
                privileged.insert(attr.ino);
                self.count.store(privileged.len(), Ordering::Release);
            } else {
                self.count.store(usize::MAX, Ordering::Release);
            }
        } else if (1..=PRIVILEGED_MAX).contains(&count) {
            let mut privileged = self.privileged.lock();
            privileged.remove(&attr.ino);
            if self.count.load(Ordering::Acquire) <= PRIVILEGED_MAX {
                self.count.store(privileged.len(), Ordering::Release);
            }
        }
    }

    /// Whether the kernel may believe this file to be setuid or setgid.
    pub fn is_privileged(&self, ino: InodeNo) -> bool {
        match self.count.load(Ordering::Acquire) {
            0 => false,
            1..=PRIVILEGED_MAX => self.privileged.lock().contains(&ino),
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Time;

    fn attr(ino: u64, kind: Kind, mode: u16) -> Attr {
        let time = Time { secs: 0, nanos: 0 };
        Attr {
            ino: InodeNo(ino),
            kind,
            mode,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            size: 0,
            allocated: 0,
            atime: time,
            mtime: time,
            ctime: time,
            btime: time,
        }
    }

    #[test]
    fn remembers_what_was_last_told() {
        let view = View::new(true, Duration::ZERO);
        view.told(&attr(2, Kind::File, 0o4755));
        view.told(&attr(3, Kind::File, 0o2755));
        view.told(&attr(4, Kind::File, 0o755));
        view.told(&attr(5, Kind::Directory, 0o2755));
        assert_eq!([2, 3, 4, 5].map(|ino| view.is_privileged(InodeNo(ino))), [true, true, false, false]);
        view.told(&attr(2, Kind::File, 0o755));
        view.told(&attr(3, Kind::File, 0o755));
        assert!(![2, 3].iter().any(|ino| view.is_privileged(InodeNo(*ino))));
        assert_eq!(view.count.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn too_many_to_remember_means_any_file() {
        let view = View::new(true, Duration::ZERO);
        for ino in 0..PRIVILEGED_MAX as u64 {
            view.told(&attr(ino, Kind::File, 0o4755));
        }
        assert!(!view.is_privileged(InodeNo(u64::MAX)));
        view.told(&attr(PRIVILEGED_MAX as u64, Kind::File, 0o4755));
        view.told(&attr(7, Kind::File, 0o755));
        assert!(view.is_privileged(InodeNo(u64::MAX)) && view.is_privileged(InodeNo(7)));
    }
}
