//! Building a segment in memory.

use bytes::Bytes;
use uuid::Uuid;

use super::envelope::{SegmentFooter, SegmentHeader};
use super::index::{MAX_FRAME_LEN_LEN, MAX_RECORD_LEN, Records};
use super::names::{DirectoryRecord, FileRecord, RunPart};
use super::{FOOTER_LEN, HEADER_LEN, MAX_STORED_LEN};
use crate::checksum::FrameChecksum;
use crate::compression::{Compression, Compressor};
use crate::crypto::SegmentSealer;
use crate::{Codec, InodeNo, SegmentId, SegmentSlice};

/// A run that does not fit into the segment any more: finish it and begin another.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("segment {segment}: {plain_len} bytes do not fit: it has {stored_len} of at most {MAX_STORED_LEN}")]
pub struct SegmentFull {
    /// The segment.
    pub segment: SegmentId,
    /// Its stored length so far, bytes.
    pub stored_len: usize,
    /// Plain length of the run that was refused, bytes.
    pub plain_len: u64,
}

/// A segment being filled.
pub struct SegmentBuilder {
    codec: Codec,
    volume: Uuid,
    id: SegmentId,
    /// Header and frames, as they will be stored, but for `shared`.
    buffer: Vec<u8>,
    /// Parts of frames that are not copied, each with how many bytes of `buffer` come before it.
    shared: Vec<(usize, Bytes)>,
    /// Bytes in them.
    shared_len: usize,
    checksum: FrameChecksum,
    sealer: Option<SegmentSealer>,
    /// `None` in volumes that do not compress.
    compressor: Option<Compressor>,
    /// Where a frame's bytes are brought together if they come in several pieces and must be compressed.
    gathered: Vec<u8>,
    records: Records,
}

impl SegmentBuilder {
    /// An empty segment. `id` must be fresh: the same id with other contents would break both caches, which hold segments to be
    /// immutable, and encryption, whose nonces are places in the segment.
    pub fn new(codec: &Codec, volume: Uuid, id: SegmentId) -> SegmentBuilder {
        let target = codec.max_stored_len(u64::from(codec.segment_size)).min(u64::from(MAX_STORED_LEN));
        Self::with_capacity(codec, volume, id, target as usize + (64 << 10))
    }

    /// The same for runs that are shared ([`Self::push_shared_run`]): it begins small.
    pub fn for_shared(codec: &Codec, volume: Uuid, id: SegmentId) -> SegmentBuilder {
        if codec.stores_plain() {
            Self::with_capacity(codec, volume, id, 64 << 10)
        } else {
            Self::new(codec, volume, id)
        }
    }

    fn with_capacity(codec: &Codec, volume: Uuid, id: SegmentId, capacity: usize) -> SegmentBuilder {
        let mut buffer = Vec::with_capacity(capacity);
        let encrypted = codec.is_encrypted();
        SegmentHeader { volume, segment: id, frame_size: codec.frame_size, encrypted }.put(&mut buffer);
        debug_assert_eq!(buffer.len(), HEADER_LEN);
        SegmentBuilder {
            volume,
            id,
            buffer,
            shared: Vec::new(),
            shared_len: 0,
            checksum: FrameChecksum::new(id),
            sealer: codec.key.as_ref().map(|key| key.for_segment(id)),
            compressor: (codec.compression != Compression::None).then(|| Compressor::new(codec.compression)),
            gathered: Vec::new(),
            records: Records::default(),
            codec: codec.clone(),
        }
    }

    /// The segment's id.
    pub fn id(&self) -> SegmentId {
        self.id
    }

    /// Whether no run was pushed.
    pub fn is_empty(&self) -> bool {
        self.records.count() == 0
    }

    /// Number of runs pushed.
    pub fn runs(&self) -> u64 {
        self.records.count()
    }

    /// Length of the object that [`Self::finish`] would give now, bytes.
    pub fn stored_len(&self) -> usize {
        self.position() + self.records.stored_len(self.sealer.is_some()) + FOOTER_LEN
    }

    /// Where the next stored byte will be.
    fn position(&self) -> usize {
        self.buffer.len() + self.shared_len
    }

