//! Inodes without a name that somebody still holds: reclaimed when the last reference is gone.

use std::collections::{HashSet, VecDeque};

use headrace_layout::InodeNo;
use parking_lot::Mutex;

/// Inodes that wait to be reclaimed, at most: metadata lists the others.
const QUEUE: usize = 16 << 10;

/// Nameless inodes, and those of them that wait to be reclaimed. Metadata has the same list durably, so nothing is lost when
/// the process ends, nor where the queue ends.
#[derive(Default)]
pub(crate) struct Orphans {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    held: HashSet<InodeNo>,
    ready: VecDeque<InodeNo>,
    /// How many did not fit since metadata was last searched.
    missed: u64,
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
            if inner.ready.len() < QUEUE {
                inner.ready.push_back(ino);
            } else {
                inner.missed += 1;
            }
        }
        ready
    }

    /// The next ones to reclaim; none if there are none.
    pub(crate) fn next(&self, most: usize) -> Vec<InodeNo> {
        let mut inner = self.inner.lock();
        let count = inner.ready.len().min(most);
        inner.ready.drain(..count).collect()
    }

    /// Whether some did not fit, which are to be searched for in metadata now.
    pub(crate) fn take_missed(&self) -> bool {
        std::mem::take(&mut self.inner.lock().missed) > 0
    }

    /// Those held are to reclaim too: nobody is left to hold anything.
    pub(crate) fn release_all(&self) {
        let mut inner = self.inner.lock();
        let held = std::mem::take(&mut inner.held);
        inner.ready.extend(held);
    }

    pub(crate) fn len(&self) -> u64 {
        let inner = self.inner.lock();
        (inner.held.len() + inner.ready.len()) as u64 + inner.missed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_counted_and_left_to_metadata() {
        let orphans = Orphans::default();
        let many = QUEUE as u64 + 5;
        for ino in 1..=many {
            orphans.add(InodeNo(ino));
            assert!(!orphans.settle(InodeNo(ino), || false), "it is held");
            assert!(orphans.settle(InodeNo(ino), || true));
            assert!(!orphans.settle(InodeNo(ino), || true), "it is on its way");
        }
        assert_eq!(orphans.len(), many);
        let batch = orphans.next(100);
        assert_eq!((batch.len(), batch[0], batch[99]), (100, InodeNo(1), InodeNo(100)));
        assert_eq!(orphans.next(usize::MAX).len(), QUEUE - 100);
        assert!(orphans.take_missed() && !orphans.take_missed());
        orphans.add(InodeNo(7));
        orphans.release_all();
        assert_eq!(orphans.next(2), [InodeNo(7)]);
        assert_eq!(orphans.len(), 0);
    }
}
