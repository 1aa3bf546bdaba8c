//! Files that are brought into the cache before they are needed, looked at or dropped, for a command that watches.

mod bucket;
mod pacing;

use std::sync::Arc;

use headrace_vfs::{InodeNo, Vfs};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::task::{JoinError, JoinSet};
use tokio::time::MissedTickBehavior;

use self::pacing::Pacing;
use super::control::protocol::PROGRESS_INTERVAL;
use super::control::server::Steps;
use crate::failure::{self, Context, Failure};

/// Files under way at a time: enough that small ones do not wait for one another's way to the store. How much of large ones is
/// fetched at a time is decided where it is fetched.
const AT_ONCE: usize = 16;

/// What is done with files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// Fetch what is missing.
    Fill,
    /// The same, and keep it.
    Pin,
    /// See what is there.
    Check,
    /// Drop what is there.
    Evict,
}

/// What a command wants done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// What to do.
    pub work: Work,
    /// Inodes of regular files.
    pub files: Vec<u64>,
    /// Most bytes a second to fetch.
    pub rate: Option<u64>,
}

/// What happened since the part before.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Bytes dealt with since the request came, of files that are under way too.
    pub bytes: u64,
    /// Files that are done.
    pub files: Vec<Outcome>,
}

/// What came of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Its place among those asked for, from 0.
    pub index: usize,
    /// Its length; of what was dropped, so many bytes.
    pub bytes: u64,
    /// Bytes of it that are cached now.
    pub cached: u64,
    /// Why it could not be done.
    pub error: Option<String>,
}

/// Does it, and tells the command file by file. Ends early when the command goes away or the mount has `ended`: what is under
/// way is given up then.
pub async fn run(
    vfs: &Arc<Vfs>,
    wanted: &Wanted,
    ended: &(dyn Fn() -> bool + Send + Sync),
    steps: &Steps,
) -> Result<Value, Failure> {
    if vfs.cache_status().is_none() {
        return Err(Failure::new("there is no cache"));
    }
    let pacing = Arc::new(Pacing::new(wanted.rate));
    let mut waiting = wanted.files.iter().enumerate();
    let mut running = JoinSet::new();
    let mut done = Vec::new();
    let mut ticks = tokio::time::interval(PROGRESS_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        while running.len() < AT_ONCE {
            let Some((index, ino)) = waiting.next() else { break };
            start(&mut running, vfs, wanted.work, index, InodeNo(*ino), &pacing);
        }
        tokio::select! {
            finished = running.join_next() => match finished {
                Some(finished) => done.push(outcome(finished)?),
                None => break,
            },
            _ = ticks.tick() => {
                if ended() {
                    return Err(Failure::new("the volume was unmounted before all was done"));
                }
                let part = Part { bytes: pacing.bytes(), files: std::mem::take(&mut done) };
                if !steps.part(&part).await? {
                    return Ok(Value::Null);
                }
            }
        }
    }
    // What is asked next is to be true of this.
    let settled = Arc::clone(vfs);
    tokio::task::spawn_blocking(move || settled.settle_cache())
        .await
        .context(|| "the cache broke off".to_owned())?;
    steps.part(&Part { bytes: pacing.bytes(), files: done }).await?;
    Ok(Value::Null)
}

fn outcome(finished: Result<Outcome, JoinError>) -> Result<Outcome, Failure> {
    finished.context(|| "a file was cut short".to_owned())
}

/// Starts with one file. Aborted with the set, what waits for the store or for its turn ends at once.
fn start(
    running: &mut JoinSet<Outcome>,
    vfs: &Arc<Vfs>,
    work: Work,
    index: usize,
    ino: InodeNo,
    pacing: &Arc<Pacing>,
) {
    let (vfs, pacing) = (Arc::clone(vfs), Arc::clone(pacing));
    let of = move |result: headrace_vfs::Result<(u64, u64)>| match result {
        Ok((bytes, cached)) => Outcome { index, bytes, cached, error: None },
        Err(error) => Outcome { index, bytes: 0, cached: 0, error: Some(failure::flatten(None, &error)) },
    };
    match work {
        Work::Fill | Work::Pin => running.spawn(async move {
            let warmth = vfs.warm(ino, work == Work::Pin, &*pacing).await;
            of(warmth.map(|warmth| (warmth.bytes, warmth.cached)))
        }),
        Work::Check => {
            running.spawn_blocking(move || of(vfs.warmth(ino).map(|warmth| (warmth.bytes, warmth.cached))))
        }
        Work::Evict => running.spawn_blocking(move || of(vfs.cool(ino).map(|dropped| (dropped, 0)))),
    };
}
