//! Finding a volume: its superblock, its key, and this machine's place for its metadata, locked.

use std::path::Path;
use std::sync::Arc;

use headrace_flow::memory::MemoryPlan;
use headrace_layout::Codec;
use headrace_layout::crypto::{DataKey, MasterKey};
use headrace_layout::superblock::Superblock;
use headrace_metalog::Bucket;
use headrace_store::{Counted, Location, ObjectStore};

use crate::claim::{self, Claimant};
use crate::error::{Result, VolumeError};
use crate::holder::Lock;
use crate::local::Here;
use crate::options::{DEFAULT_MEMORY, OpenOptions};
use crate::progress::ProgressFn;
use crate::state_dir::{self, Identity, StateDir};
use crate::superblock_io;

/// A volume that is there, and that no other process of this machine can open from this state directory.
pub(crate) struct Found {
    /// Its parameters.
    pub superblock: Superblock,
    /// How bytes are stored.
    pub codec: Codec,
    /// Where bytes are stored; counts its requests.
    pub store: Arc<dyn ObjectStore>,
    /// Figures of `store`.
    pub counters: Arc<Counted>,
    /// This machine's part.
    pub state: StateDir,
    /// Held while this lives.
    pub lock: Lock,
    /// What of the process's memory is for what.
    pub memory: MemoryPlan,
    /// The log.
    pub bucket: Bucket,
}

impl Found {
    /// Finds the volume at `location` in `store` and locks this machine's state directory, which is made if there is none.
    pub(crate) async fn find(
        store: Arc<dyn ObjectStore>,
        location: &Location,
        options: &OpenOptions,
    ) -> Result<Found> {
        let superblock = superblock_io::read(&*store, location).await?;
        let codec = codec(location, &superblock, options.key.as_ref())?;
        let (state, lock) =
            hold(location, options.state_dir.as_deref(), &superblock, options.mountpoint.as_deref())?;
        let memory =
            MemoryPlan::new(options.memory.unwrap_or(DEFAULT_MEMORY), u64::from(superblock.segment_size));
        let counters = Arc::new(Counted::new(store));
        let store: Arc<dyn ObjectStore> = Arc::clone(&counters) as _;
        let bucket = claim::bucket(Arc::clone(&store), codec.clone(), &superblock);
        Ok(Found { superblock, codec, store, counters, state, lock, memory, bucket })
    }

    /// Where its metadata is looked for, and put.
    pub(crate) fn here<'a>(&'a self, progress: &'a ProgressFn<'a>) -> Here<'a> {
        Here {
            bucket: &self.bucket,
            state: &self.state,
            memory: &self.memory,
            name: &self.superblock.name,
            progress,
        }
    }
}

impl OpenOptions {
    /// Who opens.
    pub(crate) fn claimant(&self) -> Claimant<'_> {
        Claimant { mountpoint: self.mountpoint.as_deref(), lease: self.lease, takeover: self.takeover }
    }
}

/// Finds or makes this machine's state directory of the volume, and locks it.
pub(crate) fn hold(
    location: &Location,
    given: Option<&Path>,
    superblock: &Superblock,
    mountpoint: Option<&str>,
) -> Result<(StateDir, Lock)> {
    let state = locate_or_create(location, given, superblock)?;
    let lock = Lock::acquire(&state, &location.to_string(), mountpoint)?;
    if state.identity()?.is_none() && !state.has_engine()? {
        // Just made, by us or by somebody who was interrupted.
        state.set_identity(&Identity {
            uuid: superblock.uuid,
            name: superblock.name.clone(),
            url: location.to_string(),
        })?;
    }
    check_identity(location, &state, superblock)?;
    if state.is_incomplete()? {
        // The superblock is there, so format had done all but this (or destroy nothing but this).
        state.mark_complete()?;
    }
    Ok((state, lock))
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
fn locate_or_create(location: &Location, given: Option<&Path>, superblock: &Superblock) -> Result<StateDir> {
    let candidates = state_dir::candidates(location.local_path(), given, superblock.uuid)?;
    for path in &candidates {
        if let Some(found) = StateDir::open(path)? {
            return Ok(found);
        }
    }
    let path = candidates.first().ok_or_else(|| VolumeError::System {
        operation: "choosing a state directory",
        detail: "there is none: give --state-dir".into(),
    })?;
    StateDir::create(path)
}

/// Refuses a state directory that belongs to another volume.
fn check_identity(location: &Location, state: &StateDir, superblock: &Superblock) -> Result<()> {
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
