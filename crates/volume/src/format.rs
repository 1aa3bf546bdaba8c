//! Creating a volume.
//!
//! The superblock is put last and only if there is none, so a location either holds a whole volume or none; two formats
//! of one location cannot both succeed. What a failed or killed format leaves behind is removed, or is known by its
//! marker and wiped by the next one.

use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use futures::StreamExt;
use headrace_flow::memory::MemoryPlan;
use headrace_kv::Engine;
use headrace_kv::embedded::EmbeddedEngine;
use headrace_layout::compression::Compression;
use headrace_layout::crypto::{DataKey, MasterKey};
use headrace_layout::superblock::{Encryption, OBJECT_KEY, Superblock};
use headrace_meta::Namespace;
use headrace_metalog::ship::publish_initial;
use headrace_metalog::{Key, SiteRecord};
use headrace_store::{Location, ObjectStore, StoreError, StoreOptions};
use uuid::Uuid;

use crate::claim;
use crate::error::{Result, VolumeError};
use crate::found::codec;
use crate::holder::Lock;
use crate::keys::{self, Owner};
use crate::state_dir::{self, Identity, StateDir};
use crate::superblock_io::Placed;
use crate::{engine, superblock_io};

/// What a new volume is to be like. Fixed for its life.
#[derive(Clone, Debug)]
pub struct FormatOptions {
    /// Its name for people: 1 to 255 bytes, no control characters.
    pub name: String,
    /// How data is compressed.
    pub compression: Compression,
    /// Encrypt it: the master key that wraps its data key.
    pub encryption: Option<MasterKey>,
    /// Plain bytes of a frame (unit of checksums): a power of two from 4 KiB to 1 MiB.
    pub frame_size: u32,
    /// Target length of a segment object: 1 MiB to 256 MiB.
    pub segment_size: u32,
    /// Longest write kept inside the metadata until it is packed: 0 to 64 KiB.
    pub inline_max: u32,
    /// Owner of the root directory.
    pub root_uid: u32,
    /// Group of the root directory.
    pub root_gid: u32,
    /// Permission bits of the root directory.
    pub root_mode: u16,
}

impl Default for FormatOptions {
    fn default() -> Self {
        let model = Superblock::new(Uuid::nil(), "", 0);
        FormatOptions {
            name: "headrace".into(),
            compression: Compression::None,
            encryption: None,
            frame_size: model.frame_size,
            segment_size: model.segment_size,
            inline_max: model.inline_max,
            root_uid: rustix::process::geteuid().as_raw(),
            root_gid: rustix::process::getegid().as_raw(),
            root_mode: 0o755,
        }
    }
}

/// What the user of a new volume should know; empty if all is well.
pub fn warnings(superblock: &Superblock) -> Vec<String> {
    let mut warnings = Vec::new();
    if superblock.weak_conditional_put {
        warnings.push(
            "the store does not honour conditional puts, so it cannot keep two machines from using this volume at \
             once: mount it on one machine only"
                .to_owned(),
        );
    }
    warnings
}

/// Creates a volume at `location`, which must be empty or not exist yet, and its metadata on this machine.
pub async fn format(
    location: &Location,
    store: &StoreOptions,
    state_dir: Option<&Path>,
    options: &FormatOptions,
) -> Result<Superblock> {
    let mut superblock = superblock(location, options)?;
    let made_root = match location.local_path() {
        Some(dir) if !dir.exists() => Some(dir.to_owned()),
        _ => None,
    };
    headrace_store::create_root(location)?;
    let made = match headrace_store::open(location, store) {
        Ok(store) => format_prepared(&store, location, state_dir, options, &mut superblock).await,
        Err(e) => Err(e.into()),
    };
    if let (Err(_), Some(dir)) = (&made, made_root) {
        // Only if it is empty, and it is no harm if it stays.
        let _ = std::fs::remove_dir(dir);
    }
    made.map(|()| superblock)
}

/// [`fn@format`] in a store that is open: one that is wrapped, say.
pub async fn format_in(
    store: Arc<dyn ObjectStore>,
    location: &Location,
    state_dir: Option<&Path>,
    options: &FormatOptions,
) -> Result<Superblock> {
    let mut superblock = superblock(location, options)?;
    format_prepared(&store, location, state_dir, options, &mut superblock).await?;
    Ok(superblock)
}

