//! The metadata's log, as far as front ends and daemons have to do with it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use headrace_volume::VolumeError;

use crate::error::{Error, Result};
use crate::vfs::Vfs;

/// How long background work may take to notice that everything ends.
const STOP_LIMIT: Duration = Duration::from_secs(5);

impl Vfs {
    /// What a change of metadata has to wait for; `None`, at the cost of looking at two counters, if there is room for it. Changes that
    /// are not in the bucket yet are bounded: what a lost machine can lose, and what the next mount has to ship.
    pub fn admit(&self) -> Option<impl Future<Output = Result<()>> + Send + use<>> {
        let room = self.volume.log()?.admit()?;
        Some(async move { room.await.map_err(Error::from) })
    }

    /// Makes everything written so far, by whomever, durable in the bucket.
    ///
    /// # Errors
    /// The first failure; the rest is written out all the same.
    pub async fn ship_all(self: &Arc<Self>) -> Result<()> {
        let flushed = self.flush_all().await;
        let shipped = self.volume.flush().await.map_err(not_shipped);
        flushed.and(shipped)
    }

    /// Bytes that the end of this process would lose: written, and neither stored nor in a local file.
    pub fn only_in_memory(&self) -> u64 {
        self.inodes
            .all()
            .iter()
            .map(|inode| inode.state.lock())
            .filter(|state| state.staged.is_none())
            .map(|state| state.dirty.len())
            .sum()
    }

    /// Makes everything durable, on this machine's disk where that can be.
    ///
    /// # Errors
    /// The first failure.
    pub async fn keep_here(self: &Arc<Self>) -> Result<()> {
        self.flush_unstaged().await?;
        self.sync_all_staged().await?;
        self.volume.engine.durable(self.volume.engine.position()).await?;
        Ok(())
    }

    /// Ends without writing anything more to the store: what is safe on this machine stays there, what is not is lost.
    pub async fn leave(&self) {
        self.handles.clear();
        if tokio::time::timeout(STOP_LIMIT, self.background.stop()).await.is_err() {
            tracing::warn!("background work is still under way: leaving it behind");
        }
        self.volume.leave().await;
    }
}

/// What kept a volume's log from the bucket.
pub(crate) fn not_shipped(error: VolumeError) -> Error {
    match error {
        VolumeError::Engine(error) => error.into(),
        VolumeError::Store(error) => error.into(),
        VolumeError::NotShipped { .. } => Error::NotShipped(error.to_string()),
        other => Error::Internal(other.to_string()),
    }
}
