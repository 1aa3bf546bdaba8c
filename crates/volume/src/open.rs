//! Opening a volume: found, claimed, its metadata brought here; and closing it.

use std::sync::Arc;
use std::time::SystemTime;

use headrace_flow::memory::MemoryPlan;
use headrace_kv::{Engine, KvError};
use headrace_layout::superblock::Superblock;
use headrace_layout::{Codec, InodeNo};
use headrace_meta::{Namespace, Time};
use headrace_metalog::engine::LoggedEngine;
use headrace_metalog::ship::publish_reset;
use headrace_store::{Counted, Location, ObjectStore};
use parking_lot::Mutex;

use crate::claim::{self, Claimed, Kept};
use crate::error::{Result, VolumeError};
use crate::found::Found;
use crate::holder::Lock;
use crate::local::Step;
use crate::log::{self, Log, LogStatus};
pub use crate::options::OpenOptions;
use crate::pending::{PendingSegment, PendingSegments};
use crate::progress::{ProgressFn, silent};
use crate::state_dir::{CopyMark, StateDir};
use crate::superblock_io;

/// Orphans looked at at a time.
const ORPHANS: usize = 1024;

/// An open volume. Exclusive: while it lives, nobody else can change it, here or elsewhere.
pub struct Volume {
    /// Its parameters.
    pub superblock: Superblock,
    /// How bytes are stored.
    pub codec: Codec,
    /// Where bytes are stored. Counts its requests.
    pub store: Arc<dyn ObjectStore>,
    /// Figures of [`Self::store`].
    pub store_counters: Arc<Counted>,
    /// Files and directories.
    pub meta: Arc<Namespace>,
    /// What metadata is stored in.
    pub engine: Arc<dyn Engine>,
    /// Where the volume is.
    pub location: Location,
    /// Where this machine keeps the volume's metadata.
    pub state_dir: StateDir,
    /// Whether it was opened without the right to change it.
    pub read_only: bool,
    /// How far back it can be restored.
    pub retention: std::time::Duration,
    /// What of the process's memory it may use for what.
    pub memory: MemoryPlan,
    /// What who opened it should know, a sentence each.
    pub notes: Vec<String>,
    pub(crate) pending: PendingSegments,
    log: Option<Log>,
    lock: Mutex<Option<Lock>>,
}

/// The metadata of a volume, ready to be used.
struct Metadata {
    engine: Arc<dyn Engine>,
    log: Option<Log>,
    notes: Vec<String>,
}

impl Volume {
    /// Opens the volume at `location` and holds it until [`Volume::close`] or the end of the process.
    ///
    /// Files that were unlinked while open when the last holder ended are still there: [`Volume::reclaim_orphans`].
    pub async fn open(location: &Location, options: &OpenOptions) -> Result<Arc<Volume>> {
        Self::open_with(location, options, &silent).await
    }

    /// [`Volume::open`], saying how far it is: a volume that was last used elsewhere is rebuilt here first, and a holder that
    /// did not give it up is watched for a sign of life.
    pub async fn open_with(
        location: &Location,
        options: &OpenOptions,
        progress: &ProgressFn<'_>,
    ) -> Result<Arc<Volume>> {
        superblock_io::require_directory(location)?;
        let store = headrace_store::open(location, &options.store)?;
        Self::open_found(Found::find(store, location, options).await?, location, options, progress).await
    }

    /// [`Volume::open`] on a store that is open: one that is wrapped, say. Of `options.store` only the deadline counts.
    pub async fn open_in(
        store: Arc<dyn ObjectStore>,
        location: &Location,
        options: &OpenOptions,
    ) -> Result<Arc<Volume>> {
        Self::open_found(Found::find(store, location, options).await?, location, options, &silent).await
    }