async fn format_prepared(
    store: &Arc<dyn ObjectStore>,
    location: &Location,
    state_dir: Option<&Path>,
    options: &FormatOptions,
    superblock: &mut Superblock,
) -> Result<()> {
    if let Some(found) = superblock_io::find(&**store).await? {
        return Err(already(location, &found));
    }
    let looked = state_dir::candidates(location.local_path(), state_dir, superblock.uuid)?;
    // `candidates` never answers an empty list.
    let path = looked.first().ok_or_else(|| VolumeError::System {
        operation: "choosing a state directory",
        detail: "there is none: give --state-dir".into(),
    })?;
    let leftovers = refuse_foreign_objects(&**store, location, path).await?;
    let capabilities = headrace_store::probe(&**store).await?;
    if let Some(reason) = capabilities.refuse() {
        return Err(VolumeError::StoreUnfit { url: location.to_string(), reason });
    }
    superblock.weak_conditional_put = !capabilities.conditional_put;
    for key in leftovers {
        store.delete(&key).await?;
    }

    let state = StateDir::create(path)?;
    let lock = Lock::acquire(&state, &location.to_string(), None)?;
    clear_leftovers(&state, location)?;
    let made = write_volume(store, location, &state, options, superblock).await;
    match &made {
        Ok(()) => state.mark_complete()?,
        // It may be there after all: then its metadata must be, too. The marker stays, so a new format may wipe it.
        Err(Failure { keep: Keep::InDoubt, .. }) => {}
        Err(Failure { keep: Keep::Volume, .. }) => state.mark_complete()?,
        Err(_) => remove_quietly(&state),
    }
    drop(lock);
    made.map_err(|failure| failure.cause)
}

/// Why [`write_volume`] failed.
struct Failure {
    cause: VolumeError,
    keep: Keep,
}

/// What a failed format leaves.
enum Keep {
    /// Nothing.
    Nothing,
    /// It is not known whether the superblock is there.
    InDoubt,
    /// A volume, which only its own machine can open so far.
    Volume,
}

impl<E: Into<VolumeError>> From<E> for Failure {
    fn from(cause: E) -> Self {
        Failure { cause: cause.into(), keep: Keep::Nothing }
    }
}

/// Metadata first, then the superblock, of which only one can be placed, then the beginning of the log. Before that is there
/// only this machine can open the volume; doing so writes it.
async fn write_volume(
    store: &Arc<dyn ObjectStore>,
    location: &Location,
    state: &StateDir,
    options: &FormatOptions,
    superblock: &Superblock,
) -> Result<(), Failure> {
    state.mark_incomplete()?;
    state.set_identity(&Identity {
        uuid: superblock.uuid,
        name: superblock.name.clone(),
        url: location.to_string(),
    })?;
    let memory = MemoryPlan::new(0, u64::from(superblock.segment_size));
    let engine = engine::open(state, &memory)?;
    Namespace::format(&*engine, options.root_uid, options.root_gid, options.root_mode)
        .map_err(VolumeError::from)?;
    engine.durable(engine.position()).await.map_err(VolumeError::from)?;
    place(&**store, location, superblock).await?;
    let begun = begin_log(store, location, state, options, superblock, &engine).await;
    let closed = engine.close().map_err(VolumeError::from);
    begun.and(closed).map_err(|cause| Failure {
        cause: VolumeError::HalfFormatted { url: location.to_string(), detail: cause.to_string() },
        keep: Keep::Volume,
    })
}

async fn place(store: &dyn ObjectStore, location: &Location, superblock: &Superblock) -> Result<(), Failure> {
    match superblock_io::place(store, superblock).await? {
        Placed::Ours => Ok(()),
        Placed::Theirs(found) => Err(already(location, &found).into()),
        Placed::Absent(cause) => Err(VolumeError::from(cause).into()),
        Placed::Unknown(cause) => {
            let cause = StoreError {
                detail: format!(
                    "{}. It is not known whether the volume was created: look with `headrace fsck {location}`, and \
                     format again if there is none",
                    cause.detail
                ),
                ..cause
            };
            Err(Failure { cause: cause.into(), keep: Keep::InDoubt })
        }
    }
}

