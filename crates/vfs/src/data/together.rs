//! Files that are written at one time, each a little: what is pending of them goes into shared segments.
//!
//! A thousand open files that share a small write budget have a few blocks each. One by one these would be a thousand small objects,
//! or would all pass through the metadata engine and its log, and be written twice.

use std::sync::Arc;

use parking_lot::MutexGuard;

use crate::inode::{FileState, Inode};
use crate::vfs::Vfs;

/// A segment of less is not worth a request: the files are flushed one by one, small ones into the metadata engine.
const LEAST: u64 = 256 << 10;

/// A file, and that its extents stand still meanwhile.
pub(super) type Held<'a> = (&'a Arc<Inode>, tokio::sync::MutexGuard<'a, ()>);

impl Vfs {
    /// Sends on its way what is pending of `files`, as few segments.
    pub(super) fn take_together(self: &Arc<Self>, mut files: Vec<Held<'_>>) {
        // The order in which they were made is the one in which they are likely to be read. And several files' states are only
        // ever taken in this order.
        files.sort_by_key(|(inode, _)| inode.ino);
        let mut rest = &files[..];
        while !rest.is_empty() {
            let taken = self.take_some(rest);
            rest = rest.get(taken..).unwrap_or_default();
        }
    }

    /// Takes as many of the first files as fit one segment; says how many.
    fn take_some(self: &Arc<Self>, files: &[Held<'_>]) -> usize {
        let mut members: Vec<(&Arc<Inode>, MutexGuard<'_, FileState>)> = Vec::new();
        let mut contents = 0;
        for (inode, _) in files {
            let state = inode.state.lock();
            let pending = state.dirty.pending_len();
            if !members.is_empty() && contents + pending > self.plan.batch {
                break;
            }
            contents += pending;
            members.push((inode, state));
        }
        let taken = members.len();
        if contents < LEAST || taken < 2 || contents > self.plan.batch {
            drop(members);
            files.iter().take(taken).for_each(|(inode, _)| self.take_pending(inode));
            return taken;
        }
        let batches: Vec<_> = members
            .iter_mut()
            .filter_map(|(inode, state)| Some((Arc::clone(inode), self.take_batch(inode, state, u64::MAX)?)))
            .collect();
        // While all are held: so that its number lies between those of earlier and of later batches of each.
        let segment = self.volume.begin_segment();
        drop(members);
        self.spawn_segment(batches, segment);
        taken
    }
}
