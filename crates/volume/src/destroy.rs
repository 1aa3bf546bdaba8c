//! Removing a volume for good.
//!
//! Two steps, so that a program can show what will go and ask: [`Doomed::survey`] takes the volume's lock and counts,
//! [`Doomed::destroy`] deletes. Data goes before the superblock, and the metadata on this machine last: until the end
//! the location is known as a volume and `destroy` can be run again.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use headrace_layout::crypto::MasterKey;
use headrace_layout::superblock::{OBJECT_KEY, Superblock};
use headrace_metalog::keys as log_keys;
use headrace_store::{Location, ObjectStore, StoreOptions};
use serde::Serialize;

use crate::claim::{self, Claimant, Kept};
use crate::error::{Result, VolumeError};
use crate::found;
use crate::holder::Lock;
use crate::keys::{self, Owner};
use crate::options::DEFAULT_LEASE;
use crate::progress::{Progress, ProgressFn, Unit};
use crate::state_dir::StateDir;
use crate::superblock_io;

/// Deletes in flight.
const CONCURRENCY: usize = 16;
/// Foreign objects named in a report, at most.
const FOREIGN_NAMED: usize = 20;

/// How to find the volume to destroy.
#[derive(Clone, Debug, Default)]
pub struct DestroyOptions {
    /// Credentials, endpoint, timeouts.
    pub store: StoreOptions,
    /// Base of the state directory instead of the default one.
    pub state_dir: Option<PathBuf>,
    /// The master key of an encrypted volume.
    pub key: Option<MasterKey>,
    /// Go on although nothing can tell whether another machine has the volume mounted: its key is lost, or its log damaged.
    pub force: bool,
    /// Take the volume over from an owner that is gone.
    pub takeover: bool,
    /// How long ownership lasts without being renewed.
    pub lease: Option<Duration>,
}

/// What `destroy` is about to remove.
#[derive(Clone, Debug, Serialize)]
pub struct DestroyPlan {
    /// Where the volume is.
    pub url: String,
    /// Its name.
    pub name: String,
    /// Its identity.
    pub uuid: String,
    /// Segments in the store.
    pub segments: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Objects of the metadata's log and its snapshots.
    pub log_objects: u64,
    /// The state directory on this machine.
    pub state_dir: PathBuf,
    /// Objects under the location that are not the volume's: they stay.
    pub foreign: u64,
    /// Some of their keys.
    pub foreign_examples: Vec<String>,
}

/// What `destroy` removed.
#[derive(Clone, Debug, Serialize)]
pub struct DestroyReport {
    /// Segments deleted.
    pub segments: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Objects that are not the volume's and stayed.
    pub foreign: u64,
    /// Some of their keys.
    pub foreign_examples: Vec<String>,
    /// Files in the state directory that are not ours and stayed.
    pub state_files_left: Vec<PathBuf>,
}

/// A volume that is about to be destroyed; nobody can open it meanwhile.
pub struct Doomed {
    location: Location,
    store: Arc<dyn ObjectStore>,
    state: StateDir,
    lock: Lock,
    /// Ours, as far as that can be told.
    kept: Option<Kept>,
    plan: DestroyPlan,
}

impl Doomed {
    /// Claims the volume and looks at what would go. Fails with [`VolumeError::Held`] or [`VolumeError::HeldElsewhere`] while
    /// the volume is in use.
    pub async fn survey(
        location: &Location,
        options: &DestroyOptions,
        progress: &ProgressFn<'_>,
    ) -> Result<Doomed> {
        superblock_io::require_directory(location)?;
        let store = headrace_store::open(location, &options.store)?;
        let superblock = superblock_io::read(&*store, location).await?;
        let (state, lock) = found::hold(location, options.state_dir.as_deref(), &superblock, None)?;
        let kept = claim_it(&store, location, &state, &superblock, options, progress).await?;
        let own = own_state(location, state.path());
        let mut plan = DestroyPlan {
            url: location.to_string(),
            name: superblock.name,
            uuid: superblock.uuid.to_string(),
            segments: 0,
            bytes: 0,
            state_dir: state.path().to_owned(),
            log_objects: 0,
            foreign: 0,
            foreign_examples: Vec::new(),
        };
        let mut objects = store.list("");
        while let Some(object) = objects.try_next().await? {
            match keys::owner(&object.key) {
                Owner::Segment(_) => {
                    plan.segments += 1;
                    plan.bytes = plan.bytes.saturating_add(object.size);
                    let done = plan.segments;
                    progress(Progress { phase: "counting segments", done, total: 0, unit: Unit::Items });
                }
                Owner::Foreign if !own.as_deref().is_some_and(|own| object.key.starts_with(own)) => {
                    plan.foreign += 1;
                    if plan.foreign_examples.len() < FOREIGN_NAMED {
                        plan.foreign_examples.push(object.key);
                    }
                }
                Owner::Log(_) => plan.log_objects += 1,
                Owner::Superblock | Owner::Probe | Owner::Foreign => {}
            }
        }
        drop(objects);
        Ok(Doomed { location: location.clone(), store, state, lock, kept, plan })
    }