    async fn open_found(
        found: Found,
        location: &Location,
        options: &OpenOptions,
        progress: &ProgressFn<'_>,
    ) -> Result<Arc<Volume>> {
        let Metadata { engine, log, notes } = if options.read_only {
            read_only(&found, progress).await?
        } else {
            owned(&found, options, progress).await?
        };
        let Found { superblock, codec, store, counters, state, lock, memory, bucket: _ } = found;
        Ok(Arc::new(Volume {
            superblock,
            codec,
            store,
            store_counters: counters,
            meta: Arc::new(Namespace::open(Arc::clone(&engine))?),
            engine,
            location: location.clone(),
            state_dir: state,
            read_only: options.read_only,
            retention: options.retention,
            memory,
            notes,
            pending: PendingSegments::default(),
            log,
            lock: Mutex::new(Some(lock)),
        }))
    }

    /// Where the volume is, without credentials, for messages.
    pub fn url(&self) -> &str {
        self.store.url()
    }

    /// A new segment id, which garbage collection leaves alone while the guard lives: keep it until metadata names the
    /// segment. Age alone protects ids that are made otherwise.
    pub fn begin_segment(&self) -> PendingSegment {
        self.pending.begin(SystemTime::now())
    }

    /// Resolves when everything committed to metadata so far is as durable as was asked for.
    pub async fn durable(&self) -> Result<()> {
        self.engine.durable(self.engine.position()).await?;
        Ok(())
    }

    /// The metadata's log; none of a volume that was opened read-only.
    pub fn log(&self) -> Option<&Log> {
        self.log.as_ref()
    }

    /// Figures of the log.
    pub fn log_status(&self) -> Option<LogStatus> {
        self.log.as_ref().map(Log::status)
    }

    /// Resolves when everything committed to metadata so far is in the bucket, whatever durability was asked for.
    pub async fn flush(&self) -> Result<()> {
        match &self.log {
            Some(log) => log.flush().await.map_err(|error| self.not_shipped(error)),
            None => self.durable().await,
        }
    }

    /// Resolves, with the reason, when another owner has taken the volume.
    pub async fn fenced(&self) -> String {
        match &self.log {
            Some(log) => log.fenced().await,
            None => std::future::pending().await,
        }
    }

    /// Makes metadata durable, here and in the bucket, closes the engine and lets others open the volume. Harmless when
    /// repeated.
    ///
    /// While the metadata's disk is full, or the store cannot be reached, the volume stays open and held, and this can be
    /// called again.
    pub async fn close(self: &Arc<Self>) -> Result<()> {
        if self.lock.lock().is_none() {
            return Ok(());
        }
        // First, because closing the engine is for good.
        self.flush().await?;
        let volume = Arc::clone(self);
        tokio::task::spawn_blocking(move || volume.close_engine())
            .await
            .map_err(|e| VolumeError::System { operation: "closing the volume", detail: e.to_string() })?
    }

    /// Blocks.
    fn close_engine(&self) -> Result<()> {
        let mut lock = self.lock.lock();
        if lock.is_none() {
            return Ok(());
        }
        let closed = self.engine.close();
        if matches!(closed, Err(KvError::Full { .. })) {
            return Ok(closed?);
        }
        if let (Ok(()), Some(log)) = (&closed, &self.log) {
            let LogStatus { position, shipped_position, log_number, .. } = log.status();
            if position == shipped_position {
                self.state_dir.set_copy(&CopyMark { position, number: Some(log_number) })?;
            }
        }
        *lock = None;
        Ok(closed?)
    }

    /// Closes the volume without the store: what is not in the bucket stays on this machine, and is shipped by the next who
    /// opens the volume here. As after a crash, others find the volume held by somebody who shows no sign of life.
    pub async fn leave(self: &Arc<Self>) {
        let volume = Arc::clone(self);
        if let Err(error) = tokio::task::spawn_blocking(move || volume.leave_now()).await {
            tracing::error!(%error, "leaving the volume");
        }
    }

    /// Blocks, for no longer than this machine's disk takes.
    fn leave_now(&self) {
        let mut lock = self.lock.lock();
        if lock.is_none() {
            return;
        }
        let left = match &self.log {
            Some(log) => log.leave(),
            None => self.engine.close(),
        };
        if let Err(error) = left {
            tracing::error!(%error, "closing the volume");
        }
        *lock = None;
    }

