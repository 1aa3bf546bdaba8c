//! A tree as it may be found after a power cut.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::disk::Ino;

/// One entry of an image.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Node {
    File(Vec<u8>),
    Directory(BTreeMap<Vec<u8>, Ino>),
    Symlink(Vec<u8>),
}

/// A tree as it may be found after a power cut.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Image {
    pub(super) nodes: HashMap<Ino, (u32, Node)>,
    pub(super) root: Ino,
}

impl Image {
    /// Writes the tree into the empty or missing directory `dir`.
    ///
    /// # Errors
    /// What the system answers.
    pub fn write_to(&self, dir: &Path) -> std::io::Result<()> {
        self.write_node(self.root, dir, &mut HashMap::new())
    }

    fn write_node(&self, ino: Ino, path: &Path, written: &mut HashMap<Ino, PathBuf>) -> std::io::Result<()> {
        let Some((mode, node)) = self.nodes.get(&ino) else { return Ok(()) };
        match node {
            Node::Symlink(target) => return std::os::unix::fs::symlink(OsStr::from_bytes(target), path),
            Node::File(bytes) => match written.get(&ino) {
                Some(first) => return fs::hard_link(first, path),
                None => {
                    fs::write(path, bytes)?;
                    written.insert(ino, path.to_path_buf());
                }
            },
            Node::Directory(entries) => {
                fs::create_dir_all(path)?;
                for (name, child) in entries {
                    self.write_node(*child, &path.join(OsStr::from_bytes(name)), written)?;
                }
            }
        }
        fs::set_permissions(path, Permissions::from_mode(*mode))
    }
}
