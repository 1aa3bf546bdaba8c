//! Messages to the kernel that answer no request.

use std::io::IoSlice;
use std::sync::Arc;

use zerocopy::IntoBytes as _;

use super::Transport;
use crate::InodeNo;
use crate::abi::{NotifyInvalInode, OutHeader, notify};

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
        let len = (size_of::<OutHeader>() + size_of::<NotifyInvalInode>()) as u32;
        let header = OutHeader { len, error: notify::INVAL_INODE, unique: 0 };
        if let Some(transport) = &self.transport {
            // ENOENT: the kernel does not know the inode. Nothing to correct then.
            let sent = transport.send(&[IoSlice::new(header.as_bytes()), IoSlice::new(body.as_bytes())]);
            if let Err(error) = sent {
                tracing::trace!(%error, ino = ino.0, "attributes not invalidated");
            }
        }
    }
}
