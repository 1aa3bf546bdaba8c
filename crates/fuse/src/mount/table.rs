//! The mount table, `/proc/self/mountinfo`.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

/// One mounted file system.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MountEntry {
    /// Where.
    pub mount_point: PathBuf,
    /// What, as the file system calls it: a device, a volume's address.
    pub source: OsString,
    /// Its type, such as "ext4" or "fuse.headrace".
    pub fs_type: String,
    /// Device number, as in `st_dev`: major.
    pub major: u32,
    /// Device number, as in `st_dev`: minor. For FUSE also the number of the connection.
    pub minor: u32,
    /// Options of this mount, such as "rw,nosuid".
    pub options: String,
}

impl MountEntry {
    /// Whether it is a FUSE file system, ours or another.
    pub fn is_fuse(&self) -> bool {
        self.fs_type == "fuse" || self.fs_type.starts_with("fuse.")
    }

    /// Whether it is one of ours (unless mounted with another `subtype=`).
    pub fn is_headrace(&self) -> bool {
        self.fs_type.strip_prefix("fuse.") == Some(super::DEFAULT_SUBTYPE)
    }
}

/// Everything that this process sees mounted, in the order of mounting at any one place.
pub fn list() -> io::Result<Vec<MountEntry>> {
    // Read as bytes: mount points need not be UTF-8.
    Ok(std::fs::read("/proc/self/mountinfo")?.split(|&b| b == b'\n').filter_map(parse).collect())
}

/// What is mounted exactly at `path` (the topmost, if several are).
///
/// Works on dead mounts: the last component of the path is not touched.
pub fn find(path: &Path) -> Option<MountEntry> {
    find_resolved(&resolve(path).ok()?)
}

pub(super) fn find_resolved(path: &Path) -> Option<MountEntry> {
    list().ok()?.into_iter().rev().find(|entry| entry.mount_point == path)
}

/// The mount that `path`, which must exist, lies in.
pub fn containing(path: &Path) -> io::Result<Option<MountEntry>> {
    let path = std::fs::canonicalize(path)?;
    let entries = list()?;
    Ok(path
        .ancestors()
        .find_map(|ancestor| entries.iter().rev().find(|entry| entry.mount_point == ancestor))
        .cloned())
}

/// The path without symbolic links. Only the parent is looked into, unless the last component is itself a link, so
/// that a dead mount can be named.
pub(super) fn resolve(path: &Path) -> io::Result<PathBuf> {
    let absolute = std::path::absolute(path)?;
    let is_link = absolute.symlink_metadata().is_ok_and(|metadata| metadata.file_type().is_symlink());
    match (absolute.parent(), absolute.file_name()) {
        (Some(parent), Some(name)) if !is_link => Ok(parent.canonicalize()?.join(name)),
        _ => absolute.canonicalize(),
    }
}

/// One line; the format is in proc(5). Fields between the sixth and the lone "-" are optional.
fn parse(line: &[u8]) -> Option<MountEntry> {
    let mut fields = line.split(|&b| b == b' ');
    let device = std::str::from_utf8(fields.nth(2)?).ok()?;
    let (major, minor) = device.split_once(':')?;
    let mount_point = unescape(fields.nth(1)?);
    let options = String::from_utf8_lossy(fields.next()?).into_owned();
    fields.find(|field| *field == b"-")?;
    let fs_type = String::from_utf8_lossy(fields.next()?).into_owned();
    let source = unescape(fields.next()?);
    Some(MountEntry {
        mount_point: PathBuf::from(OsString::from_vec(mount_point)),
        source: OsStr::from_bytes(&source).to_owned(),
        fs_type,
        major: major.parse().ok()?,
        minor: minor.parse().ok()?,
        options,
    })
}

/// Space, tab, newline and backslash are written as three octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        if first == b'\\'
            && let Some((octal, after)) = tail.split_at_checked(3)
            && let Some(byte) =
                std::str::from_utf8(octal).ok().and_then(|digits| u8::from_str_radix(digits, 8).ok())
        {
            plain.push(byte);
            rest = after;
        } else {
            plain.push(first);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_with_and_without_optional_fields() {
        let line = br"36 35 0:57 / /mnt/a\040b\134c rw,nosuid shared:1 master:2 - fuse.headrace s3://b/p\0401 rw,user_id=0";
        let entry = parse(line).unwrap();
        assert_eq!(entry.mount_point, Path::new("/mnt/a b\\c"));
        assert_eq!(entry.source, "s3://b/p 1");
        assert_eq!((entry.major, entry.minor, entry.options.as_str()), (0, 57, "rw,nosuid"));
        assert!(entry.is_fuse() && entry.is_headrace());

        let plain = parse(b"1 0 254:1 / / rw - ext4 /dev/vda rw").unwrap();
        assert!(plain.mount_point == Path::new("/") && !plain.is_fuse());
        assert_eq!(parse(b""), None);
        assert_eq!(parse(b"1 0 254:1 / / rw ext4 /dev/vda rw"), None);
    }

    #[test]
    fn the_root_is_mounted_and_holds_this_file() {
        assert_eq!(find(Path::new("/")).unwrap().mount_point, Path::new("/"));
        assert!(containing(Path::new("/proc/self/status")).unwrap().unwrap().fs_type == "proc");
        assert_eq!(find(Path::new("/no/such/place")), None);
    }

    proptest! {
        #[test]
        fn any_line_is_parsed(line in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&line);
        }
    }
}
