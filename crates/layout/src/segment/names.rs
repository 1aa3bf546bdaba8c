//! What a segment says of the files whose bytes it holds, so that they can be found again without metadata: names,
//! owners, directories. All of it is as it was when the segment was written.

use crate::wire::{Reader, put_varint};
use crate::{DecodeError, InodeNo, SegmentId};

/// Longest name, bytes.
const MAX_NAME: usize = 255;
/// Most bytes of names in one segment: what does not fit is left out.
pub(super) const MAX_NAMES_LEN: usize = 4 << 20;

/// A file as it was when a segment with bytes of it was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileRecord {
    /// The file.
    pub ino: InodeNo,
    /// The directory that its name is in.
    pub parent: InodeNo,
    /// The name (of several, one), 1 to 255 bytes.
    pub name: Vec<u8>,
    /// Permission bits, `0..=0o7777`.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Length, bytes. It may lag behind runs of the same segment.
    pub size: u64,
    /// Last change of the contents: seconds since the Unix epoch.
    pub mtime_secs: i64,
    /// And nanoseconds, below 10^9.
    pub mtime_nanos: u32,
}

/// A directory as it was when a segment with bytes of a file below it was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirectoryRecord {
    /// The directory.
    pub ino: InodeNo,
    /// The directory that it is in; the root is in itself and has no name.
    pub parent: InodeNo,
    /// Its name; empty for the root, else 1 to 255 bytes.
    pub name: Vec<u8>,
    /// Permission bits, `0..=0o7777`.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// A part of a run that was moved here from elsewhere: since when its bytes have been what they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunPart {
    /// Length, bytes.
    pub len: u32,
    /// When the segment that they came from was made, milliseconds since the Unix epoch.
    pub written_ms: u64,
}

/// Milliseconds since the Unix epoch in a segment's id.
pub(super) fn created_ms(segment: SegmentId) -> u64 {
    (segment.0 >> 80) as u64
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

impl FileRecord {
    /// Appends everything but the inode, which the run names.
    pub(super) fn put(&self, segment: SegmentId, out: &mut Vec<u8>) {
        put_varint(out, self.parent.0);
        put_owner(out, self.mode, self.uid, self.gid);
        put_varint(out, self.size);
        // Against the segment's own time, because most files are stored soon after they were written.
        let base = (created_ms(segment) / 1000) as i64;
        put_varint(out, zigzag(self.mtime_secs.wrapping_sub(base)));
        put_varint(out, u64::from(self.mtime_nanos));
        out.extend_from_slice(&self.name);
    }

    pub(super) fn read(
        mut reader: Reader<'_>,
        ino: InodeNo,
        segment: SegmentId,
    ) -> Result<FileRecord, DecodeError> {
        let parent = InodeNo(reader.varint()?);
        let (mode, uid, gid) = read_owner(&mut reader)?;
        let size = reader.varint()?;
        let base = (created_ms(segment) / 1000) as i64;
        let mtime_secs = unzigzag(reader.varint()?).wrapping_add(base);
        let mtime_nanos = reader.varint_u32()?;
        if mtime_nanos >= 1_000_000_000 {
            return Err(reader.error("a time has more than a second of nanoseconds"));
        }
        let name = read_name(&mut reader)?;
        if name.is_empty() {
            return Err(reader.error("a file has an empty name"));
        }
        Ok(FileRecord { ino, parent, name, mode, uid, gid, size, mtime_secs, mtime_nanos })
    }
}

impl DirectoryRecord {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, self.ino.0);
        put_varint(out, self.parent.0);
        put_owner(out, self.mode, self.uid, self.gid);
        out.extend_from_slice(&self.name);
    }

    pub(super) fn read(mut reader: Reader<'_>) -> Result<DirectoryRecord, DecodeError> {
        let ino = InodeNo(reader.varint()?);
        let parent = InodeNo(reader.varint()?);
        let (mode, uid, gid) = read_owner(&mut reader)?;
        let name = read_name(&mut reader)?;
        if name.is_empty() && ino != InodeNo::ROOT {
            return Err(reader.error("a directory has an empty name"));
        }
        Ok(DirectoryRecord { ino, parent, name, mode, uid, gid })
    }
}

