//! Inodes without a name that somebody still holds: reclaimed when the last reference is gone.

use std::collections::{HashSet, VecDeque};

use headrace_layout::InodeNo;
use parking_lot::Mutex;

/// Nameless inodes, and those of them that wait to be reclaimed. Metadata has the same list durably, so nothing is lost when
/// the process ends.
#[derive(Default)]
pub(crate) struct Orphans {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    held: HashSet<InodeNo>,
    ready: VecDeque<InodeNo>,
}

impl Orphans {
    pub(crate) fn add(&self, ino: InodeNo) {
        self.inner.lock().held.insert(ino);
    }

    /// It got a name (again).
    pub(crate) fn revive(&self, ino: InodeNo) {
        self.inner.lock().held.remove(&ino);
    }

    /// Moves it to those to reclaim if it is one and `unused` says nobody holds it.
    pub(crate) fn settle(&self, ino: InodeNo, unused: impl FnOnce() -> bool) -> bool {
        let mut inner = self.inner.lock();
        let ready = inner.held.contains(&ino) && unused();
        if ready {
            inner.held.remove(&ino);
            inner.ready.push_back(ino);
        }
        ready
    }

    /// The next one to reclaim.
    pub(crate) fn next(&self) -> Option<InodeNo> {
        self.inner.lock().ready.pop_front()
    }

    /// Everything, held or not: nobody is left to hold anything.
    pub(crate) fn drain(&self) -> Vec<InodeNo> {
        let mut inner = self.inner.lock();
        let mut all: Vec<_> = inner.held.drain().collect();
        all.extend(inner.ready.drain(..));
        all
    }

    pub(crate) fn len(&self) -> usize {
        let inner = self.inner.lock();
        inner.held.len() + inner.ready.len()
    }
}
