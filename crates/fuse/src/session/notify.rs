//! Messages to the kernel that answer no request.

use std::io::IoSlice;
use std::sync::Arc;

use zerocopy::IntoBytes as _;

use super::Transport;
use crate::InodeNo;
use crate::abi::{NotifyInvalEntry, NotifyInvalInode, OutHeader, notify};

/// Tells the kernel that what it believes is no longer so.
pub(crate) struct Notifier {
    transport: Option<Arc<dyn Transport>>,
}

impl Notifier {
    pub fn new(transport: Option<Arc<dyn Transport>>) -> Self {
        Notifier { transport }
    }

    /// Attributes and ACLs of an inode must be asked for again. Cached data stays.
    pub fn attributes_changed(&self, ino: InodeNo) {
        // A negative offset leaves the page cache alone.
        let body = NotifyInvalInode { ino: ino.0, off: -1, len: 0 };
        self.tell(notify::INVAL_INODE, ino, &[body.as_bytes()]);
    }

    /// What is known of a name in a directory, that there is none too, must be asked for again; and the directory's attributes.
    /// Waits for calls of the kernel in that directory: not to be called by who answers one.
    pub fn name_changed(&self, parent: InodeNo, name: &[u8]) {
        let Ok(namelen) = u32::try_from(name.len()) else { return };
        let body = NotifyInvalEntry { parent: parent.0, namelen, flags: 0 };
        self.tell(notify::INVAL_ENTRY, parent, &[body.as_bytes(), name, &[0]]);
        self.attributes_changed(parent);
    }

    fn tell(&self, what: i32, ino: InodeNo, body: &[&[u8]]) {
        let Some(transport) = &self.transport else { return };
        let len = size_of::<OutHeader>() + body.iter().map(|part| part.len()).sum::<usize>();
        let Ok(len) = u32::try_from(len) else { return };
        let header = OutHeader { len, error: what, unique: 0 };
        let mut parts = vec![IoSlice::new(header.as_bytes())];
        parts.extend(body.iter().map(|part| IoSlice::new(part)));
        // ENOENT: the kernel does not know it. Nothing to correct then.
        if let Err(error) = transport.send(&parts) {
            tracing::trace!(%error, ino = ino.0, "the kernel has nothing to ask for again");
        }
    }
}
