//! What a directory is on.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The file system that holds a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSystem {
    /// Its type, as the kernel calls it: `ext4`, `fuse.headrace`.
    pub kind: String,
    /// What is mounted, as the mount says.
    pub source: String,
    /// Where.
    pub mount_point: PathBuf,
}

impl FileSystem {
    /// The one that holds `directory`, which is an absolute path without links.
    ///
    /// # Errors
    /// The mount table cannot be read, or does not name it.
    pub fn of(directory: &Path) -> io::Result<FileSystem> {
        let table = fs::read("/proc/self/mountinfo")?;
        find(&table, directory)
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "it is on no known mount"))
    }
}

/// The mount with the longest path above `directory`; of several on the same path, the last, which hides the others.
fn find(table: &[u8], directory: &Path) -> Option<FileSystem> {
    table
        .split(|&b| b == b'\n')
        .filter_map(parse)
        .filter(|mount| directory.starts_with(&mount.mount_point))
        .max_by_key(|mount| mount.mount_point.as_os_str().len())
}

/// A line of mountinfo: id, parent, device, root, mount point, options, optional fields, "-", type, source, options (proc(5)).
fn parse(line: &[u8]) -> Option<FileSystem> {
    let mut fields = line.split(|&b| b == b' ');
    let mount_point = PathBuf::from(OsString::from_vec(unescape(fields.nth(4)?)));
    let mut rest = fields.skip_while(|&field| field != b"-").skip(1);
    let text = |field: &[u8]| String::from_utf8_lossy(&unescape(field)).into_owned();
    Some(FileSystem { kind: text(rest.next()?), source: text(rest.next()?), mount_point })
}

/// Spaces and the like are written as a backslash and three octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, after)) = rest.split_first() {
        let octal = after.get(..3).and_then(|d| {
            d.iter().try_fold(0u32, |n, b| matches!(b, b'0'..=b'7').then(|| n * 8 + u32::from(b - b'0')))
        });
        match octal.and_then(|n| u8::try_from(n).ok()) {
            Some(byte) if first == b'\\' => {
                out.push(byte);
                rest = &after[3..];
            }
            _ => {
                out.push(first);
                rest = after;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[u8] = b"22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
        40 22 0:40 / /mnt/a\\040b rw - fuse.headrace s3://bucket/x rw,user_id=0\n\
        41 22 0:41 / /mnt/x rw - tmpfs tmpfs rw\n\
        42 41 0:42 / /mnt/x rw - fuse.other it rw\n\
        broken line\n";

    #[test]
    fn the_closest_and_last_mount_is_the_one() {
        let on = |path: &str| find(TABLE, Path::new(path)).unwrap();
        assert_eq!(on("/srv").kind, "ext4");
        assert_eq!(on("/mnt/a b/c").kind, "fuse.headrace");
        assert_eq!(on("/mnt/a b/c").source, "s3://bucket/x");
        assert_eq!(on("/mnt/xy").kind, "ext4");
        assert_eq!(on("/mnt/x/y").kind, "fuse.other");
    }

    #[test]
    fn the_table_of_this_machine_is_understood() {
        assert!(!FileSystem::of(Path::new("/")).unwrap().kind.is_empty());
        assert_eq!(FileSystem::of(Path::new("/proc/self")).unwrap().kind, "proc");
    }
}
