//! The stored form of an extent map. `docs/format.md` has the layout.
//!
//! Neighbouring extents mostly come from few segments and few runs, so both are tables at the front: an overwritten
//! compressed run names its frame lengths once, not once for every piece left of it.

use std::collections::HashMap;
use std::sync::Arc;

use super::{DecodeError, Extent, ExtentData, ExtentMap, SegmentSlice};
use crate::SegmentId;
use crate::checksum::crc32c;
use crate::wire::{Reader, put_varint};

const VERSION: u8 = 1;
const WHAT: &str = "extent map";

/// Stands for "inline" where a run's index plus one could be.
const INLINE: u64 = 0;

/// The tables at the front.
#[derive(Default)]
struct Tables<'a> {
    segments: Vec<SegmentId>,
    segment_index: HashMap<SegmentId, usize>,
    runs: Vec<&'a SegmentSlice>,
    run_index: HashMap<(SegmentId, u32), usize>,
}

impl<'a> Tables<'a> {
    /// The run's index, entered if new.
    fn run(&mut self, slice: &'a SegmentSlice) -> usize {
        let key = (slice.segment, slice.run_offset);
        if let Some(&index) = self.run_index.get(&key)
            && self.runs[index].same_run(slice)
        {
            return index;
        }
        if !self.segment_index.contains_key(&slice.segment) {
            self.segment_index.insert(slice.segment, self.segments.len());
            self.segments.push(slice.segment);
        }
        self.run_index.insert(key, self.runs.len());
        self.runs.push(slice);
        self.runs.len() - 1
    }

    fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, self.segments.len() as u64);
        for segment in &self.segments {
            out.extend_from_slice(&segment.to_bytes());
        }
        put_varint(out, self.runs.len() as u64);
        for run in &self.runs {
            put_varint(out, self.segment_index[&run.segment] as u64);
            put_varint(out, u64::from(run.run_offset));
            put_varint(out, u64::from(run.run_len));
            put_frames(out, run.frames.as_deref());
        }
    }
}

/// Appends a frame table: the count (0 for none), then the stored lengths.
pub(crate) fn put_frames(out: &mut Vec<u8>, frames: Option<&[u32]>) {
    let frames = frames.unwrap_or_default();
    put_varint(out, frames.len() as u64);
    for stored in frames {
        put_varint(out, u64::from(*stored));
    }
}

/// Reads what [`put_frames`] wrote.
pub(crate) fn read_frames(reader: &mut Reader<'_>) -> Result<Option<Arc<[u32]>>, DecodeError> {
    let count = reader.count(1)?;
    if count == 0 {
        return Ok(None);
    }
    let mut frames = Vec::with_capacity(count);
    for _ in 0..count {
        frames.push(reader.varint_u32()?);
    }
    Ok(Some(frames.into()))
}

/// Refuses a run that cannot be in an object addressed by 32-bit offsets.
pub(crate) fn check_run(reader: &Reader<'_>, slice: &SegmentSlice) -> Result<(), DecodeError> {
    let stored: u64 = match &slice.frames {
        Some(frames) => frames.iter().map(|f| u64::from(*f)).sum(),
        None => u64::from(slice.run_len),
    };
    if u64::from(slice.run_offset) + stored > u64::from(u32::MAX) {
        return Err(reader.error("a run passes the end of the largest segment"));
    }
    Ok(())
}

impl ExtentMap {
    /// Serialised form (see docs/format.md); stored in the metadata engine. Equal maps give equal bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut tables = Tables::default();
        let mut body = Vec::with_capacity(16 * self.extents.len());
        put_varint(&mut body, self.extents.len() as u64);
        let mut position = 0;
        for extent in &self.extents {
            put_varint(&mut body, u64::from(extent.start - position));
            put_varint(&mut body, u64::from(extent.len));
            match &extent.data {
                ExtentData::Segment(slice) => {
                    put_varint(&mut body, tables.run(slice) as u64 + 1);
                    put_varint(&mut body, u64::from(slice.skip));
                }
                ExtentData::Inline { id, skip } => {
                    put_varint(&mut body, INLINE);
                    put_varint(&mut body, *id);
                    put_varint(&mut body, u64::from(*skip));
                }
            }
            position = extent.end();
        }
        let mut out = vec![VERSION];
        tables.put(&mut out);
        out.extend_from_slice(&body);
        let crc = crc32c(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }

    /// Parses [`Self::encode`]'s output. Errors on anything malformed, unsorted or overlapping; never panics.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::checked(WHAT, bytes)?;
        let version = reader.u8()?;
        if version != VERSION {
            return Err(reader.error(format!("version {version} is not known")));
        }
        let runs = read_runs(&mut reader)?;
        let count = reader.count(4)?;
        let mut extents: Vec<Extent> = Vec::with_capacity(count);
        let mut position = 0u32;
        for _ in 0..count {
            // Distances from the end of the one before cannot express an overlap or a wrong order.
            let extent = read_extent(&mut reader, &runs, position)?;
            if let Some(defect) = extent.defect() {
                return Err(reader.error(defect));
            }
            position = extent.end();
            extents.push(extent);
        }
        reader.finish()?;
        Ok(ExtentMap { extents })
    }
}

fn read_runs(reader: &mut Reader<'_>) -> Result<Vec<SegmentSlice>, DecodeError> {
    let mut segments = Vec::with_capacity(reader.count(SegmentId::LEN)?);
    for _ in 0..segments.capacity() {
        segments.push(SegmentId::from_bytes(reader.array()?));
    }
    let count = reader.count(4)?;
    let mut runs = Vec::with_capacity(count);
    for _ in 0..count {
        let index = reader.varint_u32()? as usize;
        let Some(&segment) = segments.get(index) else {
            return Err(reader.error("a run names a segment that is not in the table"));
        };
        let run_offset = reader.varint_u32()?;
        let run_len = reader.varint_u32()?;
        let frames = read_frames(reader)?;
        let run = SegmentSlice { segment, run_offset, run_len, skip: 0, frames };
        check_run(reader, &run)?;
        runs.push(run);
    }
    Ok(runs)
}

fn read_extent(reader: &mut Reader<'_>, runs: &[SegmentSlice], position: u32) -> Result<Extent, DecodeError> {
    let gap = reader.varint_u32()?;
    let len = reader.varint_u32()?;
    let Some(start) = position.checked_add(gap) else {
        return Err(reader.error("an extent passes the end of its chunk"));
    };
    let data = match reader.varint()? {
        INLINE => ExtentData::Inline { id: reader.varint()?, skip: reader.varint_u32()? },
        index => {
            let run = usize::try_from(index - 1).ok().and_then(|i| runs.get(i));
            let Some(run) = run else {
                return Err(reader.error("an extent names a run that is not in the table"));
            };
            ExtentData::Segment(SegmentSlice { skip: reader.varint_u32()?, ..run.clone() })
        }
    };
    Ok(Extent { start, len, data })
}
