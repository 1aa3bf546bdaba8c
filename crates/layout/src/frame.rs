//! Frames: the unit of checksum, compression and encryption within a segment.
//!
//! A run's plain bytes are cut into frames of `frame_size`, the last one shorter. A stored frame is
//! `[method, 1 byte, compressed volumes only][payload][tag, 16 bytes, encrypted volumes only][crc32c, 4 bytes]`;
//! method and payload are what is encrypted.

mod decoder;

use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use crate::checksum::FrameChecksum;
use crate::compression::{Compression, Method, decompress};
use crate::crypto::{CryptoError, DataKey, SegmentSealer, TAG_LEN};
use crate::{SegmentId, SegmentSlice, Superblock};

pub use decoder::Decoder;

/// Bytes of a frame's checksum.
pub(crate) const CRC_LEN: usize = 4;

/// Why stored bytes are not a frame of this volume. Every variant names the segment and the frame's offset in the stored
/// object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The bytes changed, or are those of another place.
    #[error(
        "segment {segment}, offset {offset}: checksum mismatch: the stored bytes are damaged or misplaced"
    )]
    Checksum {
        /// The segment.
        segment: SegmentId,
        /// The frame's stored offset, bytes.
        offset: u64,
    },
    /// There are fewer (or more) bytes than the frames have.
    #[error("segment {segment}, offset {offset}: {expected} stored bytes expected, {got} were read")]
    Truncated {
        /// The segment.
        segment: SegmentId,
        /// Stored offset of the first frame, bytes.
        offset: u64,
        /// Stored bytes that [`Codec::stored_range`] asked for.
        expected: u64,
        /// Bytes given.
        got: u64,
    },
    /// The checksum is right but the seal is not: another key, or bytes changed on purpose.
    #[error("segment {segment}, offset {offset}: cannot decrypt: sealed under another key, or tampered with")]
    Decrypt {
        /// The segment.
        segment: SegmentId,
        /// The frame's stored offset, bytes.
        offset: u64,
    },
    /// The payload does not decompress to the frame's length.
    #[error("segment {segment}, offset {offset}: cannot decompress the frame")]
    Decompress {
        /// The segment.
        segment: SegmentId,
        /// The frame's stored offset, bytes.
        offset: u64,
    },
    /// The slice itself, which comes from the metadata, cannot be right.
    #[error("segment {segment}, run at {offset}: the metadata describes it wrongly: {detail}")]
    BadSlice {
        /// The segment.
        segment: SegmentId,
        /// The run's stored offset, bytes.
        offset: u64,
        /// What is wrong.
        detail: &'static str,
    },
    /// An inline value, which is kept in the metadata, is damaged.
    #[error("inline value of {len} stored bytes: {detail}")]
    Inline {
        /// Stored bytes of the value.
        len: usize,
        /// What is wrong.
        detail: &'static str,
    },
}

/// Turns plain bytes into stored bytes and back, as one volume's superblock wants it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Codec {
    pub(crate) frame_size: u32,
    pub(crate) segment_size: u32,
    pub(crate) compression: Compression,
    pub(crate) key: Option<Arc<DataKey>>,
}

/// The frames that hold a range of a run.
struct Frames<'a> {
    slice: &'a SegmentSlice,
    frame_size: u32,
    overhead: u32,
    /// Indices of the frames.
    indices: Range<u32>,
    /// Plain range asked for, relative to the run.
    plain: Range<u32>,
    /// Stored range of the frames.
    stored: Range<u64>,
}

/// One frame.
#[derive(Debug)]
struct Frame {
    /// Offset in the stored object.
    offset: u32,
    stored_len: usize,
    plain_len: usize,
    /// The part of the frame's plain bytes that is asked for.
    wanted: Range<usize>,
}

impl Frames<'_> {
    fn plain_len(&self, index: u32) -> u32 {
        // `index` counts frames that begin before the run's end.
        (self.slice.run_len - index * self.frame_size).min(self.frame_size)
    }

    fn stored_len(&self, index: u32) -> u32 {
        match &self.slice.frames {
            Some(frames) => frames.get(index as usize).copied().unwrap_or(0),
            None => self.plain_len(index) + self.overhead,
        }
    }

    fn iter(&self) -> impl Iterator<Item = Frame> + '_ {
        // `Codec::frames` made sure that the range ends within 32 bits.
        let mut offset = self.stored.start as u32;
        self.indices.clone().map(move |index| {
            let begin = index * self.frame_size;
            let plain_len = self.plain_len(index);
            let frame = Frame {
                offset,
                stored_len: self.stored_len(index) as usize,
                plain_len: plain_len as usize,
                wanted: self.plain.start.saturating_sub(begin) as usize
                    ..(self.plain.end - begin).min(plain_len) as usize,
            };
            offset += frame.stored_len as u32;
            frame
        })
    }
}