    /// Whether a run of `plain_len` bytes surely fits.
    pub fn fits(&self, plain_len: u64) -> bool {
        let frames = plain_len.div_ceil(u64::from(self.codec.frame_size));
        let record = frames.saturating_mul(MAX_FRAME_LEN_LEN as u64).saturating_add(MAX_RECORD_LEN as u64);
        let more = self.codec.max_stored_len(plain_len).saturating_add(record);
        more.saturating_add(self.stored_len() as u64) <= u64::from(MAX_STORED_LEN)
    }

    /// Appends a run: bytes of `ino` from `file_offset` on, given in pieces that follow each other. Answers the slice of the
    /// whole run. A run of no bytes leaves no trace. If it might not fit ([`Self::fits`]), nothing is changed.
    pub fn push_run(
        &mut self,
        ino: InodeNo,
        file_offset: u64,
        plain: &[&[u8]],
    ) -> Result<SegmentSlice, SegmentFull> {
        self.push_moved_run(ino, file_offset, plain, &[])
    }

    /// [`Self::push_run`] without copying, where bytes are stored as they are: the segment refers to the memory of `plain` then.
    pub fn push_shared_run(
        &mut self,
        ino: InodeNo,
        file_offset: u64,
        plain: &[Bytes],
    ) -> Result<SegmentSlice, SegmentFull> {
        if !self.codec.stores_plain() {
            let plain: Vec<&[u8]> = plain.iter().map(|piece| &piece[..]).collect();
            return self.push_run(ino, file_offset, &plain);
        }
        let plain_len: u64 = plain.iter().map(|piece| piece.len() as u64).sum();
        if !self.fits(plain_len) {
            return Err(SegmentFull { segment: self.id, stored_len: self.stored_len(), plain_len });
        }
        let (run_offset, run_len) = (self.position() as u32, plain_len as u32);
        let mut pieces = plain.iter().cloned();
        let (mut piece, mut left) = (Bytes::new(), run_len);
        while left > 0 {
            let len = left.min(self.codec.frame_size);
            let mut sum = self.checksum.begin(self.position() as u32);
            let mut missing = len as usize;
            while missing > 0 {
                if piece.is_empty() {
                    // Their lengths were added up above.
                    let Some(next) = pieces.next() else { break };
                    piece = next;
                    continue;
                }
                let part = piece.split_to(missing.min(piece.len()));
                missing -= part.len();
                sum.update(&part);
                self.shared_len += part.len();
                self.shared.push((self.buffer.len(), part));
            }
            self.buffer.extend_from_slice(&sum.value().to_le_bytes());
            left -= len;
        }
        let slice = SegmentSlice { segment: self.id, run_offset, run_len, skip: 0, frames: None };
        if run_len > 0 {
            self.records.push(ino, file_offset, &slice, &[]);
        }
        Ok(slice)
    }

    /// [`Self::push_run`] for bytes that were in other segments before: `parts` tell since when they are what they are,
    /// so that a rebuild does not take them for newer than what the file's user has written since. They add up to the
    /// run, or there are none.
    pub fn push_moved_run(
        &mut self,
        ino: InodeNo,
        file_offset: u64,
        plain: &[&[u8]],
        parts: &[RunPart],
    ) -> Result<SegmentSlice, SegmentFull> {
        let plain_len: u64 = plain.iter().map(|piece| piece.len() as u64).sum();
        let described = parts.len().saturating_mul(MAX_RECORD_LEN) as u64;
        if !self.fits(plain_len.saturating_add(described)) {
            return Err(SegmentFull { segment: self.id, stored_len: self.stored_len(), plain_len });
        }
        // What fits is far below 4 GiB.
        let (run_offset, run_len) = (self.position() as u32, plain_len as u32);
        let mut frames = self.compressor.is_some().then(Vec::new);
        let mut pieces = Pieces { rest: plain, taken: 0 };
        let mut left = run_len;
        while left > 0 {
            let len = left.min(self.codec.frame_size);
            let stored = self.push_frame(&mut pieces, len as usize);
            if let Some(frames) = &mut frames {
                frames.push(stored);
            }
            left -= len;
        }
        let slice =
            SegmentSlice { segment: self.id, run_offset, run_len, skip: 0, frames: frames.map(Into::into) };
        if run_len > 0 {
            self.records.push(ino, file_offset, &slice, parts);
        }
        Ok(slice)
    }

