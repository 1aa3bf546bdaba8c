//! Rebuilding a volume's metadata on this machine from the bucket alone, on request as it was at an earlier time.
//!
//! Two steps, so that a program can show what will be undone and ask: [`Restore::prepare`] claims the volume and builds the
//! metadata beside what is here, [`Restore::run`] puts it in its place. An earlier state becomes the volume's by a *reset* in the log:
//! until that is written everything is as it was, and from then on it is the volume's state for everybody.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use futures::TryStreamExt;
use headrace_kv::Engine;
use headrace_kv::embedded::EmbeddedEngine;
use headrace_layout::SegmentId;
use headrace_meta::Namespace;
use headrace_metalog::restore::{Restored, Target};
use headrace_metalog::ship::publish_reset;
use headrace_store::{Location, ObjectStore};
use serde::Serialize;

use crate::claim::{self, Claimed, Kept};
use crate::error::Result;
use crate::found::Found;
use crate::keys::{self, Owner};
use crate::options::OpenOptions;
use crate::progress::{Progress, ProgressFn, Unit};
use crate::state_dir::CopyMark;
use crate::superblock_io;

/// Segments looked at in one go.
const BATCH: usize = 1000;

/// What a restore is about to do.
#[derive(Clone, Debug, Serialize)]
pub struct RestorePlan {
    /// Where the volume is.
    pub url: String,
    /// Its name.
    pub name: String,
    /// Its identity.
    pub uuid: String,
    /// The time of the state that was found.
    #[serde(serialize_with = "as_text")]
    pub at: SystemTime,
    /// Transactions in the bucket after that, which are undone.
    pub undone: u64,
}

/// What a restore did.
#[derive(Clone, Debug, Serialize)]
pub struct RestoreReport {
    /// Where the volume is.
    pub url: String,
    /// The volume's name.
    pub name: String,
    /// The volume's identity.
    pub uuid: String,
    /// The time of the state that is there now.
    #[serde(serialize_with = "as_text")]
    pub at: SystemTime,
    /// Transactions that were undone.
    pub undone: u64,
    /// Inodes in the volume.
    pub inodes: u64,
    /// Bytes of file data in the volume.
    pub bytes: u64,
    /// Where the metadata is now.
    pub state_dir: PathBuf,
    /// What the user should know, a sentence each.
    pub notes: Vec<String>,
}

fn as_text<S: serde::Serializer>(time: &SystemTime, to: S) -> std::result::Result<S::Ok, S::Error> {
    to.collect_str(&humantime::format_rfc3339_millis(*time))
}

/// A restore that is prepared; nobody else can open the volume meanwhile.
pub struct Restore {
    found: Found,
    claimed: Claimed,
    kept: Kept,
    restored: Restored,
    /// Whether the volume goes back in time.
    reset: bool,
    plan: RestorePlan,
}

impl Restore {
    /// Claims the volume and builds the newest state, or with `at` that of an earlier moment, beside what is on this machine.
    /// Fails with [`crate::VolumeError::Held`] or [`crate::VolumeError::HeldElsewhere`] while the volume is in use.
    pub async fn prepare(
        location: &Location,
        options: &OpenOptions,
        at: Option<SystemTime>,
        progress: &ProgressFn<'_>,
    ) -> Result<Restore> {
        superblock_io::require_directory(location)?;
        let store = headrace_store::open(location, &options.store)?;
        let found = Found::find(store, location, options).await?;
        let claimed = claim::claim(&found.bucket, &found.state, options.claimant(), progress).await?;
        let kept = Kept::start(&found.bucket, &claimed.claim);
        let target = at.map_or(Target::Latest, Target::At);
        let restored = match found.here(progress).rebuild(target).await {
            Ok(restored) => restored,
            Err(error) => {
                kept.release().await;
                return Err(error);
            }
        };
        let plan = RestorePlan {
            url: found.store.url().to_owned(),
            name: found.superblock.name.clone(),
            uuid: found.superblock.uuid.to_string(),
            at: restored.at,
            undone: claimed.claim.position.0.saturating_sub(restored.position.0),
        };
        // What cannot be read is left behind by a reset too.
        let reset = !restored.is_latest || !claimed.claim.damaged.is_empty();
        Ok(Restore { found, claimed, kept, restored, reset, plan })
    }

