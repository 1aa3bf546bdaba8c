//! A digest of a whole directory tree: everything about it that must survive a copy or a remount.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::content::sha256_of;

/// One line of description per path, relative to the root of the tree.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TreeDigest {
    entries: BTreeMap<PathBuf, String>,
}

impl TreeDigest {
    /// How many files, directories and others there are, the root included.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True when nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What differs in `other`, at most 20 lines; empty when the trees are equal.
    pub fn differences(&self, other: &TreeDigest) -> Vec<String> {
        let mut lines = Vec::new();
        for (path, mine) in &self.entries {
            match other.entries.get(path) {
                None => lines.push(format!("{path:?} is missing; it was {mine}")),
                Some(theirs) if theirs != mine => {
                    lines.push(format!("{path:?}\n  was {mine}\n  is  {theirs}"))
                }
                Some(_) => {}
            }
        }
        let unexpected = other.entries.keys().filter(|path| !self.entries.contains_key(*path));
        lines.extend(unexpected.map(|path| format!("{path:?} was not there before")));
        lines.truncate(20);
        lines
    }

    /// Demands that `other` is the same tree.
    #[track_caller]
    pub fn assert_same(&self, other: &TreeDigest) {
        let differences = self.differences(other);
        assert!(differences.is_empty(), "the trees differ:\n{}", differences.join("\n"));
    }
}

/// Describes every entry below `dir`: type, mode, owner, modification time in nanoseconds, extended attributes (ACLs
/// are among them), which names are links of one inode, sizes and contents.
///
/// # Panics
/// When something cannot be read.
pub fn tree_digest(dir: &Path) -> TreeDigest {
    let mut digest = TreeDigest::default();
    let mut linked = BTreeMap::new();
    visit(dir, Path::new(""), &mut linked, &mut digest);
    digest
}

fn visit(root: &Path, relative: &Path, linked: &mut BTreeMap<u64, PathBuf>, digest: &mut TreeDigest) {
    let path = if relative.as_os_str().is_empty() { root.to_path_buf() } else { root.join(relative) };
    let (line, is_dir) = describe(&path, relative, linked);
    digest.entries.insert(relative.to_path_buf(), line);
    if is_dir {
        let entries = fs::read_dir(&path).unwrap_or_else(|error| panic!("listing {path:?}: {error}"));
        let mut names: Vec<_> = entries
            .map(|e| e.unwrap_or_else(|error| panic!("listing {path:?}: {error}")).file_name())
            .collect();
        names.sort();
        for name in names {
            visit(root, &relative.join(name), linked, digest);
        }
    }
}

fn describe(path: &Path, relative: &Path, linked: &mut BTreeMap<u64, PathBuf>) -> (String, bool) {
    let meta = fs::symlink_metadata(path).unwrap_or_else(|error| panic!("stat of {path:?}: {error}"));
    let kind = meta.file_type();
    let mut line = format!(
        "mode {:06o} owner {}:{} mtime {}.{:09}",
        meta.mode(),
        meta.uid(),
        meta.gid(),
        meta.mtime(),
        meta.mtime_nsec()
    );
    if kind.is_file() {
        let mut file = fs::File::open(path).unwrap_or_else(|error| panic!("opening {path:?}: {error}"));
        let sum = sha256_of(&mut file).unwrap_or_else(|error| panic!("reading {path:?}: {error}"));
        line.push_str(&format!(" size {} sha256 {sum}", meta.size()));
    } else if kind.is_symlink() {
        line.push_str(&format!(" -> {:?}", fs::read_link(path).expect("readlink")));
    } else if kind.is_block_device() || kind.is_char_device() {
        line.push_str(&format!(" rdev {:x}", meta.rdev()));
    }
    if !kind.is_dir() && meta.nlink() > 1 {
        let first = linked.entry(meta.ino()).or_insert_with(|| relative.to_path_buf());
        line.push_str(&format!(" links {} first {first:?}", meta.nlink()));
    }
    for (name, value) in xattrs(path) {
        line.push_str(&format!(" {name:?}={value:02x?}"));
    }
    (line, kind.is_dir())
}

/// All extended attributes of `path` itself (a symlink is not followed), by name.
pub fn xattrs(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut names = vec![0; 64 << 10];
    let len = match rustix::fs::llistxattr(path, &mut names[..]) {
        Ok(len) => len,
        Err(rustix::io::Errno::NOTSUP) => 0,
        Err(error) => panic!("extended attributes of {path:?}: {error}"),
    };
    let listed = names[..len].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    listed
        .map(|name| {
            let mut value = vec![0; 64 << 10];
            let got = rustix::fs::lgetxattr(path, OsStr::from_bytes(name), &mut value[..]);
            value.truncate(
                got.unwrap_or_else(|error| panic!("extended attribute {name:?} of {path:?}: {error}")),
            );
            (String::from_utf8_lossy(name).into_owned(), value)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_change_is_seen() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let file = dir.path().join("file");
        fs::write(&file, b"one").expect("write");
        let before = tree_digest(dir.path());
        before.assert_same(&tree_digest(dir.path()));

        fs::hard_link(&file, dir.path().join("other")).expect("link");
        let linked = tree_digest(dir.path());
        assert!(linked.differences(&before).iter().any(|line| line.contains("links 2")));
        fs::remove_file(dir.path().join("other")).expect("unlink");

        fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o4711)).expect("chmod");
        assert!(!before.differences(&tree_digest(dir.path())).is_empty());
    }
}
