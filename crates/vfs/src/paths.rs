//! Paths for messages.

use headrace_layout::InodeNo;

use crate::vfs::Vfs;

impl Vfs {
    /// A path of an inode for a message, if one is found in reasonable time; its number always tells (`headrace info`).
    pub(crate) fn path_hint(&self, ino: InodeNo) -> String {
        match self.meta().path_of(ino) {
            Ok(Some(path)) => path.escape_ascii().to_string(),
            _ => format!("inode {ino}"),
        }
    }
}
