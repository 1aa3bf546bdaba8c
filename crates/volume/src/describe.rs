//! Names in segments: what a rebuild without metadata gives files their names from.

use headrace_layout::{InodeNo, SegmentBuilder};

use crate::open::Volume;

impl Volume {
    /// Records in a segment that is about to be finished whose bytes it holds, as far as that is known: names, owners,
    /// directories. Names change later, and what cannot be found in reasonable time is left out, so this never fails.
    pub fn describe(&self, builder: &mut SegmentBuilder) {
        let mut inodes: Vec<InodeNo> = builder.inodes().collect();
        inodes.sort_unstable();
        match self.meta.describe_files(&inodes) {
            Ok((files, directories)) => builder.describe(&files, &directories),
            Err(error) => tracing::debug!(segment = %builder.id(), %error, "a segment goes without names"),
        }
    }
}
