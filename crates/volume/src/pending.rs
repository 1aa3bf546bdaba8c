//! Segments that are being written: known to this process, not to metadata yet.
//!
//! An object whose id metadata does not know looks like garbage. Its age protects it while it is young; this set
//! protects it however long the write takes (a store that hangs, a metadata disk that is full).

use std::collections::HashSet;
use std::sync::Arc;
use std::time::SystemTime;

use headrace_layout::SegmentId;
use parking_lot::Mutex;

/// The segments this process is writing.
#[derive(Clone, Debug, Default)]
pub struct PendingSegments {
    ids: Arc<Mutex<HashSet<SegmentId>>>,
}

impl PendingSegments {
    /// A new segment id. Keep the guard until metadata names the segment, or until the write is given up.
    pub fn begin(&self, now: SystemTime) -> PendingSegment {
        let id = SegmentId::new(now);
        self.ids.lock().insert(id);
        PendingSegment { id, set: self.clone() }
    }

    /// Whether `id` is being written.
    pub fn contains(&self, id: SegmentId) -> bool {
        self.ids.lock().contains(&id)
    }
}

/// Keeps garbage collection away from one segment until it is dropped.
#[derive(Debug)]
pub struct PendingSegment {
    id: SegmentId,
    set: PendingSegments,
}

impl PendingSegment {
    /// The segment's id.
    pub fn id(&self) -> SegmentId {
        self.id
    }
}

impl Drop for PendingSegment {
    fn drop(&mut self) {
        self.set.ids.lock().remove(&self.id);
    }
}
