//! The metadata on this machine against the log in the bucket: what is used, what is rebuilt, what is set aside.

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use headrace_flow::memory::MemoryPlan;
use headrace_kv::embedded::EmbeddedEngine;
use headrace_kv::{Engine, KvError};
use headrace_metalog::object::LogObject;
use headrace_metalog::restore::{RestoreProgress, Restored, Stage, Target, restore};
use headrace_metalog::{Bucket, Claim, Key, SiteRecord, keys};

use crate::engine;
use crate::error::{Result, VolumeError};
use crate::progress::{Progress, ProgressFn, Unit};
use crate::rebuild;
use crate::state_dir::{CopyMark, StateDir, remove_file};

/// What is known of the engine on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Local {
    /// Its durable position.
    pub durable: u64,
    /// The position at which it was nothing but a copy of the bucket.
    pub copied: Option<u64>,
}

/// What is known of the log in the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Log {
    /// There is none.
    None,
    /// It ends where this machine's state goes on, or is.
    Ours,
    /// The same, but its last objects cannot be read.
    OursDamaged,
    /// It has what this machine has not.
    Theirs,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Go on with what is here.
    Use,
    /// Go on with what is here, and say in the bucket that this is the state.
    Adopt,
    /// Build it from the bucket; what is here has something that the bucket has not, so it is kept aside.
    RebuildAside,
    /// Build it from the bucket.
    Rebuild,
    /// There is nothing anywhere.
    Lost,
}

/// Decides. `rebuilt`: what is here was made anew because the log is lost, and is to be believed.
pub(crate) fn decide(local: Option<Local>, log: Log, rebuilt: bool) -> Step {
    match (local, log) {
        (Some(_), _) if rebuilt => Step::Adopt,
        (None, Log::None) => Step::Lost,
        (None, _) => Step::Rebuild,
        (Some(_), Log::None | Log::OursDamaged) => Step::Adopt,
        (Some(_), Log::Ours) => Step::Use,
        (Some(local), Log::Theirs) if local.copied == Some(local.durable) => Step::Rebuild,
        (Some(_), Log::Theirs) => Step::RebuildAside,
    }
}

/// The engine of a volume, as it came to be here.
pub(crate) struct Arrived {
    /// The engine.
    pub engine: Arc<EmbeddedEngine>,
    /// What was done to have it.
    pub step: Step,
    /// What people should know.
    pub notes: Vec<String>,
}

/// Where a volume's metadata is looked for, and put.
pub(crate) struct Here<'a> {
    /// The log.
    pub bucket: &'a Bucket,
    /// This machine's part.
    pub state: &'a StateDir,
    /// Bounds of the engine.
    pub memory: &'a MemoryPlan,
    /// For people.
    pub name: &'a str,
    /// Told of long work.
    pub progress: &'a ProgressFn<'a>,
}