    /// What will go, to show to a person.
    pub fn plan(&self) -> &DestroyPlan {
        &self.plan
    }

    /// Leaves the volume as it is.
    pub async fn spare(self) {
        if let Some(kept) = &self.kept {
            kept.release().await;
        }
    }

    /// Deletes the volume. Objects that are not its own stay.
    pub async fn destroy(self, progress: &ProgressFn<'_>) -> Result<DestroyReport> {
        let Doomed { location, store, state, lock, kept, plan } = self;
        // If this ends between the superblock and the metadata, a new format may wipe the rest.
        state.mark_incomplete()?;
        let mut report = DestroyReport {
            segments: 0,
            bytes: 0,
            foreign: plan.foreign,
            foreign_examples: plan.foreign_examples.clone(),
            state_files_left: Vec::new(),
        };
        // Those who own come last: while there is a superblock, they keep others away.
        for prefix in [keys::SEGMENTS, keys::PROBE, log_keys::LOG, log_keys::SNAPSHOTS] {
            delete_below(&*store, prefix, &plan, &mut report, progress).await?;
        }
        store.delete(OBJECT_KEY).await?;
        if let Some(kept) = &kept {
            kept.release().await;
        }
        delete_below(&*store, log_keys::OWNERS, &plan, &mut report, progress).await?;
        report.state_files_left = state.remove()?;
        drop(lock);
        if let Some(dir) = location.local_path() {
            remove_empty_folders(dir);
        }
        Ok(report)
    }
}

/// Makes sure that nobody has the volume, and that nobody gets it: as far as that can be told without its key.
async fn claim_it(
    store: &Arc<dyn ObjectStore>,
    location: &Location,
    state: &StateDir,
    superblock: &Superblock,
    options: &DestroyOptions,
    progress: &ProgressFn<'_>,
) -> Result<Option<Kept>> {
    let claimed = async {
        let codec = found::codec(location, superblock, options.key.as_ref())?;
        let bucket = claim::bucket(Arc::clone(store), codec, superblock);
        let who = Claimant {
            mountpoint: None,
            lease: options.lease.unwrap_or(DEFAULT_LEASE),
            takeover: options.takeover,
        };
        let claimed = claim::claim(&bucket, state, who, progress).await?;
        Ok(Kept::start(&bucket, &claimed.claim))
    };
    match claimed.await {
        Ok(kept) => Ok(Some(kept)),
        Err(error @ VolumeError::HeldElsewhere { .. }) => Err(error),
        Err(error) if options.force => {
            tracing::warn!(%error, "going on without knowing whether the volume is in use");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Deletes the volume's own objects below `prefix`.
async fn delete_below(
    store: &dyn ObjectStore,
    prefix: &str,
    plan: &DestroyPlan,
    report: &mut DestroyReport,
    progress: &ProgressFn<'_>,
) -> Result<()> {
    let mut deletes = store
        .list(prefix)
        .try_filter(|object| std::future::ready(keys::owner(&object.key) != Owner::Foreign))
        .map_ok(|object| async move {
            store.delete(&object.key).await?;
            Ok(object)
        })
        .try_buffer_unordered(CONCURRENCY);
    while let Some(object) = deletes.try_next().await? {
        match keys::owner(&object.key) {
            Owner::Segment(_) => {
                report.segments += 1;
                report.bytes = report.bytes.saturating_add(object.size);
                let (done, total) = (report.segments, plan.segments);
                progress(Progress { phase: "deleting segments", done, total, unit: Unit::Items });
            }
            Owner::Log(_) => {
                let step = Progress { phase: "deleting the log", done: 0, total: 0, unit: Unit::Items };
                progress(step);
            }
            _ => {}
        }
    }
    Ok(())
}

/// The state directory as a key prefix, when it is within a local store.
fn own_state(location: &Location, state: &Path) -> Option<String> {
    let relative = state.strip_prefix(location.local_path()?).ok()?;
    Some(format!("{}/", relative.to_str()?))
}

/// Folders are not objects, so a local store may keep empty ones. The directory itself stays: it may be the user's.
fn remove_empty_folders(dir: &Path) {
    let segments = dir.join("segments");
    if let Ok(entries) = std::fs::read_dir(&segments) {
        for entry in entries.flatten() {
            // Succeeds on empty folders only.
            let _ = std::fs::remove_dir(entry.path());
        }
    }
    if let Ok(entries) = std::fs::read_dir(dir.join("snapshots")) {
        for entry in entries.flatten() {
            let _ = std::fs::remove_dir(entry.path());
        }
    }
    for folder in ["segments", "snapshots", "log", "owners"] {
        let _ = std::fs::remove_dir(dir.join(folder));
    }
}
