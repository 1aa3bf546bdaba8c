//! Removing a volume for good.
//!
//! Two steps, so that a program can show what will go and ask: [`Doomed::survey`] takes the volume's lock and counts,
//! [`Doomed::destroy`] deletes. Data goes before the superblock, and the metadata on this machine last: until the end
//! the location is known as a volume and `destroy` can be run again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::TryStreamExt;
use headrace_layout::superblock::{OBJECT_KEY, Superblock};
use headrace_store::{Location, ObjectStore, StoreOptions};
use serde::Serialize;

use crate::error::{Result, VolumeError};
use crate::holder::Lock;
use crate::keys::{self, Owner};
use crate::open::{check_identity, locate};
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
    /// Go on although this machine does not have the volume's metadata. Then nothing can tell whether another machine
    /// has it mounted.
    pub without_metadata: bool,
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
    /// The state directory on this machine, if there is one.
    pub state_dir: Option<PathBuf>,
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
    state: Option<(StateDir, Lock)>,
    plan: DestroyPlan,
}

impl Doomed {
    /// Takes the volume's lock and looks at what would go. Fails with [`VolumeError::Held`] while the volume is in use.
    pub async fn survey(
        location: &Location,
        options: &DestroyOptions,
        progress: &ProgressFn<'_>,
    ) -> Result<Doomed> {
        superblock_io::require_directory(location)?;
        let store = headrace_store::open(location, &options.store)?;
        let superblock = superblock_io::read(&*store, location).await?;
        let state = lock(location, options, &superblock)?;
        let own = own_state(location, state.as_ref().map(|(s, _)| s.path()));
        let mut plan = DestroyPlan {
            url: location.to_string(),
            name: superblock.name,
            uuid: superblock.uuid.to_string(),
            segments: 0,
            bytes: 0,
            state_dir: state.as_ref().map(|(s, _)| s.path().to_owned()),
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
                Owner::Superblock | Owner::Probe | Owner::Foreign => {}
            }
        }
        drop(objects);
        Ok(Doomed { location: location.clone(), store, state, plan })
    }

    /// What will go, to show to a person.
    pub fn plan(&self) -> &DestroyPlan {
        &self.plan
    }

    /// Deletes the volume. Objects that are not its own stay.
    pub async fn destroy(self, progress: &ProgressFn<'_>) -> Result<DestroyReport> {
        let Doomed { location, store, state, plan } = self;
        if let Some((state, _)) = &state {
            // If this ends between the superblock and the metadata, a new format may wipe the rest.
            state.mark_incomplete()?;
        }
        let mut report = DestroyReport {
            segments: 0,
            bytes: 0,
            foreign: plan.foreign,
            foreign_examples: plan.foreign_examples,
            state_files_left: Vec::new(),
        };
        for prefix in [keys::SEGMENTS, keys::PROBE] {
            let store = &*store;
            let mut deletes = store
                .list(prefix)
                .try_filter(|object| std::future::ready(keys::owner(&object.key) != Owner::Foreign))
                .map_ok(|object| async move {
                    store.delete(&object.key).await?;
                    Ok(object)
                })
                .try_buffer_unordered(CONCURRENCY);
            while let Some(object) = deletes.try_next().await? {
                if matches!(keys::owner(&object.key), Owner::Segment(_)) {
                    report.segments += 1;
                    report.bytes = report.bytes.saturating_add(object.size);
                    let (done, total) = (report.segments, plan.segments);
                    progress(Progress { phase: "deleting segments", done, total, unit: Unit::Items });
                }
            }
        }
        store.delete(OBJECT_KEY).await?;
        if let Some((state, lock)) = state {
            report.state_files_left = state.remove()?;
            drop(lock);
        }
        if let Some(dir) = location.local_path() {
            remove_empty_folders(dir);
        }
        Ok(report)
    }
}

fn lock(
    location: &Location,
    options: &DestroyOptions,
    superblock: &Superblock,
) -> Result<Option<(StateDir, Lock)>> {
    let state = match locate(location, options.state_dir.as_deref(), superblock) {
        Ok(state) => state,
        Err(VolumeError::NoMetadata { .. }) if options.without_metadata => return Ok(None),
        Err(e) => return Err(e),
    };
    let lock = Lock::acquire(&state, &location.to_string(), None)?;
    check_identity(location, &state, superblock)?;
    Ok(Some((state, lock)))
}

/// The state directory as a key prefix, when it is within a local store.
fn own_state(location: &Location, state: Option<&Path>) -> Option<String> {
    let relative = state?.strip_prefix(location.local_path()?).ok()?;
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
    let _ = std::fs::remove_dir(segments);
}