    fn not_shipped(&self, error: KvError) -> VolumeError {
        match (&self.log, error) {
            (Some(log), KvError::Io { detail, .. }) if !log.is_fenced() => VolumeError::NotShipped {
                url: self.url().to_owned(),
                transactions: log.status().lag_transactions,
                detail,
            },
            (_, error) => error.into(),
        }
    }

    /// Fails unless the volume may be changed.
    pub(crate) fn writable(&self, operation: &'static str) -> Result<()> {
        if self.read_only { Err(VolumeError::ReadOnly { operation }) } else { Ok(()) }
    }

    /// Finishes what deletions and truncations left when the last holder ended, and lets go of what was kept until now. Nobody may
    /// have a deleted file open: a mount does this by itself, knowing who has.
    pub fn reclaim_orphans(&self) -> Result<()> {
        self.writable("reclaim deleted files")?;
        let now = Time::now();
        let mut work = self.meta.unsettled()?;
        let mut after = Some(InodeNo(0));
        while let Some(from) = after {
            let (page, next) = self.meta.nameless(from, ORPHANS)?;
            work.extend(page.iter().map(|nameless| nameless.ino));
            if self.meta.reclaim_all(&work, now).is_err() {
                // One bad record must not keep the others; fsck names it.
                for &ino in &work {
                    if let Err(error) = self.meta.reclaim_all(&[ino], now) {
                        tracing::warn!(%ino, %error, "cannot reclaim a deleted file");
                    }
                }
            }
            work.clear();
            after = next;
        }
        Ok(())
    }
}

/// Metadata that is ours to change.
async fn owned(found: &Found, options: &OpenOptions, progress: &ProgressFn<'_>) -> Result<Metadata> {
    // To claim what cannot be had would only get in the way of who has it.
    found.here(progress).refuse_if_lost().await?;
    let claimed = claim::claim(&found.bucket, &found.state, options.claimant(), progress).await?;
    // Rebuilding takes longer than a lease.
    let kept = Kept::start(&found.bucket, &claimed.claim);
    let opened = continued(found, options, claimed, &kept, progress).await;
    if opened.is_err() {
        kept.release().await;
    }
    opened
}

/// Goes on where the log ends, under a claim.
async fn continued(
    found: &Found,
    options: &OpenOptions,
    claimed: Claimed,
    kept: &Kept,
    progress: &ProgressFn<'_>,
) -> Result<Metadata> {
    let Claimed { mut claim, mut record } = claimed;
    let mut arrived = found.here(progress).for_owner(&claim).await?;
    if arrived.step == Step::Adopt {
        let reason =
            "the log in the bucket was missing, damaged or given up: this machine's state is the volume's";
        publish_reset(&found.bucket, &arrived.engine, &mut claim, reason).await?;
        if claim.number > 1 {
            arrived.notes.push(format!("{reason}; it was written there anew"));
        }
    }
    record.settle(&claim)?;
    found.here(progress).adopted()?;
    let options = log::options(options, &found.memory);
    let keeper = Some(Arc::clone(&kept.keeper));
    let engine = LoggedEngine::start(found.bucket.clone(), arrived.engine, &claim, keeper, options)?;
    let log = Log::new(Arc::clone(&engine), kept.clone());
    Ok(Metadata { engine, log: Some(log), notes: arrived.notes })
}

/// Metadata to be looked at.
async fn read_only(found: &Found, progress: &ProgressFn<'_>) -> Result<Metadata> {
    let stale = claim::refuse_if_held(&found.bucket, &found.state, progress).await?;
    let arrived = found.here(progress).for_reader().await?;
    let mut notes = arrived.notes;
    notes.extend(stale);
    Ok(Metadata { engine: arrived.engine, log: None, notes })
}

impl Drop for Volume {
    fn drop(&mut self) {
        // Without waiting for a store: whoever wants what is left in the bucket closes.
        self.leave_now();
    }
}

impl std::fmt::Debug for Volume {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Volume")
            .field("url", &self.url())
            .field("uuid", &self.superblock.uuid)
            .finish_non_exhaustive()
    }
}