impl Here<'_> {
    /// Fails if there is neither metadata on this machine nor a log in the bucket.
    pub(crate) async fn refuse_if_lost(&self) -> Result<()> {
        if !self.state.has_engine()? && last_object(self.bucket).await?.is_none() {
            return Err(self.lost());
        }
        Ok(())
    }

    fn lost(&self) -> VolumeError {
        VolumeError::NoMetadata {
            name: self.name.to_owned(),
            uuid: self.bucket.volume.to_string(),
            looked: vec![self.state.path().to_owned()],
        }
    }

    /// The engine for one who has claimed the volume: continuous with the log, or rebuilt from it.
    pub(crate) async fn for_owner(&self, claim: &Claim) -> Result<Arrived> {
        self.bring(|engine| {
            let durable = engine.map(|engine| engine.durable_position());
            match (&claim.previous, durable) {
                (None, _) if claim.damaged.is_empty() => Log::None,
                (_, Some(durable)) if claim.is_continuous(durable) => Log::Ours,
                (Some(previous), Some(durable))
                    if !claim.damaged.is_empty()
                        && previous.site == claim.owner.site
                        && durable >= claim.position =>
                {
                    Log::OursDamaged
                }
                _ => Log::Theirs,
            }
        })
        .await
    }

    /// The engine for one who only reads: no older than the log.
    pub(crate) async fn for_reader(&self) -> Result<Arrived> {
        let record = SiteRecord::open(self.state.path())?;
        let copied = self.state.copy()?;
        let last = last_object(self.bucket).await?;
        self.bring(|engine| {
            let Some(last) = &last else { return Log::None };
            let Some(engine) = engine else { return Log::Theirs };
            let durable = engine.durable_position().0;
            let unchanged = copied.is_some_and(|c| c.position == durable && c.number == Some(last.number));
            let ours = match &last.object {
                Ok(object) => object.writer.site == record.site().id && durable >= object.position().0,
                // Whoever claims the volume next finds out.
                Err(_) => true,
            };
            if unchanged || ours { Log::Ours } else { Log::Theirs }
        })
        .await
    }

    async fn bring(&self, compare: impl Fn(Option<&EmbeddedEngine>) -> Log) -> Result<Arrived> {
        let engine = if self.state.has_engine()? { Some(self.open()?) } else { None };
        let copied = self.state.copy()?.map(|mark| mark.position);
        let local = engine.as_ref().map(|engine| Local { durable: engine.durable_position().0, copied });
        let rebuilt = rebuild::is_rebuilt(self.state)?;
        let step = decide(local, compare(engine.as_deref()), rebuilt);
        let mut notes = Vec::new();
        let engine = match (step, engine) {
            (Step::Use | Step::Adopt, Some(engine)) => engine,
            (Step::Lost, _) | (Step::Use | Step::Adopt, None) => {
                return Err(self.lost());
            }
            (Step::Rebuild | Step::RebuildAside, engine) => {
                let restored = self.rebuild(Target::Latest).await?;
                let aside = step == Step::RebuildAside;
                let had = engine.is_some();
                if let Some(note) = self.make_way(engine.as_deref(), aside)? {
                    notes.push(note);
                }
                drop(engine);
                self.state.finish_restoring()?;
                self.state
                    .set_copy(&CopyMark { position: restored.position.0, number: Some(restored.number) })?;
                notes.push(arrived(&restored, had));
                notes.extend(restored.warnings);
                self.open()?
            }
        };
        Ok(Arrived { engine, step, notes })
    }

    /// Opens the engine that is here.
    pub(crate) fn open(&self) -> Result<Arc<EmbeddedEngine>> {
        engine::open(self.state, self.memory).map_err(|error| match error {
            VolumeError::Engine(KvError::Corrupt(detail)) => VolumeError::LocalDamaged {
                path: self.state.engine(),
                url: self.bucket.store.url().to_owned(),
                detail,
            },
            other => other,
        })
    }

    /// What is here is the volume's state now, for everybody.
    pub(crate) fn adopted(&self) -> Result<()> {
        remove_file(&self.state.path().join(rebuild::REBUILT))
    }

    /// Builds an engine beside the one that is here.
    pub(crate) async fn rebuild(&self, target: Target) -> Result<Restored> {
        let dir = self.state.restoring()?;
        let told = |step: RestoreProgress| {
            (self.progress)(Progress {
                phase: match step.stage {
                    Stage::Looking => "looking for the newest snapshot",
                    Stage::Snapshot => "loading the metadata's snapshot",
                    Stage::Log => "applying the metadata's log",
                },
                done: step.done,
                total: step.total,
                unit: Unit::Bytes,
            });
        };
        Ok(restore(self.bucket, target, &dir, &told).await?)
    }

    /// Closes the engine that is here and takes it out of its place; a sentence on where it is, if it was kept.
    pub(crate) fn make_way(&self, engine: Option<&EmbeddedEngine>, aside: bool) -> Result<Option<String>> {
        let changes = engine.map_or(0, unshipped);
        if let Some(engine) = engine {
            engine.close()?;
        }
        if !aside {
            self.state.remove_engine()?;
            return Ok(None);
        }
        if !self.state.has_engine()? {
            return Ok(None);
        }
        let path = self.state.set_aside(SystemTime::now())?;
        Ok(Some(aside_note(changes, &path)))
    }
}

/// Transactions that may not be in the bucket.
fn unshipped(engine: &EmbeddedEngine) -> u64 {
    engine.durable_position().0.saturating_sub(engine.log_base().0)
}

fn aside_note(changes: u64, path: &Path) -> String {
    let what = match changes {
        0 => "its last changes".to_owned(),
        1 => "1 change".to_owned(),
        n => format!("{n} changes"),
    };
    format!(
        "the metadata that was on this machine had {what} that may never have reached the bucket, and the bucket went on \
         without: it was set aside in {}",
        path.display()
    )
}

fn arrived(restored: &Restored, had: bool) -> String {
    let why = if had { "was older than the bucket" } else { "was not on this machine" };
    let at = humantime::format_rfc3339_seconds(restored.at);
    format!("the volume's metadata {why}: it was rebuilt from the bucket (as of {at})")
}

/// The last object of the log.
struct Last {
    number: u64,
    object: std::result::Result<LogObject, String>,
}

async fn last_object(bucket: &Bucket) -> Result<Option<Last>> {
    let listed = bucket.list(keys::LOG).await?;
    let number = listed.iter().filter_map(|(key, _)| match key {
        Key::Log { number } => Some(*number),
        _ => None,
    });
    let Some(number) = number.max() else { return Ok(None) };
    let Some(stored) = bucket.get(Key::Log { number }).await? else { return Ok(None) };
    let object = LogObject::decode(bucket, number, &stored).map_err(|error| error.to_string());
    Ok(Some(Last { number, object }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_only_this_machine_has_is_thrown_away() {
        let local = |durable, copied| Some(Local { durable, copied });
        assert_eq!(decide(None, Log::None, false), Step::Lost);
        assert_eq!(decide(None, Log::Theirs, false), Step::Rebuild);
        assert_eq!(decide(local(5, None), Log::None, false), Step::Adopt);
        assert_eq!(decide(local(5, Some(5)), Log::Ours, false), Step::Use);
        assert_eq!(decide(local(5, None), Log::OursDamaged, false), Step::Adopt);
        assert_eq!(decide(local(5, Some(5)), Log::Theirs, false), Step::Rebuild);
        assert_eq!(decide(local(5, Some(5)), Log::Theirs, true), Step::Adopt);
        for copied in [None, Some(4), Some(6)] {
            assert_eq!(decide(local(5, copied), Log::Theirs, false), Step::RebuildAside);
        }
    }
}
