//! `fsck --rebuild`: metadata made anew from the segments alone, when it and its log are lost.
//!
//! Every segment says whose bytes it holds, from when they are, and, as far as its writer knew, under which names. Two steps, each of
//! which goes on where it was when it is started again, and neither of which needs memory for more than one file:
//!
//! 1. **Collect**: the indexes of all segments are sorted by file, in an engine of their own on disk ([`staging`]).
//! 2. **Build**: file by file the runs are put over each other, oldest first, in a fresh metadata engine.
//!
//! The new engine then takes the place of the old one, and the volume is opened as usual. What nobody can know any more:
//! what was deleted, cut off or renamed since (it is back, under the old name), and whatever never was in a segment: small
//! files that were still in metadata, empty files, symbolic links, attributes, hard links.

mod build;
mod collect;
mod names;
mod staging;

use std::sync::Arc;
use std::time::SystemTime;

use headrace_kv::Engine;
use headrace_kv::embedded::{EmbeddedEngine, EmbeddedOptions};
use headrace_metalog::restore::{self, Target};
use headrace_store::{Location, ObjectStore};
use serde::Serialize;

use crate::error::{Result, VolumeError};
use crate::found::Found;
use crate::options::OpenOptions;
use crate::progress::{Progress, ProgressFn, Unit};
use crate::state_dir::{self, StateDir};
use crate::superblock_io;
use staging::Staging;

/// Damaged segments named in a report, at most.
pub const DAMAGED_KEPT: usize = 1000;

/// Where the sorted indexes are, in the state directory, until the rebuild is done.
pub(crate) const STAGING: &str = "rebuild";
/// Where the new engine is, until it is complete.
pub(crate) const BUILDING: &str = "rebuilding";
/// In a state directory whose metadata was rebuilt: it is to be believed whatever the log says.
pub(crate) const REBUILT: &str = "rebuilt";

/// What a rebuild cannot know.
pub const UNKNOWABLE: [&str; 5] = [
    "files deleted or shortened since their data was stored are back, as long as the data was still there",
    "names are those of the time when the data was stored: later renames are undone",
    "small files written last may be missing: they were in the metadata, not in a segment yet",
    "empty files, symbolic links, devices, extended attributes, ACLs and second names of files are lost",
    "files and directories whose segments do not name them are in lost+found, private to you",
];

/// What a rebuild found and made.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RebuildReport {
    /// Segments whose index was read.
    pub segments: u64,
    /// Segments that cannot be used: their bytes are not in any file now.
    pub damaged_segments: u64,
    /// The first [`DAMAGED_KEPT`] of them, and why.
    pub damaged: Vec<String>,
    /// Files found.
    pub files: u64,
    /// Bytes they hold.
    pub bytes: u64,
    /// Directories found by name.
    pub directories: u64,
    /// Files among them that are in `lost+found`.
    pub nameless: u64,
    /// What cannot be known any more ([`UNKNOWABLE`]).
    pub unknown: Vec<&'static str>,
    /// What the user should know besides, a sentence each.
    pub notes: Vec<String>,
}

/// Rebuilds the metadata of the volume at `location` on this machine. With `force` even if there is metadata here (which is
/// set aside, not deleted) or a log in the bucket from which it could be restored: that is nearly always better.
///
/// Interrupted, it goes on where it was when it is called again.
pub async fn rebuild(
    location: &Location,
    options: &OpenOptions,
    force: bool,
    progress: &ProgressFn<'_>,
) -> Result<RebuildReport> {
    superblock_io::require_directory(location)?;
    rebuild_in(headrace_store::open(location, &options.store)?, location, options, force, progress).await
}

/// [`rebuild`] on a store that is open.
pub async fn rebuild_in(
    store: Arc<dyn ObjectStore>,
    location: &Location,
    options: &OpenOptions,
    force: bool,
    progress: &ProgressFn<'_>,
) -> Result<RebuildReport> {
    let found = Found::find(store, location, options).await?;
    let state = &found.state;
    if is_rebuilt(state)? && state.has_engine()? && !state.path().join(STAGING).exists() {
        let reason = "it was rebuilt already, and not opened since: mount it".into();
        return Err(VolumeError::RebuildRefused { url: location.to_string(), reason });
    }
    if !force {
        refuse_if_needless(&found, location, progress).await?;
    }
    let mut report = RebuildReport { unknown: UNKNOWABLE.to_vec(), ..RebuildReport::default() };
    let staging = Staging::open(&state.path().join(STAGING))?;
    collect::collect(&found, &staging, progress, &mut report).await?;
    let building = state.path().join(BUILDING);
    build::build(&staging, &building, progress, &mut report).await?;
    staging.close()?;
    if state.has_engine()? {
        let aside = state.set_aside(SystemTime::now())?;
        report.notes.push(format!("the metadata that was here is set aside in {}", aside.display()));
    }
    // From here on the next open takes the new engine for the truth.
    state.replace(REBUILT, b"")?;
    let failed =
        |e: std::io::Error| state_dir::failed(&building, "cannot put the rebuilt metadata in its place", &e);
    std::fs::rename(&building, state.engine()).map_err(failed)?;
    std::fs::remove_dir_all(state.path().join(STAGING)).map_err(failed)?;
    Ok(report)
}

/// Whether the metadata here was rebuilt and not opened since: then it is to be believed, whatever the log says.
pub(crate) fn is_rebuilt(state: &StateDir) -> Result<bool> {
    let path = state.path().join(REBUILT);
    path.try_exists().map_err(|e| state_dir::failed(&path, "cannot look at it", &e))
}

/// Refuses while there is something better.
async fn refuse_if_needless(found: &Found, location: &Location, progress: &ProgressFn<'_>) -> Result<()> {
    let url = location.to_string();
    if found.state.has_engine()? {
        let reason = format!(
            "there is metadata in {}: check it with `headrace fsck {url}`, put it in order with --repair",
            found.state.path().display()
        );
        return Err(VolumeError::RebuildRefused { url, reason });
    }
    progress(Progress { phase: "looking for a log to restore from", done: 0, total: 0, unit: Unit::Items });
    match restore::check(&found.bucket, Target::Latest, &|_| ()).await {
        Ok(_) => {
            let reason =
                format!("its metadata is whole in the bucket: bring it back with `headrace restore {url}`");
            Err(VolumeError::RebuildRefused { url, reason })
        }
        Err(error) => {
            tracing::info!(%error, "the log cannot bring the metadata back");
            Ok(())
        }
    }
}

/// Opens an engine for a rebuild.
fn engine(dir: &std::path::Path) -> Result<Arc<EmbeddedEngine>> {
    Ok(Arc::new(EmbeddedEngine::open(dir, EmbeddedOptions::default())?))
}

/// Waits until all that an engine was given is on disk.
async fn synced(engine: &dyn Engine) -> Result<()> {
    Ok(engine.durable(engine.position()).await?)
}
