//! Upkeep of the log in the bucket: snapshots when they are due, and removal of what is older than the retention.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use headrace_kv::CommitSeq;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::Shared;
use super::shared::Landmark;
use crate::clock::unix_ms;
use crate::ownership::LeaseState;
use crate::retain::Shelf;
use crate::snapshot::{complete, write_parts};
use crate::{MetalogError, SnapshotId};

/// Pause after a failure; doubles up to [`MAX_PAUSE`].
const MIN_PAUSE: Duration = Duration::from_secs(5);
/// Longest pause after a failure.
const MAX_PAUSE: Duration = Duration::from_secs(300);

/// What upkeep knows from one time to the next.
#[derive(Default)]
pub(super) struct Upkeep {
    shelf: Shelf,
    /// The bucket was looked at once.
    looked: bool,
    /// There is no snapshot that a restore could begin with.
    bare: bool,
}

impl Shared {
    /// Looks after the log until dropped.
    pub(super) async fn upkeep(self: &Arc<Shared>, upkeep: &Mutex<Upkeep>) {
        let mut pause = MIN_PAUSE;
        loop {
            if self.keeper.state() == LeaseState::Fenced {
                return std::future::pending().await;
            }
            let result = upkeep.lock().await.round(self).await;
            let error = result.err().map(|error| error.to_string());
            let next = match &error {
                None => {
                    pause = MIN_PAUSE;
                    self.options.upkeep_interval
                }
                Some(error) => {
                    tracing::warn!(%error, "upkeep of the metadata log; it is tried again");
                    let wait = pause;
                    pause = (pause * 2).min(MAX_PAUSE);
                    wait
                }
            };
            let failed = error.is_some();
            self.state.lock().upkeep_error = error;
            let until = Instant::now() + next;
            tokio::select! {
                () = tokio::time::sleep_until(until) => {}
                // After a failure what is due waits for the pause as well.
                () = self.upkeep.notified(), if !failed => {}
            }
        }
    }
}

impl Upkeep {
    /// One round: look, make a snapshot if one is due, remove what may go.
    async fn round(&mut self, shared: &Arc<Shared>) -> Result<(), MetalogError> {
        self.look(shared).await?;
        let gathered = shared.state.lock().gathered;
        if self.bare || shared.options.snapshot.due(&gathered) {
            self.snapshot(shared).await?;
        }
        self.remove(shared).await
    }

    /// What is left to do when the volume is being closed.
    pub(super) async fn at_close(&mut self, shared: &Arc<Shared>) -> Result<(), MetalogError> {
        self.look(shared).await?;
        let gathered = shared.state.lock().gathered;
        if self.bare || shared.options.snapshot.due_at_close(&gathered) {
            self.snapshot(shared).await?;
        }
        Ok(())
    }

    /// Finds out, once, what is in the bucket since the last snapshot.
    async fn look(&mut self, shared: &Shared) -> Result<(), MetalogError> {
        if self.looked {
            return Ok(());
        }
        let before = shared.state.lock().tail.number;
        self.shelf.read(&shared.bucket, shared.writer.epoch).await?;
        let newest = self.shelf.newest();
        let since = newest.as_ref().map_or(0, |newest| newest.number);
        let (objects, bytes) = self.shelf.log_after(since, before);
        let mut state = shared.state.lock();
        state.gathered.objects += objects;
        state.gathered.bytes += bytes;
        self.bare = newest.is_none();
        if let Some(newest) = newest {
            state.gathered.last_snapshot_bytes = newest.stored;
            state.last_snapshot = Some((newest.at_ms, newest.position));
        }
        self.looked = true;
        Ok(())
    }

    /// Makes a snapshot of what is durable now. It counts once everything in it is in the log.
    async fn snapshot(&mut self, shared: &Arc<Shared>) -> Result<(), MetalogError> {
        // Remembered from before the position is known: the log may reach it at any moment.
        let begun = {
            let now_ms = unix_ms(shared.bucket.clock.wall());
            let mut state = shared.state.lock();
            if state.at_ms == 0 {
                // Closed before the log's time was known.
                return Ok(());
            }
            state.landmarks = Some(VecDeque::from([state.landmark(now_ms)]));
            state.gathered
        };
        let _forget = Forget(shared);
        let snapshot = shared.engine.snapshot()?;
        let position = snapshot.position();
        let id = SnapshotId::generate(position);
        let parts = write_parts(&shared.bucket, id, snapshot, shared.options.snapshot.part_bytes).await?;
        let landmark = reach(shared, position).await;
        let stored = parts.stored_bytes();
        let Landmark { anchor, at_ms, .. } = landmark;
        complete(&shared.bucket, parts, shared.writer, at_ms, anchor).await?;
        self.bare = false;
        tracing::info!(%id, bytes = stored, log = anchor.number, "wrote a snapshot of the metadata");
        let mut state = shared.state.lock();
        state.gathered.bytes = state.gathered.bytes.saturating_sub(begun.bytes);
        state.gathered.objects = state.gathered.objects.saturating_sub(begun.objects);
        state.gathered.last_snapshot_bytes = stored;
        state.last_snapshot = Some((unix_ms(shared.bucket.clock.wall()), position));
        Ok(())
    }

    /// Removes what is older than the retention, while the lease is valid.
    async fn remove(&mut self, shared: &Shared) -> Result<(), MetalogError> {
        self.shelf.read(&shared.bucket, shared.writer.epoch).await?;
        let retention = u64::try_from(shared.options.retention.as_millis()).unwrap_or(u64::MAX);
        let oldest = unix_ms(shared.bucket.clock.wall()).saturating_sub(retention);
        let removed = self.shelf.removable(oldest);
        let count = removed.len();
        for key in removed {
            // Another owner may have other plans with it.
            if !shared.keeper.is_valid() {
                return Ok(());
            }
            shared.bucket.delete(key).await?;
        }
        if count > 0 {
            tracing::debug!(count, "removed objects of the metadata log that are older than the retention");
        }
        Ok(())
    }
}

/// Resolves with the first end of the log that includes `position`, once it is in the bucket.
async fn reach(shared: &Shared, position: CommitSeq) -> Landmark {
    let mut shipped = shared.shipped.subscribe();
    loop {
        {
            let now_ms = unix_ms(shared.bucket.clock.wall());
            let mut state = shared.state.lock();
            let end = state.landmark(now_ms);
            let landmarks = state.landmarks.get_or_insert_default();
            while landmarks.front().is_some_and(|landmark| landmark.position < position) {
                landmarks.pop_front();
            }
            landmarks.truncate(1);
            match landmarks.front() {
                Some(landmark) => return *landmark,
                None if end.position >= position => return end,
                None => {}
            }
        }
        shipped.borrow_and_update();
        if shared.shipped.borrow().0 < position.0 && shipped.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
}

/// Stops remembering ends of the log, however the snapshot ended.
struct Forget<'s>(&'s Shared);

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.0.state.lock().landmarks = None;
    }
}
