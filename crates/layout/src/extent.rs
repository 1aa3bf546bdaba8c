//! Extents: which bytes of which segment make up a range of a file.

mod encoding;
mod map;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub(crate) use encoding::{check_run, put_frames, read_frames};
pub use map::ExtentMap;

pub use crate::wire::DecodeError;
use crate::{CHUNK_SIZE, SegmentId};

/// A slice of a *run*: consecutive frames in one segment that hold consecutive bytes.
///
/// `run_offset`, `run_len` and `frames` describe the whole run and stay as the segment's builder gave them, however the
/// slice is trimmed; only `skip` moves. So two slices are of the same run exactly when those three fields and `segment`
/// are equal, and a slice of given bytes has one representation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SegmentSlice {
    /// The segment object.
    pub segment: SegmentId,
    /// Offset in the stored object of the run's first frame, bytes.
    pub run_offset: u32,
    /// Plain length of the whole run, bytes.
    pub run_len: u32,
    /// Plain offset within the run at which this extent begins, bytes.
    pub skip: u32,
    /// Stored length of every frame of the run; `None` when frames have the fixed stride of an uncompressed volume.
    pub frames: Option<Arc<[u32]>>,
}

impl SegmentSlice {
    /// Whether both are slices of the same run.
    pub fn same_run(&self, other: &SegmentSlice) -> bool {
        let same_frames = match (&self.frames, &other.frames) {
            (None, None) => true,
            (Some(a), Some(b)) => Arc::ptr_eq(a, b) || a == b,
            _ => false,
        };
        self.segment == other.segment
            && self.run_offset == other.run_offset
            && self.run_len == other.run_len
            && same_frames
    }
}

/// Where an extent's bytes are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ExtentData {
    /// In a segment.
    Segment(SegmentSlice),
    /// In the metadata engine, under the owner's inline key `id`, from byte `skip` of that value.
    Inline {
        /// Identifies the inline value within the volume; never reused.
        id: u64,
        /// Plain offset within the value at which this extent begins.
        skip: u32,
    },
}

impl ExtentData {
    /// The same source, `by` bytes further on.
    pub fn advanced(&self, by: u32) -> ExtentData {
        let mut data = self.clone();
        match &mut data {
            ExtentData::Segment(slice) => slice.skip = slice.skip.saturating_add(by),
            ExtentData::Inline { skip, .. } => *skip = skip.saturating_add(by),
        }
        data
    }
}

/// A range of a file and where its bytes are. `start` is relative to the chunk. Never crosses a chunk boundary.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Extent {
    /// First byte, relative to the start of the chunk.
    pub start: u32,
    /// Length, bytes; at least 1.
    pub len: u32,
    /// Where the bytes are.
    pub data: ExtentData,
}

impl Extent {
    /// One past the last byte, relative to the start of the chunk.
    pub fn end(&self) -> u32 {
        self.start.saturating_add(self.len)
    }

    /// The part within `[start, end)`, both relative to the chunk; `None` if there is none.
    pub fn trim(&self, start: u32, end: u32) -> Option<Extent> {
        let (start, end) = (start.max(self.start), end.min(self.end()));
        (start < end).then(|| Extent {
            start,
            len: end - start,
            data: self.data.advanced(start - self.start),
        })
    }

    /// Whether `next` begins where this one ends, in the file and in the same source, so that both can be one extent.
    pub fn continued_by(&self, next: &Extent) -> bool {
        if self.end() != next.start {
            return false;
        }
        match (&self.data, &next.data) {
            (ExtentData::Segment(a), ExtentData::Segment(b)) => {
                a.skip.checked_add(self.len) == Some(b.skip) && a.same_run(b)
            }
            (ExtentData::Inline { id: a, skip }, ExtentData::Inline { id: b, skip: next_skip }) => {
                a == b && skip.checked_add(self.len) == Some(*next_skip)
            }
            _ => false,
        }
    }

    /// What is wrong with the extent by itself, if anything.
    fn defect(&self) -> Option<&'static str> {
        if self.len == 0 {
            return Some("an extent is empty");
        }
        if u64::from(self.start) + u64::from(self.len) > CHUNK_SIZE {
            return Some("an extent passes the end of its chunk");
        }
        match &self.data {
            ExtentData::Segment(slice) => (u64::from(slice.skip) + u64::from(self.len)
                > u64::from(slice.run_len))
            .then_some("an extent passes the end of its run"),
            ExtentData::Inline { skip, .. } => {
                skip.checked_add(self.len).is_none().then_some("an extent passes the end of its inline value")
            }
        }
    }
}
