//! Taking down what a run has left.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{LOCK, PREFIX, lock, name_of};
use crate::account;

/// Cleans up after earlier runs in `parent` that were killed together with their guards.
pub fn sweep(parent: &Path) {
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let dir = entry.path();
        let ours = name_of(&dir).starts_with(PREFIX) && dir.join(LOCK).is_file();
        // Held until it is clean: two runs that start together do not both do it.
        if ours && let Ok(_held) = lock(&dir) {
            eprintln!("compare: cleaning up after an earlier run: {}", dir.display());
            clean(&dir);
        }
    }
}

/// Ends the processes of the run in `dir`, unmounts all below it, and removes it.
pub fn clean(dir: &Path) {
    account::end_all(&name_of(dir));
    // More than one attempt: mounts may be stacked.
    for _ in 0..4 {
        let mounts = mounts_below(dir);
        if mounts.is_empty() {
            break;
        }
        // The innermost first.
        for mount in mounts.iter().rev() {
            let _ = Command::new("umount")
                .arg("-l")
                .arg(mount)
                .stdin(Stdio::null())
                .stderr(Stdio::null())
                .status();
        }
    }
    let left = mounts_below(dir);
    if left.is_empty() {
        let _ = std::fs::remove_dir_all(dir);
    } else {
        // Removing the directory now would remove what is mounted there.
        eprintln!("compare: still mounted, unmount by hand and remove {}: {left:?}", dir.display());
    }
}

fn mounts_below(dir: &Path) -> Vec<PathBuf> {
    let table = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    parse(&table).into_iter().filter(|mount| mount.starts_with(dir)).collect()
}

/// The mount points of a `mountinfo` table, in its order.
fn parse(table: &[u8]) -> Vec<PathBuf> {
    let point = |line: &[u8]| {
        Some(PathBuf::from(OsString::from_vec(unescape(line.split(|byte| *byte == b' ').nth(4)?))))
    };
    table.split(|byte| *byte == b'\n').filter_map(point).collect()
}

/// `\040` and its like are bytes in octal.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let octal = (*first == b'\\').then(|| after.get(..3)).flatten();
        let value = octal.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        match value {
            Some(byte) => {
                out.push(byte);
                rest = &after[3..];
            }
            None => {
                out.push(*first);
                rest = after;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_are_found() {
        let table = b"22 1 0:20 / /a\\040b rw - fuse x rw\n23 22 0:21 / /a\\040b/c rw - fuse x rw\n\n";
        assert_eq!(parse(table), [PathBuf::from("/a b"), PathBuf::from("/a b/c")]);
        assert_eq!(unescape(b"\\"), b"\\");
        assert_eq!(unescape(b"\\9zz"), b"\\9zz");
    }
}
