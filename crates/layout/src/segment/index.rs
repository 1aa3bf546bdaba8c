//! A segment's index: which file range each run holds.

use std::collections::HashMap;

use uuid::Uuid;

use super::envelope::SegmentFooter;
use super::names::{self, DirectoryRecord, FileRecord, RunPart};
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
/// The file as it was then; in the first run of each file.
const FIELD_FILE: u64 = 2;
/// A directory above one of the segment's files; any number, all in the first run.
const FIELD_DIRECTORY: u64 = 3;
/// A moved run: since when its parts are what they are.
const FIELD_PARTS: u64 = 4;

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
    /// The files of the runs, as far as the writer knew them.
    pub files: Vec<FileRecord>,
    /// The directories above them, as far as the writer knew them.
    pub directories: Vec<DirectoryRecord>,
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
    /// Where a moved run's parts come from, in order; empty if it was written by the file's user.
    pub parts: Vec<RunPart>,
}

impl IndexRun {
    /// The parts of the run: offset in it, length, and when the bytes were written (milliseconds since the Unix epoch).
    pub fn ages(&self) -> impl Iterator<Item = (u32, u32, u64)> + '_ {
        let whole = RunPart { len: self.slice.run_len, written_ms: names::created_ms(self.slice.segment) };
        let parts = if self.parts.is_empty() { vec![whole] } else { self.parts.clone() };
        parts.into_iter().scan(0u32, |at, part| {
            let start = *at;
            *at = at.saturating_add(part.len);
            Some((start, part.len, part.written_ms))
        })
    }
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
    records: Vec<Vec<u8>>,
    /// The first record of each file.
    first: HashMap<InodeNo, usize>,
    /// Bytes of all records with their lengths.
    stored: usize,
    /// Bytes of names among them.
    names: usize,
}

impl Records {
    pub(super) fn push(&mut self, ino: InodeNo, file_offset: u64, slice: &SegmentSlice, parts: &[RunPart]) {
        let mut record = Vec::with_capacity(24);
        put_varint(&mut record, ino.0);
        put_varint(&mut record, file_offset);
        put_varint(&mut record, u64::from(slice.run_offset));
        put_varint(&mut record, u64::from(slice.run_len));
        if let Some(frames) = &slice.frames {
            let mut field = Vec::with_capacity(4 * frames.len() + 4);
            put_frames(&mut field, Some(frames));
            put_field(&mut record, FIELD_FRAMES, &field);
        }
        if !parts.is_empty() {
            let mut field = Vec::with_capacity(8 * parts.len());
            names::put_parts(parts, slice.segment, &mut field);
            put_field(&mut record, FIELD_PARTS, &field);
        }
        self.stored += record_len(&record);
        self.first.entry(ino).or_insert(self.records.len());
        self.records.push(record);
    }

    pub(super) fn count(&self) -> u64 {
        self.records.len() as u64
    }

