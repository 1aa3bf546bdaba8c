//! What `headrace info` shows of one inode.

use headrace_layout::{CHUNK_SIZE, ExtentData, InodeNo};
use headrace_meta::{Kind, MetaError, Time};
use serde::Serialize;

use crate::error::Result;
use crate::open::Volume;

/// Extents described, at most.
pub const MAX_EXTENTS_SHOWN: usize = 10_000;

/// An inode and where its bytes are.
#[derive(Clone, Debug, Serialize)]
pub struct InodeInfo {
    /// Number.
    pub ino: u64,
    /// "file", "directory", ...
    pub kind: &'static str,
    /// Permission bits, octal.
    pub mode: String,
    /// Names.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Length, bytes.
    pub size: u64,
    /// Bytes of data held.
    pub allocated: u64,
    /// Last access, RFC 3339.
    pub atime: String,
    /// Last change of contents.
    pub mtime: String,
    /// Last change of the inode.
    pub ctime: String,
    /// Creation.
    pub btime: String,
    /// Where its bytes are, in order; holes are left out.
    pub extents: Vec<ExtentInfo>,
    /// There are more extents than are shown.
    pub truncated: bool,
}

/// A range of a file.
#[derive(Clone, Debug, Serialize)]
pub struct ExtentInfo {
    /// First byte in the file.
    pub offset: u64,
    /// Length, bytes.
    pub len: u32,
    /// Where it is.
    #[serde(flatten)]
    pub place: Place,
}

/// Where an extent's bytes are.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "in", rename_all = "lowercase")]
pub enum Place {
    /// In a segment.
    Segment {
        /// Key of the object, relative to the volume's location.
        key: String,
        /// First stored byte that holds a part of the extent.
        stored_offset: u64,
        /// Stored bytes that hold it (whole frames).
        stored_len: u64,
        /// Stored offset of the run it belongs to.
        run_offset: u32,
        /// Plain offset within the run.
        skip: u32,
    },
    /// In metadata, until it is packed.
    Inline {
        /// The value.
        id: u64,
        /// Plain offset within the value.
        skip: u32,
    },
}

/// Describes an inode.
pub fn describe(volume: &Volume, ino: InodeNo) -> Result<InodeInfo> {
    let attr = volume.meta.getattr(ino)?;
    let mut info = InodeInfo {
        ino: attr.ino.0,
        kind: kind_name(attr.kind),
        mode: format!("{:04o}", attr.mode),
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        size: attr.size,
        allocated: attr.allocated,
        atime: time_text(attr.atime),
        mtime: time_text(attr.mtime),
        ctime: time_text(attr.ctime),
        btime: time_text(attr.btime),
        extents: Vec::new(),
        truncated: false,
    };
    if attr.kind == Kind::File {
        let mut offset = 0;
        while let Some(chunk) = next_chunk(volume, ino, offset)? {
            for extent in volume.meta.extents(ino, chunk)?.extents() {
                if info.extents.len() >= MAX_EXTENTS_SHOWN {
                    info.truncated = true;
                    return Ok(info);
                }
                info.extents.push(ExtentInfo {
                    offset: (u64::from(chunk) * CHUNK_SIZE).saturating_add(u64::from(extent.start)),
                    len: extent.len,
                    place: place(volume, &extent.data, extent.len),
                });
            }
            offset = (u64::from(chunk) + 1) * CHUNK_SIZE;
        }
    }
    Ok(info)
}

/// The first chunk with data at or after `offset`; `None` if there is none. Skips holes of any size at once.
pub(crate) fn next_chunk(volume: &Volume, ino: InodeNo, offset: u64) -> Result<Option<u32>> {
    match volume.meta.seek(ino, offset, false) {
        Ok(at) => Ok(u32::try_from(at / CHUNK_SIZE).ok()),
        Err(MetaError::NoSuchOffset) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

fn place(volume: &Volume, data: &ExtentData, len: u32) -> Place {
    match data {
        ExtentData::Segment(slice) => {
            let stored = volume.codec.stored_range(slice, 0, len);
            Place::Segment {
                key: slice.segment.object_key(),
                stored_offset: stored.start,
                stored_len: stored.end.saturating_sub(stored.start),
                run_offset: slice.run_offset,
                skip: slice.skip,
            }
        }
        ExtentData::Inline { id, skip } => Place::Inline { id: *id, skip: *skip },
    }
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "file",
        Kind::Directory => "directory",
        Kind::Symlink => "symbolic link",
        Kind::CharDevice => "character device",
        Kind::BlockDevice => "block device",
        Kind::Fifo => "named pipe",
        Kind::Socket => "socket",
    }
}

/// RFC 3339 where the calendar of that format reaches, else the bare number of seconds.
fn time_text(time: Time) -> String {
    match u64::try_from(time.secs) {
        // The year 9999 ends there.
        Ok(secs) if secs < 253_402_300_800 => humantime::format_rfc3339_nanos(time.into()).to_string(),
        _ => format!("{}.{:09}", time.secs, time.nanos),
    }
}