/// From here on the bucket alone is enough to have the volume.
async fn begin_log(
    store: &Arc<dyn ObjectStore>,
    location: &Location,
    state: &StateDir,
    options: &FormatOptions,
    superblock: &Superblock,
    engine: &EmbeddedEngine,
) -> Result<()> {
    let codec = codec(location, superblock, options.encryption.as_ref())?;
    let bucket = claim::bucket(Arc::clone(store), codec, superblock);
    let writer = SiteRecord::open(state.path())?.first_writer()?;
    publish_initial(&bucket, engine, writer).await?;
    Ok(())
}

fn superblock(location: &Location, options: &FormatOptions) -> Result<Superblock> {
    if options.root_mode > 0o7777 {
        return Err(VolumeError::InvalidOption {
            option: "root_mode",
            value: format!("{:o}", options.root_mode),
            rule: "permission bits are 0 to 7777 (octal)",
        });
    }
    let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let mut superblock = Superblock::new(Uuid::new_v4(), options.name.clone(), created);
    superblock.compression = options.compression;
    superblock.frame_size = options.frame_size;
    superblock.segment_size = options.segment_size;
    superblock.inline_max = options.inline_max;
    superblock.encryption =
        options.encryption.as_ref().map(|master| Encryption::new(DataKey::generate().wrap(master)));
    superblock.validate().map_err(|source| VolumeError::Superblock { url: location.to_string(), source })?;
    Ok(superblock)
}

/// Refuses a location that holds anything but what a killed format or destroy leaves: probe objects, the names of earlier
/// owners, and for a local directory our own state directory (which [`clear_leftovers`] looks into). Answers what must
/// go.
async fn refuse_foreign_objects(
    store: &dyn ObjectStore,
    location: &Location,
    state: &Path,
) -> Result<Vec<String>> {
    let own = location
        .local_path()
        .and_then(|dir| state.strip_prefix(dir).ok())
        .and_then(|relative| relative.to_str())
        .map(|relative| format!("{relative}/"));
    let mut leftovers = Vec::new();
    let mut objects = store.list("");
    while let Some(object) = objects.next().await {
        let key = object?.key;
        if own.as_deref().is_some_and(|own| key.starts_with(own)) {
            continue;
        }
        match keys::owner(&key) {
            Owner::Probe => {}
            // Destroy removes them last, when nothing else is left.
            Owner::Log(Key::Owner { .. }) => leftovers.push(key),
            Owner::Segment(_) | Owner::Log(_) => {
                return Err(VolumeError::Headless { url: location.to_string(), example: key });
            }
            Owner::Superblock | Owner::Foreign => {
                return Err(VolumeError::NotEmpty { url: location.to_string(), example: key });
            }
        }
    }
    Ok(leftovers)
}

/// Wipes what a killed format or destroy left in `state`; refuses a directory with anything else in it.
fn clear_leftovers(state: &StateDir, location: &Location) -> Result<()> {
    let half = state.is_incomplete()?;
    if let (false, Some(identity)) = (half, state.identity()?) {
        return Err(VolumeError::StateDir {
            path: state.path().to_owned(),
            detail: format!(
                "it holds the metadata of the volume \"{}\" ({}), whose {OBJECT_KEY} is missing from {location}: \
                 restore that object, or remove the directory if the volume is not needed any more",
                identity.name, identity.uuid
            ),
        });
    }
    let foreign = state.clear()?;
    match foreign.first() {
        None => Ok(()),
        Some(path) => Err(VolumeError::NotEmpty {
            url: state.path().display().to_string(),
            example: path.display().to_string(),
        }),
    }
}

fn already(location: &Location, found: &Superblock) -> VolumeError {
    VolumeError::AlreadyVolume {
        url: location.to_string(),
        name: found.name.clone(),
        uuid: found.uuid.to_string(),
    }
}

fn remove_quietly(state: &StateDir) {
    if let Err(error) = state.remove() {
        tracing::warn!(%error, "cannot remove what a failed format left");
    }
}