impl Codec {
    /// The codec of a volume. Fails if the volume is encrypted and there is no key, or the other way round.
    pub fn new(superblock: &Superblock, key: Option<DataKey>) -> Result<Codec, CryptoError> {
        match (&superblock.encryption, &key) {
            (Some(_), None) => return Err(CryptoError::KeyMissing),
            (None, Some(_)) => return Err(CryptoError::KeyUnexpected),
            _ => {}
        }
        Ok(Codec {
            frame_size: superblock.frame_size.max(1),
            segment_size: superblock.segment_size,
            compression: superblock.compression,
            key: key.map(Arc::new),
        })
    }

    /// Plain bytes of a full frame.
    pub fn frame_size(&self) -> u32 {
        self.frame_size
    }

    /// Target length of a segment, stored bytes.
    pub fn segment_size(&self) -> u32 {
        self.segment_size
    }

    /// How frames are compressed.
    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// Whether frames are encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.key.is_some()
    }

    /// Whether bytes are stored as they are: neither compressed nor encrypted.
    pub fn stores_plain(&self) -> bool {
        self.compression == Compression::None && self.key.is_none()
    }

    /// The most that a run of `plain_len` bytes can take in a segment, without its index record.
    pub fn max_stored_len(&self, plain_len: u64) -> u64 {
        let frames = plain_len.div_ceil(u64::from(self.frame_size));
        plain_len.saturating_add(frames.saturating_mul(u64::from(self.overhead())))
    }

    /// Stored bytes of a frame beyond its payload.
    fn overhead(&self) -> u32 {
        let method = usize::from(self.compression != Compression::None);
        let tag = if self.is_encrypted() { TAG_LEN } else { 0 };
        (method + tag + CRC_LEN) as u32
    }

    /// The byte range of the stored object that must be fetched to read plain bytes `[slice.skip + from, + len)` of this
    /// slice's run: whole frames. Empty if `len` is 0, or if there is no such range, which [`Self::decode`] reports.
    pub fn stored_range(&self, slice: &SegmentSlice, from: u32, len: u32) -> Range<u64> {
        match self.frames(slice, from, len) {
            Ok(frames) => frames.stored,
            Err(_) => u64::from(slice.run_offset)..u64::from(slice.run_offset),
        }
    }

    /// Verifies, decrypts and decompresses `stored` (exactly the bytes of [`Self::stored_range`]) and gives the plain bytes
    /// asked for, in pieces whose lengths add up to `len`. The pieces of a volume that neither compresses nor encrypts
    /// share `stored`'s memory; so do those of an encrypted one if nothing else holds `stored`.
    pub fn decode(
        &self,
        slice: &SegmentSlice,
        from: u32,
        len: u32,
        stored: Bytes,
    ) -> Result<Vec<Bytes>, FrameError> {
        let frames = self.frames(slice, from, len)?;
        let expected = frames.stored.end - frames.stored.start;
        if stored.len() as u64 != expected {
            return Err(FrameError::Truncated {
                segment: slice.segment,
                offset: frames.stored.start,
                expected,
                got: stored.len() as u64,
            });
        }
        let checksum = FrameChecksum::new(slice.segment);
        let mut pieces = Vec::with_capacity(frames.indices.len());
        match &self.key {
            None => {
                let mut at = 0;
                for frame in frames.iter() {
                    let body = at..at + frame.stored_len - CRC_LEN;
                    at += frame.stored_len;
                    self.verify(slice, &checksum, &frame, &stored[body.start..at])?;
                    pieces.push(self.expand(slice, &frame, &stored, body)?);
                }
            }
            Some(key) => {
                let sealer = key.for_segment(slice.segment);
                let mut stored = stored.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&shared[..]));
                for frame in frames.iter() {
                    let mut bytes = stored.split_to(frame.stored_len);
                    self.verify(slice, &checksum, &frame, &bytes)?;
                    bytes.truncate(frame.stored_len - CRC_LEN);
                    let body = open(slice, &sealer, &frame, &mut bytes)?;
                    pieces.push(self.expand(slice, &frame, &bytes.freeze(), 0..body)?);
                }
            }
        }
        Ok(pieces)
    }

    /// Checks a frame's crc.
    fn verify(
        &self,
        slice: &SegmentSlice,
        checksum: &FrameChecksum,
        frame: &Frame,
        stored: &[u8],
    ) -> Result<(), FrameError> {
        let offset = u64::from(frame.offset);
        let mismatch = FrameError::Checksum { segment: slice.segment, offset };
        let Some((body, crc)) = stored.split_last_chunk::<CRC_LEN>() else {
            return Err(mismatch);
        };
        if checksum.of(frame.offset, body) != u32::from_le_bytes(*crc) {
            return Err(mismatch);
        }
        Ok(())
    }

    /// The bytes wanted of a frame whose method and payload are `source[body]`.
    fn expand(
        &self,
        slice: &SegmentSlice,
        frame: &Frame,
        source: &Bytes,
        body: Range<usize>,
    ) -> Result<Bytes, FrameError> {
        let offset = u64::from(frame.offset);
        let bad = FrameError::Decompress { segment: slice.segment, offset };
        let wanted = |payload: Range<usize>| {
            source.slice(payload.start + frame.wanted.start..payload.start + frame.wanted.end)
        };
        if self.compression == Compression::None {
            return if body.len() == frame.plain_len { Ok(wanted(body)) } else { Err(bad) };
        }
        let Some((&method, payload)) = source[body.clone()].split_first() else {
            return Err(bad);
        };
        match Method::from_byte(method) {
            None => Err(bad),
            Some(Method::Raw) if payload.len() == frame.plain_len => Ok(wanted(body.start + 1..body.end)),
            Some(Method::Raw) => Err(bad),
            Some(method) => {
                let plain = decompress(method, payload, frame.plain_len).ok_or(bad)?;
                Ok(Bytes::from(plain).slice(frame.wanted.clone()))
            }
        }
    }

    /// Finds the frames of a range and checks that the slice can be right, so that what follows needs no care.
    fn frames<'a>(&self, slice: &'a SegmentSlice, from: u32, len: u32) -> Result<Frames<'a>, FrameError> {
        let bad = |detail| {
            let offset = u64::from(slice.run_offset);
            Err(FrameError::BadSlice { segment: slice.segment, offset, detail })
        };
        let start = u64::from(slice.skip) + u64::from(from);
        let end = start + u64::from(len);
        if end > u64::from(slice.run_len) {
            return bad("the range passes the end of the run");
        }
        let frame_size = u64::from(self.frame_size);
        let overhead = self.overhead();
        let count = u64::from(slice.run_len).div_ceil(frame_size);
        let indices = if len == 0 { 0..0 } else { start / frame_size..end.div_ceil(frame_size) };
        let run_offset = u64::from(slice.run_offset);
        let stored = match &slice.frames {
            None if self.compression != Compression::None => {
                return bad("it has no frame lengths, but the volume is compressed");
            }
            None => {
                let stride = frame_size + u64::from(overhead);
                let tail = u64::from(slice.run_len) + count * u64::from(overhead);
                let from_run = |index: u64| run_offset + (index * stride).min(tail);
                from_run(indices.start)..from_run(indices.end)
            }
            Some(_) if self.compression == Compression::None => {
                return bad("it has frame lengths, but the volume is not compressed");
            }
            Some(frames) if frames.len() as u64 != count => {
                return bad("the number of frame lengths does not fit the run's length");
            }
            Some(frames) => {
                // Indices end at `count`, which is the table's length.
                let (before, these) = frames[..indices.end as usize].split_at(indices.start as usize);
                let sum = |lens: &[u32]| lens.iter().map(|len| u64::from(*len)).sum::<u64>();
                if these.iter().any(|len| *len <= overhead || u64::from(*len - overhead) > frame_size) {
                    return bad("a frame length is out of range");
                }
                let start = run_offset + sum(before);
                start..start + sum(these)
            }
        };
        if stored.end > u64::from(u32::MAX) {
            return bad("it passes the end of the largest segment");
        }
        Ok(Frames {
            slice,
            frame_size: self.frame_size,
            overhead,
            // Both are at most `count`, and the range ends within the run: 32 bits hold all of them.
            indices: indices.start as u32..indices.end as u32,
            plain: start as u32..end as u32,
            stored,
        })
    }
}

/// Decrypts a frame in place; the length of method and payload.
fn open(
    slice: &SegmentSlice,
    sealer: &SegmentSealer,
    frame: &Frame,
    sealed: &mut [u8],
) -> Result<usize, FrameError> {
    let offset = u64::from(frame.offset);
    sealer.open_frame(frame.offset, sealed).ok_or(FrameError::Decrypt { segment: slice.segment, offset })
}

#[cfg(test)]
mod tests;