/// Appends the parts of a run, their times against the segment's own.
pub(super) fn put_parts(parts: &[RunPart], segment: SegmentId, out: &mut Vec<u8>) {
    for part in parts {
        put_varint(out, u64::from(part.len));
        put_varint(out, created_ms(segment).saturating_sub(part.written_ms));
    }
}

/// Reads [`put_parts`]'s output; the parts must add up to the run.
pub(super) fn read_parts(
    mut reader: Reader<'_>,
    run_len: u32,
    segment: SegmentId,
) -> Result<Vec<RunPart>, DecodeError> {
    let (mut parts, mut sum) = (Vec::new(), 0u64);
    while reader.remaining() > 0 {
        let len = reader.varint_u32()?;
        let age = reader.varint()?;
        sum += u64::from(len);
        if len == 0 || sum > u64::from(run_len) {
            return Err(reader.error("parts do not fit their run"));
        }
        parts.push(RunPart { len, written_ms: created_ms(segment).saturating_sub(age) });
    }
    if sum != u64::from(run_len) {
        return Err(reader.error("parts do not fill their run"));
    }
    Ok(parts)
}

fn put_owner(out: &mut Vec<u8>, mode: u16, uid: u32, gid: u32) {
    for value in [u64::from(mode), u64::from(uid), u64::from(gid)] {
        put_varint(out, value);
    }
}

fn read_owner(reader: &mut Reader<'_>) -> Result<(u16, u32, u32), DecodeError> {
    let mode = reader.varint()?;
    let mode = u16::try_from(mode).ok().filter(|mode| *mode <= 0o7777);
    let mode = mode.ok_or_else(|| reader.error("permission bits out of range"))?;
    Ok((mode, reader.varint_u32()?, reader.varint_u32()?))
}

fn read_name(reader: &mut Reader<'_>) -> Result<Vec<u8>, DecodeError> {
    let name = reader.take_rest();
    let bad =
        name.len() > MAX_NAME || name == b"." || name == b".." || name.iter().any(|b| [0, b'/'].contains(b));
    if bad { Err(reader.error("a name is not one")) } else { Ok(name.to_vec()) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn zigzag_round_trips(value: i64) {
            prop_assert_eq!(unzigzag(zigzag(value)), value);
        }

        #[test]
        fn records_round_trip(id: u128, a: u64, b: u64, mode in 0u16..=0o7777, uid: u32, gid: u32, size: u64,
                              secs: i64, nanos in 0u32..1_000_000_000, name in "[^/\0.]{1,60}") {
            let (segment, name) = (SegmentId(id), name.into_bytes());
            let (ino, parent) = (InodeNo(a), InodeNo(b));
            let file = FileRecord {
                ino, parent, name: name.clone(), mode, uid, gid, size, mtime_secs: secs, mtime_nanos: nanos,
            };
            let mut bytes = Vec::new();
            file.put(segment, &mut bytes);
            prop_assert_eq!(FileRecord::read(Reader::new("x", &bytes), ino, segment).unwrap(), file);
            let directory = DirectoryRecord { ino, parent, name, mode, uid, gid };
            let mut bytes = Vec::new();
            directory.put(&mut bytes);
            prop_assert_eq!(DirectoryRecord::read(Reader::new("x", &bytes)).unwrap(), directory);
        }

        #[test]
        fn noise_never_panics(noise in prop::collection::vec(any::<u8>(), 0..100), id: u128, len: u32) {
            let _ = FileRecord::read(Reader::new("x", &noise), InodeNo(2), SegmentId(id));
            let _ = DirectoryRecord::read(Reader::new("x", &noise));
            let _ = read_parts(Reader::new("x", &noise), len, SegmentId(id));
        }
    }
}
