//! Reads past the kernel's page cache. Where a file is read from its copy on the local disk, the disk's rules hold, and
//! buffers must be aligned; these always are.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// No disk asks for more, in bytes.
const ALIGNMENT: usize = 4096;
/// Bytes that are asked for at once.
const AT_ONCE: usize = 1 << 20;

/// Opens a file for reading with `O_DIRECT`.
pub fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(OFlags::DIRECT.bits().cast_signed()).open(path)
}

/// All of a file, from its beginning.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = open(path)?;
    let mut room = vec![0; AT_ONCE + ALIGNMENT];
    let start = room.as_ptr().align_offset(ALIGNMENT);
    let buffer = &mut room[start..start + AT_ONCE];
    let mut content = Vec::new();
    loop {
        match file.read(buffer)? {
            0 => return Ok(content),
            n => content.extend_from_slice(&buffer[..n]),
        }
    }
}
