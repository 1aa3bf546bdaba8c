//! A segment's index: which file range each run holds.

use uuid::Uuid;

use super::envelope::SegmentFooter;
use super::{FOOTER_LEN, HEADER_LEN};
use crate::checksum::crc32c;
use crate::crypto::{SegmentSealer, TAG_LEN};
use crate::extent::{check_run, put_frames, read_frames};
use crate::wire::{Reader, put_varint};
use crate::{Codec, DecodeError, InodeNo, SegmentId, SegmentSlice};

const WHAT: &str = "segment index";
const VERSION: u8 = 1;
const FLAG_ENCRYPTED: u8 = 1;

/// Version, flags, volume, segment.
const FIXED_LEN: usize = 2 + 16 + SegmentId::LEN;

/// A record's optional field that holds the stored lengths of a compressed run's frames.
const FIELD_FRAMES: u64 = 1;

/// Most bytes of a record beyond its frame lengths: its length, four numbers, and the field's head.
pub(super) const MAX_RECORD_LEN: usize = 64;

/// Most bytes of one frame length.
pub(super) const MAX_FRAME_LEN_LEN: usize = 5;

/// What a segment holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SegmentIndex {
    /// The volume.
    pub volume: Uuid,
    /// The segment.
    pub id: SegmentId,
    /// Its runs, in stored order.
    pub runs: Vec<IndexRun>,
}

/// A run and whose bytes it held when it was written; the file may have changed since.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IndexRun {
    /// The file.
    pub ino: InodeNo,
    /// Where in the file the run begins, bytes.
    pub file_offset: u64,
    /// The whole run.
    pub slice: SegmentSlice,
}

/// Why an index cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IndexError {
    /// The bytes are damaged.
    #[error(transparent)]
    Corrupt(#[from] DecodeError),
    /// It is encrypted and does not open.
    #[error("segment {segment}: cannot decrypt its index: sealed under another key, or tampered with")]
    Decrypt {
        /// The segment.
        segment: SegmentId,
    },
}

/// Records of an index that is being built.
#[derive(Default)]
pub(super) struct Records {
    count: u64,
    bytes: Vec<u8>,
    scratch: Vec<u8>,
}

impl Records {
    pub(super) fn push(&mut self, ino: InodeNo, file_offset: u64, slice: &SegmentSlice) {
        self.scratch.clear();
        put_varint(&mut self.scratch, ino.0);
        put_varint(&mut self.scratch, file_offset);
        put_varint(&mut self.scratch, u64::from(slice.run_offset));
        put_varint(&mut self.scratch, u64::from(slice.run_len));
        if let Some(frames) = &slice.frames {
            let mut field = Vec::with_capacity(4 * frames.len() + 4);
            put_frames(&mut field, Some(frames));
            put_varint(&mut self.scratch, FIELD_FRAMES);
            put_varint(&mut self.scratch, field.len() as u64);
            self.scratch.extend_from_slice(&field);
        }
        put_varint(&mut self.bytes, self.scratch.len() as u64);
        self.bytes.extend_from_slice(&self.scratch);
        self.count += 1;
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Length of the index as [`Self::put`] would write it.
    pub(super) fn stored_len(&self, encrypted: bool) -> usize {
        let mut count = Vec::with_capacity(10);
        put_varint(&mut count, self.count);
        FIXED_LEN + count.len() + self.bytes.len() + if encrypted { TAG_LEN } else { 0 } + 4
    }

    /// Appends the index.
    pub(super) fn put(
        &self,
        volume: Uuid,
        segment: SegmentId,
        sealer: Option<&SegmentSealer>,
        out: &mut Vec<u8>,
    ) {
        let from = out.len();
        out.extend_from_slice(&[VERSION, if sealer.is_some() { FLAG_ENCRYPTED } else { 0 }]);
        out.extend_from_slice(volume.as_bytes());
        out.extend_from_slice(&segment.to_bytes());
        let body = out.len();
        put_varint(out, self.count);
        out.extend_from_slice(&self.bytes);
        if let Some(sealer) = sealer {
            sealer.seal_index(out, body);
        }
        let crc = crc32c(&out[from..]);
        out.extend_from_slice(&crc.to_le_bytes());
    }
}

impl SegmentIndex {
    /// Bytes at a segment's end that [`Self::parse_footer`] wants.
    pub const fn footer_len() -> usize {
        FOOTER_LEN
    }

