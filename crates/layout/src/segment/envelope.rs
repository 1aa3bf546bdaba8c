//! The fixed parts of a segment: header and footer.

use uuid::Uuid;

use super::{FOOTER_LEN, HEADER_LEN, MAX_STORED_LEN};
use crate::checksum::crc32c;
use crate::wire::Reader;
use crate::{DecodeError, SegmentId};

const HEADER_MAGIC: &[u8; 8] = b"HDRCESEG";
const FOOTER_MAGIC: &[u8; 8] = b"HDRCEEND";
const VERSION: u16 = 1;
const FLAG_ENCRYPTED: u16 = 1;

/// The first [`HEADER_LEN`] bytes of a segment: who it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SegmentHeader {
    /// The volume.
    pub volume: Uuid,
    /// The segment.
    pub segment: SegmentId,
    /// Plain bytes of a full frame.
    pub frame_size: u32,
    /// Whether frames and index are encrypted.
    pub encrypted: bool,
}

/// The last [`FOOTER_LEN`] bytes of a segment: where its index is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SegmentFooter {
    /// The segment.
    pub segment: SegmentId,
    /// Offset of the index, bytes.
    pub index_offset: u32,
    /// Length of the index, bytes.
    pub index_len: u32,
    /// Length of the whole object, bytes.
    pub stored_len: u32,
}

fn put_crc(out: &mut Vec<u8>, from: usize) {
    let crc = crc32c(&out[from..]);
    out.extend_from_slice(&crc.to_le_bytes());
}

impl SegmentHeader {
    /// Appends the stored form.
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        let from = out.len();
        out.extend_from_slice(HEADER_MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        let flags = if self.encrypted { FLAG_ENCRYPTED } else { 0 };
        out.extend_from_slice(&flags.to_le_bytes());
        out.extend_from_slice(&self.frame_size.to_le_bytes());
        out.extend_from_slice(self.volume.as_bytes());
        out.extend_from_slice(&self.segment.to_bytes());
        out.resize(from + HEADER_LEN - 4, 0);
        put_crc(out, from);
    }

    /// Parses the first [`HEADER_LEN`] bytes of a segment.
    pub fn decode(bytes: &[u8]) -> Result<SegmentHeader, DecodeError> {
        let what = "segment header";
        let mut reader = Reader::new(what, bytes);
        if bytes.len() != HEADER_LEN {
            return Err(reader.error(format!("{HEADER_LEN} bytes expected, {} given", bytes.len())));
        }
        if reader.array()? != *HEADER_MAGIC {
            return Err(reader.error("not a Headrace segment"));
        }
        let mut reader = Reader::checked(what, bytes)?;
        reader.take(HEADER_MAGIC.len())?;
        let flags = version_and_flags(&mut reader, FLAG_ENCRYPTED)?;
        Ok(SegmentHeader {
            frame_size: reader.u32()?,
            volume: Uuid::from_bytes(reader.array()?),
            segment: SegmentId::from_bytes(reader.array()?),
            encrypted: flags & FLAG_ENCRYPTED != 0,
        })
    }
}

impl SegmentFooter {
    /// Appends the stored form.
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        let from = out.len();
        out.extend_from_slice(FOOTER_MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&0u16.to_le_bytes());
        out.extend_from_slice(&self.segment.to_bytes());
        out.extend_from_slice(&self.index_offset.to_le_bytes());
        out.extend_from_slice(&self.index_len.to_le_bytes());
        out.extend_from_slice(&self.stored_len.to_le_bytes());
        out.resize(from + FOOTER_LEN - 4, 0);
        put_crc(out, from);
    }

    /// Parses the last [`FOOTER_LEN`] bytes of a segment.
    pub fn decode(bytes: &[u8]) -> Result<SegmentFooter, DecodeError> {
        let what = "segment footer";
        let mut reader = Reader::new(what, bytes);
        if bytes.len() != FOOTER_LEN {
            return Err(reader.error(format!("{FOOTER_LEN} bytes expected, {} given", bytes.len())));
        }
        if reader.array()? != *FOOTER_MAGIC {
            return Err(
                reader.error("the object does not end like a Headrace segment: it is cut short or foreign")
            );
        }
        let mut reader = Reader::checked(what, bytes)?;
        reader.take(FOOTER_MAGIC.len())?;
        version_and_flags(&mut reader, 0)?;
        let footer = SegmentFooter {
            segment: SegmentId::from_bytes(reader.array()?),
            index_offset: reader.u32()?,
            index_len: reader.u32()?,
            stored_len: reader.u32()?,
        };
        let end = u64::from(footer.index_offset) + u64::from(footer.index_len) + FOOTER_LEN as u64;
        if (footer.index_offset as usize) < HEADER_LEN
            || end != u64::from(footer.stored_len)
            || footer.stored_len > MAX_STORED_LEN
        {
            return Err(reader.error("offset and length of the index do not fit the object"));
        }
        Ok(footer)
    }
}

fn version_and_flags(reader: &mut Reader<'_>, known_flags: u16) -> Result<u16, DecodeError> {
    let version = reader.u16()?;
    if version != VERSION {
        return Err(reader.error(format!("version {version} is not known: use a newer Headrace")));
    }
    let flags = reader.u16()?;
    if flags & !known_flags != 0 {
        return Err(reader.error(format!("flags {flags:#x} are not known: use a newer Headrace")));
    }
    Ok(flags)
}
