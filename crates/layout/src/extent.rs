//! Extents: which bytes of which segment make up a range of a file.

use std::sync::Arc;

use crate::SegmentId;

/// A slice of a *run*: consecutive frames in one segment that hold consecutive bytes.
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

/// The extents of one chunk: sorted, not overlapping; gaps are holes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ExtentMap {
    extents: Vec<Extent>,
}

impl ExtentMap {
    /// The extents in order.
    pub fn extents(&self) -> &[Extent] {
        &self.extents
    }

    /// Puts `extent` in place of whatever was there; returns the (trimmed) extents it displaced.
    pub fn insert(&mut self, _extent: Extent) -> Vec<Extent> {
        todo!()
    }

    /// Removes `[start, end)`; returns the (trimmed) extents removed.
    pub fn punch(&mut self, _start: u32, _end: u32) -> Vec<Extent> {
        todo!()
    }

    /// The extents within `[start, end)`, trimmed to it.
    pub fn slice(&self, _start: u32, _end: u32) -> Vec<Extent> {
        todo!()
    }

    /// Serialised form (see docs/format.md); stored in the metadata engine.
    pub fn encode(&self) -> Vec<u8> {
        todo!()
    }

    /// Parses [`Self::encode`]'s output. Errors on anything malformed, unsorted or overlapping; never panics.
    pub fn decode(_bytes: &[u8]) -> Result<Self, DecodeError> {
        todo!()
    }
}

/// Bytes that are not what they should be.
#[derive(Debug, thiserror::Error)]
#[error("corrupt {what}: {detail}")]
pub struct DecodeError {
    /// What was being decoded.
    pub what: &'static str,
    /// What is wrong with it.
    pub detail: String,
}
