//! Opening a volume: superblock, key, lock, metadata.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use headrace_flow::memory::MemoryPlan;
use headrace_kv::{Engine, KvError};
use headrace_layout::Codec;
use headrace_layout::crypto::{DataKey, MasterKey};
use headrace_layout::superblock::Superblock;
use headrace_meta::Namespace;
use headrace_store::{Counted, Location, ObjectStore, StoreOptions};
use parking_lot::Mutex;

use crate::error::{Result, VolumeError};
use crate::holder::Lock;
use crate::pending::{PendingSegment, PendingSegments};
use crate::state_dir::{self, StateDir};
use crate::{engine, superblock_io};

/// How to open a volume.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// Base of the state directory instead of the default one; see [`crate::state_dir`].
    pub state_dir: Option<PathBuf>,
    /// Credentials, endpoint, timeouts.
    pub store: StoreOptions,
    /// The master key of an encrypted volume.
    pub key: Option<MasterKey>,
    /// Where it is to be mounted, for those who find it in use; `None` for other commands.
    pub mountpoint: Option<String>,
    /// Change nothing: neither in the store nor, but for the engine's own recovery, in metadata.
    pub read_only: bool,
    /// Memory the process may use, bytes; divided by [`MemoryPlan`]. `None`: [`DEFAULT_MEMORY`].
    pub memory: Option<u64>,
}

/// The memory ceiling of who names none.
pub const DEFAULT_MEMORY: u64 = 512 << 20;

/// An open volume. Exclusive: while it lives, no other process can open it.
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
    /// What of the process's memory it may use for what.
    pub memory: MemoryPlan,
    pub(crate) pending: PendingSegments,
    lock: Mutex<Option<Lock>>,
}

impl Volume {
    /// Opens the volume at `location` and holds it until [`Volume::close`] or the end of the process.
    ///
    /// Files that were unlinked while open when the last holder ended are reclaimed first.
    pub async fn open(location: &Location, options: &OpenOptions) -> Result<Arc<Volume>> {
        superblock_io::require_directory(location)?;
        Self::open_in(headrace_store::open(location, &options.store)?, location, options).await
    }

    /// [`Volume::open`] on a store that is open: one that is wrapped, say. `options.store` is not looked at.
    pub async fn open_in(
        store: Arc<dyn ObjectStore>,
        location: &Location,
        options: &OpenOptions,
    ) -> Result<Arc<Volume>> {
        let superblock = superblock_io::read(&*store, location).await?;
        let codec = codec(location, &superblock, options.key.as_ref())?;
        let state_dir = locate(location, options.state_dir.as_deref(), &superblock)?;
        let lock = Lock::acquire(&state_dir, &location.to_string(), options.mountpoint.as_deref())?;
        check_identity(location, &state_dir, &superblock)?;
        if state_dir.is_incomplete()? {
            // The superblock is there, so format had done all but this (or destroy nothing but this).
            state_dir.mark_complete()?;
        }
        let memory = MemoryPlan::new(
            options.memory.unwrap_or(DEFAULT_MEMORY),
            u64::from(superblock.segment_size),
        );
        let engine = engine::open(&state_dir, &memory)?;
        let meta = Arc::new(Namespace::open(Arc::clone(&engine))?);
        let store_counters = Arc::new(Counted::new(store));
        let store: Arc<dyn ObjectStore> = Arc::clone(&store_counters) as _;
        let volume = Volume {
            superblock,
            codec,
            store,
            store_counters,
            meta,
            engine,
            location: location.clone(),
            state_dir,
            read_only: options.read_only,
            memory,
            pending: PendingSegments::default(),
            lock: Mutex::new(Some(lock)),
        };
        if !volume.read_only {
            volume.reclaim_orphans()?;
        }
        Ok(Arc::new(volume))
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

    /// Resolves when everything committed to metadata so far survives a crash.
    pub async fn durable(&self) -> Result<()> {
        self.engine.durable(self.engine.position()).await?;
        Ok(())
    }

    /// Makes metadata durable, closes the engine and lets others open the volume. Blocks. Harmless when repeated.
    ///
    /// While the metadata's disk is full nothing can be made durable: then the volume stays open and held, and this can be
    /// called again.
    pub fn close(&self) -> Result<()> {
        let mut lock = self.lock.lock();
        if lock.is_none() {
            return Ok(());
        }
        let closed = self.engine.close();
        if !matches!(closed, Err(KvError::Full { .. })) {
            *lock = None;
        }
        Ok(closed?)
    }

    /// Fails unless the volume may be changed.
    pub(crate) fn writable(&self, operation: &'static str) -> Result<()> {
        if self.read_only { Err(VolumeError::ReadOnly { operation }) } else { Ok(()) }
    }

    fn reclaim_orphans(&self) -> Result<()> {
        let orphans = self.meta.orphans()?;
        if !orphans.is_empty() {
            tracing::info!(count = orphans.len(), "reclaiming files that were deleted while open");
        }
        for ino in orphans {
            // One bad record must not keep the volume from being mounted; fsck names it.
            if let Err(error) = self.meta.reclaim(ino) {
                tracing::warn!(%ino, %error, "cannot reclaim a deleted file");
            }
        }
        Ok(())
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::error!(%error, "closing the volume");
        }
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

/// The codec of a volume; needs the right key if it is encrypted, and none if it is not: who gives one believes that the
/// volume is encrypted.
pub(crate) fn codec(location: &Location, superblock: &Superblock, key: Option<&MasterKey>) -> Result<Codec> {
    let url = || location.to_string();
    let data_key = match (&superblock.encryption, key) {
        (None, None) => None,
        (None, Some(_)) => return Err(VolumeError::KeyUnexpected { url: url() }),
        (Some(_), None) => return Err(VolumeError::KeyNeeded { url: url() }),
        (Some(encryption), Some(key)) => Some(
            DataKey::unwrap(key, &encryption.wrapped_key)
                .map_err(|source| VolumeError::KeyWrong { url: url(), source })?,
        ),
    };
    Codec::new(superblock, data_key).map_err(|source| VolumeError::KeyWrong { url: url(), source })
}

/// The state directory of a volume on this machine.
pub(crate) fn locate(location: &Location, given: Option<&Path>, superblock: &Superblock) -> Result<StateDir> {
    let looked = state_dir::candidates(location.local_path(), given, superblock.uuid)?;
    for path in &looked {
        if let Some(found) = StateDir::open(path)? {
            return Ok(found);
        }
    }
    Err(VolumeError::NoMetadata { name: superblock.name.clone(), uuid: superblock.uuid.to_string(), looked })
}

/// Refuses a state directory that belongs to another volume.
pub(crate) fn check_identity(location: &Location, state: &StateDir, superblock: &Superblock) -> Result<()> {
    let identity = state.identity()?.ok_or_else(|| VolumeError::StateDir {
        path: state.path().to_owned(),
        detail: "it does not say which volume it belongs to: it is not a state directory, or it was damaged"
            .into(),
    })?;
    if identity.uuid == superblock.uuid {
        return Ok(());
    }
    Err(VolumeError::WrongMetadata {
        path: state.path().to_owned(),
        url: location.to_string(),
        expected: superblock.uuid.to_string(),
        found: identity.uuid.to_string(),
    })
}