    /// Appends the next `len` plain bytes as one frame; its stored length.
    fn push_frame(&mut self, pieces: &mut Pieces<'_>, len: usize) -> u32 {
        let (from, offset) = (self.buffer.len(), self.position() as u32);
        match &mut self.compressor {
            None => pieces.append_to(&mut self.buffer, len),
            Some(compressor) => {
                let plain = match pieces.contiguous(len) {
                    Some(plain) => plain,
                    None => {
                        self.gathered.clear();
                        pieces.append_to(&mut self.gathered, len);
                        &self.gathered
                    }
                };
                let (method, payload) = compressor.compress(plain);
                self.buffer.push(method as u8);
                self.buffer.extend_from_slice(payload);
            }
        }
        if let Some(sealer) = &self.sealer {
            sealer.seal_frame(offset, &mut self.buffer, from);
        }
        let crc = self.checksum.of(offset, &self.buffer[from..]);
        self.buffer.extend_from_slice(&crc.to_le_bytes());
        (self.buffer.len() - from) as u32
    }

    /// The files that have runs in the segment, in no order.
    pub fn inodes(&self) -> impl Iterator<Item = InodeNo> + '_ {
        self.records.inodes()
    }

    /// Records what is known of the segment's files and of the directories above them, so that they can be found again
    /// without metadata. Once, before [`Self::finish`]. What would make the segment too long, and files that have no run
    /// in it, are left out.
    pub fn describe(&mut self, files: &[FileRecord], directories: &[DirectoryRecord]) {
        for directory in directories {
            let room = (MAX_STORED_LEN as usize).saturating_sub(self.stored_len());
            self.records.describe_directory(directory, room);
        }
        for file in files {
            let room = (MAX_STORED_LEN as usize).saturating_sub(self.stored_len());
            self.records.describe_file(self.id, file, room);
        }
    }

    /// The object: appends index and footer.
    pub fn finish(self) -> Bytes {
        match <[Bytes; 1]>::try_from(self.finish_pieces()) {
            Ok([whole]) => whole,
            Err(pieces) => pieces.concat().into(),
        }
    }

    /// The same in pieces that follow each other: one, unless runs were shared.
    pub fn finish_pieces(mut self) -> Vec<Bytes> {
        let index_offset = self.position();
        self.records.put(self.volume, self.id, self.sealer.as_ref(), &mut self.buffer);
        let footer = SegmentFooter {
            segment: self.id,
            index_offset: index_offset as u32,
            index_len: (self.position() - index_offset) as u32,
            stored_len: (self.position() + FOOTER_LEN) as u32,
        };
        footer.put(&mut self.buffer);
        let mut own = Bytes::from(self.buffer);
        let mut pieces = Vec::with_capacity(2 * self.shared.len() + 1);
        let mut taken = 0;
        for (before, part) in self.shared {
            if before > taken {
                pieces.push(own.split_to(before - taken));
                taken = before;
            }
            pieces.push(part);
        }
        pieces.push(own);
        pieces
    }
}

/// A position in bytes given in pieces.
struct Pieces<'a> {
    rest: &'a [&'a [u8]],
    /// Bytes already taken of the first piece of `rest`.
    taken: usize,
}

impl<'a> Pieces<'a> {
    /// The next bytes, at most `len` of them, none only at the end; they are taken.
    fn next(&mut self, len: usize) -> &'a [u8] {
        while let Some((first, rest)) = self.rest.split_first() {
            let piece = &first[self.taken..];
            if piece.len() > len {
                self.taken += len;
                return &piece[..len];
            }
            self.rest = rest;
            self.taken = 0;
            if !piece.is_empty() {
                return piece;
            }
        }
        &[]
    }

    /// The next `len` bytes if they are in one piece; they are taken.
    fn contiguous(&mut self, len: usize) -> Option<&'a [u8]> {
        let first = self.rest.first()?;
        if first.len() - self.taken < len {
            return None;
        }
        Some(self.next(len))
    }

    /// Takes the next `len` bytes, or all that are left, and appends them to `out`.
    fn append_to(&mut self, out: &mut Vec<u8>, mut len: usize) {
        while len > 0 {
            let piece = self.next(len);
            if piece.is_empty() {
                return;
            }
            out.extend_from_slice(piece);
            len -= piece.len();
        }
    }
}
