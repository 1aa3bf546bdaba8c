//! Telling the kernel of an open file, and how it may be read.

use std::sync::Arc;

use super::answer::Failure;
use super::encode;
use crate::abi::OpenReply;
use crate::session::Shared;
use crate::{Errno, FileId, InodeNo, OpenMode};

/// An open file that the kernel has not been told of yet. It will only release what it knows of: if it is not told after all, the
/// file is to be taken back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Opened {
    pub ino: InodeNo,
    pub file: FileId,
    /// The answer has its entry as well, which counts one reference.
    pub entry: bool,
}

impl Opened {
    /// What the kernel is told. The file is taken back if that is an error.
    pub fn tell(self, shared: &Arc<Shared>, mode: OpenMode) -> Result<OpenReply, Failure> {
        shared.readahead.opened();
        let Some(backing) = &mode.backing else { return Ok(encode::opened(self.file, &mode, None)) };
        match shared.backings.hold(self.ino, self.file, backing) {
            Ok(id) => Ok(encode::opened(self.file, &mode, Some(id))),
            Err(why) => self.tell_otherwise(shared, why).map_err(|errno| {
                self.take_back(shared);
                errno.into()
            }),
        }
    }

    /// The same without a backing file, which the kernel refuses.
    #[cold]
    fn tell_otherwise(self, shared: &Shared, why: Errno) -> Result<OpenReply, Errno> {
        let ino = self.ino.0;
        tracing::debug!(ino, ?why, "the kernel takes no backing file for this open");
        let mode = shared.fs.not_passed_through(self.ino, self.file, why)?;
        if mode.backing.is_some() {
            tracing::error!(
                ino,
                ?why,
                "an open file that cannot be passed through was to be passed through again"
            );
            return Err(Errno::EIO);
        }
        Ok(encode::opened(self.file, &mode, None))
    }

    /// Releases the file: the kernel did not learn of it, and never will.
    #[cold]
    pub fn take_back(self, shared: &Arc<Shared>) {
        let Opened { ino, file, entry } = self;
        shared.backings.release(ino, file);
        shared.readahead.closed();
        let shared = Arc::clone(shared);
        let runtime = shared.runtime.clone();
        runtime.spawn(async move {
            if let Err(errno) = shared.fs.release(ino, file).await {
                tracing::debug!(ino = ino.0, ?errno, "an open file that nobody heard of was not released");
            }
            if entry {
                shared.fs.forget(ino, 1);
            }
        });
    }
}