    /// The files that have runs, in no order.
    pub(super) fn inodes(&self) -> impl Iterator<Item = InodeNo> + '_ {
        self.first.keys().copied()
    }

    /// Adds what is known of a file; nothing if the segment has nothing of it, or has `room` bytes left only.
    pub(super) fn describe_file(&mut self, segment: SegmentId, file: &FileRecord, room: usize) {
        let mut field = Vec::with_capacity(24 + file.name.len());
        file.put(segment, &mut field);
        if let Some(&index) = self.first.get(&file.ino) {
            self.add_name(index, FIELD_FILE, &field, room);
        }
    }

    /// Adds a directory, in the same way.
    pub(super) fn describe_directory(&mut self, directory: &DirectoryRecord, room: usize) {
        let mut field = Vec::with_capacity(16 + directory.name.len());
        directory.put(&mut field);
        self.add_name(0, FIELD_DIRECTORY, &field, room);
    }

    fn add_name(&mut self, index: usize, tag: u64, field: &[u8], room: usize) {
        // The field's head, and what the record's own length may grow by.
        let len = field.len() + 8;
        if len > room || self.names + len > names::MAX_NAMES_LEN {
            return;
        }
        if let Some(record) = self.records.get_mut(index) {
            self.stored -= record_len(record);
            put_field(record, tag, field);
            self.stored += record_len(record);
            self.names += len;
        }
    }

    /// Length of the index as [`Self::put`] would write it.
    pub(super) fn stored_len(&self, encrypted: bool) -> usize {
        let count = varint_len(self.count());
        FIXED_LEN + count + self.stored + if encrypted { TAG_LEN } else { 0 } + 4
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
        put_varint(out, self.count());
        for record in &self.records {
            put_varint(out, record.len() as u64);
            out.extend_from_slice(record);
        }
        if let Some(sealer) = sealer {
            sealer.seal_index(out, body);
        }
        let crc = crc32c(&out[from..]);
        out.extend_from_slice(&crc.to_le_bytes());
    }
}

fn put_field(record: &mut Vec<u8>, tag: u64, content: &[u8]) {
    put_varint(record, tag);
    put_varint(record, content.len() as u64);
    record.extend_from_slice(content);
}

fn varint_len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Bytes of a record with its length.
fn record_len(record: &[u8]) -> usize {
    varint_len(record.len() as u64) + record.len()
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
        let mut index =
            SegmentIndex { volume, id, runs: Vec::new(), files: Vec::new(), directories: Vec::new() };
        index.read_records(Reader::new(WHAT, body))?;
        Ok(index)
    }

    fn read_records(&mut self, mut reader: Reader<'_>) -> Result<(), DecodeError> {
        // A record has a length and four numbers.
        let count = reader.count(5)?;
        self.runs.reserve(count);
        let mut end = HEADER_LEN as u64;
        for _ in 0..count {
            let len = reader.count(1)?;
            let run = self.read_record(Reader::new(WHAT, reader.take(len)?))?;
            if u64::from(run.slice.run_offset) < end || run.slice.run_len == 0 {
                return Err(reader.error("runs overlap, are empty, or are not in stored order"));
            }
            // A run's stored length is at least its plain length, or the sum of its frames.
            end = u64::from(run.slice.run_offset)
                + match &run.slice.frames {
                    Some(frames) => frames.iter().map(|len| u64::from(*len)).sum(),
                    None => u64::from(run.slice.run_len),
                };
            self.runs.push(run);
        }
        reader.finish()
    }

    fn read_record(&mut self, mut reader: Reader<'_>) -> Result<IndexRun, DecodeError> {
        let ino = InodeNo(reader.varint()?);
        let file_offset = reader.varint()?;
        let run_offset = reader.varint_u32()?;
        let run_len = reader.varint_u32()?;
        let mut slice = SegmentSlice { segment: self.id, run_offset, run_len, skip: 0, frames: None };
        let mut parts = Vec::new();
        if file_offset.checked_add(u64::from(run_len)).is_none() {
            return Err(reader.error("a run passes the end of the largest file"));
        }
        while reader.remaining() > 0 {
            let field = reader.varint()?;
            let len = reader.count(1)?;
            let mut content = Reader::new(WHAT, reader.take(len)?);
            match field {
                FIELD_FRAMES => {
                    slice.frames = read_frames(&mut content)?;
                    content.finish()?;
                }
                FIELD_FILE => self.files.push(FileRecord::read(content, ino, self.id)?),
                FIELD_DIRECTORY => self.directories.push(DirectoryRecord::read(content)?),
                FIELD_PARTS => parts = names::read_parts(content, run_len, self.id)?,
                // Fields that are not known are skipped: they add, they never change what the others mean.
                _ => {}
            }
        }
        check_run(&reader, &slice)?;
        Ok(IndexRun { ino, file_offset, slice, parts })
    }
}