    /// What will be done, to show to a person.
    pub fn plan(&self) -> &RestorePlan {
        &self.plan
    }

    /// Leaves everything as it was.
    pub async fn give_up(self) -> Result<()> {
        self.found.state.restoring()?;
        self.kept.release().await;
        Ok(())
    }

    /// Does it.
    pub async fn run(self, progress: &ProgressFn<'_>) -> Result<RestoreReport> {
        let Restore { found, mut claimed, kept, restored, reset, plan } = self;
        let here = found.here(progress);
        let mut notes = restored.warnings.clone();
        notes.extend(make_way(&here, &found)?);
        found.state.finish_restoring()?;
        let engine = here.open()?;
        let as_engine: Arc<dyn Engine> = Arc::clone(&engine) as _;
        let namespace = Namespace::open(as_engine)?;
        let mut mark = CopyMark { position: restored.position.0, number: Some(restored.number) };
        if reset {
            adopt_segments(&*found.store, &namespace, progress).await?;
            let reason = format!("restored to {}", humantime::format_rfc3339_millis(restored.at));
            publish_reset(&found.bucket, &engine, &mut claimed.claim, &reason).await?;
            mark = CopyMark { position: claimed.claim.position.0, number: Some(claimed.claim.number) };
        }
        let totals = namespace.statfs()?;
        drop(namespace);
        close(engine).await?;
        found.state.set_copy(&mark)?;
        claimed.record.settle(&claimed.claim)?;
        kept.release().await;
        Ok(RestoreReport {
            url: plan.url,
            name: plan.name,
            uuid: plan.uuid,
            at: plan.at,
            undone: plan.undone,
            inodes: totals.inodes,
            bytes: totals.bytes,
            state_dir: found.state.path().to_owned(),
            notes,
        })
    }
}

/// Takes the engine that is here out of its place. One that cannot be opened is kept aside like one that has changes of its
/// own.
fn make_way(here: &crate::local::Here<'_>, found: &Found) -> Result<Option<String>> {
    if !found.state.has_engine()? {
        return Ok(None);
    }
    match here.open() {
        Ok(engine) => {
            let durable = engine.durable_position().0;
            let copied = found.state.copy()?.is_some_and(|mark| mark.position == durable);
            here.make_way(Some(&engine), !copied)
        }
        Err(error) => {
            tracing::warn!(%error, "the metadata that is here cannot be opened");
            here.make_way(None, true)
        }
    }
}

/// Takes note of segments that this state does not know: they belong to what was undone. As dead ones they stay for the
/// retention, within which that could be asked for after all.
async fn adopt_segments(
    store: &dyn ObjectStore,
    namespace: &Namespace,
    progress: &ProgressFn<'_>,
) -> Result<()> {
    let mut listing = store.list(keys::SEGMENTS);
    let mut unknown: Vec<(SegmentId, u64)> = Vec::new();
    let mut seen = 0;
    while let Some(object) = listing.try_next().await? {
        seen += 1;
        if seen % 256 == 0 {
            progress(Progress { phase: "looking at segments", done: seen, total: 0, unit: Unit::Items });
            tokio::task::yield_now().await;
        }
        let Owner::Segment(id) = keys::owner(&object.key) else { continue };
        if namespace.segment(id)?.is_none() {
            unknown.push((id, object.size));
        }
        if unknown.len() >= BATCH {
            namespace.adopt_dead_segments(&unknown)?;
            unknown.clear();
        }
    }
    namespace.adopt_dead_segments(&unknown)?;
    Ok(())
}

async fn close(engine: Arc<EmbeddedEngine>) -> Result<()> {
    let closed = tokio::task::spawn_blocking(move || engine.close()).await;
    closed.map_err(|e| crate::VolumeError::System {
        operation: "closing the metadata",
        detail: e.to_string(),
    })??;
    Ok(())
}