    /// Offset and length of the index, from a segment's last [`Self::footer_len`] bytes.
    pub fn parse_footer(footer: &[u8]) -> Result<(u64, u64), DecodeError> {
        let footer = SegmentFooter::decode(footer)?;
        Ok((u64::from(footer.index_offset), u64::from(footer.index_len)))
    }

    /// Parses (and decrypts) an index: the bytes that [`Self::parse_footer`] points at. The caller compares `volume` and
    /// `id` with what it expected.
    pub fn decode(codec: &Codec, bytes: &[u8]) -> Result<SegmentIndex, IndexError> {
        let mut reader = Reader::checked(WHAT, bytes)?;
        let [version, flags] = reader.array()?;
        if version != VERSION {
            return Err(reader.error(format!("version {version} is not known: use a newer Headrace")).into());
        }
        let volume = Uuid::from_bytes(reader.array()?);
        let id = SegmentId::from_bytes(reader.array()?);
        let mut body = reader.take_rest().to_vec();
        let body = match (&codec.key, flags) {
            (None, 0) => body.as_slice(),
            (Some(key), FLAG_ENCRYPTED) => {
                key.for_segment(id).open_index(&mut body).ok_or(IndexError::Decrypt { segment: id })?
            }
            _ => return Err(reader.error("its flags do not fit the volume").into()),
        };
        let runs = read_records(Reader::new(WHAT, body), id)?;
        Ok(SegmentIndex { volume, id, runs })
    }
}

fn read_records(mut reader: Reader<'_>, segment: SegmentId) -> Result<Vec<IndexRun>, DecodeError> {
    // A record has a length and four numbers.
    let count = reader.count(5)?;
    let mut runs = Vec::with_capacity(count);
    let mut end = HEADER_LEN as u64;
    for _ in 0..count {
        let len = reader.count(1)?;
        let run = read_record(Reader::new(WHAT, reader.take(len)?), segment)?;
        if u64::from(run.slice.run_offset) < end || run.slice.run_len == 0 {
            return Err(reader.error("runs overlap, are empty, or are not in stored order"));
        }
        // A run's stored length is at least its plain length, or the sum of its frames.
        end = u64::from(run.slice.run_offset)
            + match &run.slice.frames {
                Some(frames) => frames.iter().map(|len| u64::from(*len)).sum(),
                None => u64::from(run.slice.run_len),
            };
        runs.push(run);
    }
    reader.finish()?;
    Ok(runs)
}

fn read_record(mut reader: Reader<'_>, segment: SegmentId) -> Result<IndexRun, DecodeError> {
    let ino = InodeNo(reader.varint()?);
    let file_offset = reader.varint()?;
    let run_offset = reader.varint_u32()?;
    let run_len = reader.varint_u32()?;
    let mut slice = SegmentSlice { segment, run_offset, run_len, skip: 0, frames: None };
    if file_offset.checked_add(u64::from(run_len)).is_none() {
        return Err(reader.error("a run passes the end of the largest file"));
    }
    while reader.remaining() > 0 {
        let field = reader.varint()?;
        let len = reader.count(1)?;
        let mut content = Reader::new(WHAT, reader.take(len)?);
        // Fields that are not known are skipped: they add, they never change what the others mean.
        if field == FIELD_FRAMES {
            slice.frames = read_frames(&mut content)?;
            content.finish()?;
        }
    }
    check_run(&reader, &slice)?;
    Ok(IndexRun { ino, file_offset, slice })
}
