//! copy_file_range: extents are shared, no byte moves.

use std::future::Future;
use std::sync::Arc;

use headrace_layout::InodeNo;

use crate::error::{Error, Result};
use crate::trash::shown::{changeable, real};
use crate::vfs::Vfs;

impl Vfs {
    /// Copies up to `len` bytes; answers how many. Both files share the stored bytes afterwards.
    pub fn copy_file_range(
        self: &Arc<Self>,
        source: InodeNo,
        source_offset: u64,
        target: InodeNo,
        target_offset: u64,
        len: u64,
    ) -> impl Future<Output = Result<u64>> + Send + use<> {
        let (vfs, source) = (Arc::clone(self), real(source));
        async move {
            vfs.writable()?;
            changeable(target)?;
            let from = vfs.pin(source)?;
            let to = vfs.pin(target)?;
            if from.state.lock().staged.is_some() || to.state.lock().staged.is_some() {
                // The kernel copies by itself then.
                return Err(Error::Unsupported("sharing bytes with a file that is not stored yet"));
            }
            // In the order of inode numbers, so that two copies in opposite directions do not wait for each other.
            let (first, second) = if source <= target { (&from, &to) } else { (&to, &from) };
            let _first = first.exclusive.lock().await;
            let _second = if source == target { None } else { Some(second.exclusive.lock().await) };
            vfs.commit_pending_exclusive(&from).await?;
            if source != target {
                vfs.commit_pending_exclusive(&to).await?;
            }
            let copied = {
                let _in_order = to.commit.lock();
                let copied = vfs.meta().clone_range(source, source_offset, target, target_offset, len)?;
                let mut state = to.state.lock();
                if copied > 0 {
                    state.content.changed_from(target_offset);
                    vfs.cached_bytes_changed(target, target_offset..target_offset + copied);
                    state.size = state.size.max(target_offset + copied);
                    state.mtime = None;
                }
                copied
            };
            vfs.pass_on(&to, target_offset).await?;
            Ok(copied)
        }
    }
}
