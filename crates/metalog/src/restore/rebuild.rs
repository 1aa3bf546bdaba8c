//! The restore itself: choose a base, load it, apply the log.

use headrace_kv::KvError;

use super::bases::{Anchored, Base, Listing};
use super::chain::Chain;
use super::error::When;
use super::fetch::Fetch;
use super::replay::{Problem, Replay, Step};
use super::{RestoreError, RestoreProgress, Restored, Sink, Stage, Target};
use crate::clock::unix_ms;
use crate::object::PartRecords;
use crate::snapshot::on_thread_kv;
use crate::{Bucket, Key, MetalogError, ObjectHash};

type Report<'p> = &'p (dyn Fn(RestoreProgress) + Send + Sync);

/// How often the bucket is looked at again when its owner removes what is being read.
const LOOKS: u32 = 5;

/// Builds the state of `target` in a sink. `new_sink` is called again when a snapshot turns out to be damaged half way.
pub(super) async fn rebuild<S: Sink>(
    bucket: &Bucket,
    target: Target,
    new_sink: impl Fn() -> Result<S, KvError>,
    progress: Report<'_>,
) -> Result<Restored, RestoreError> {
    let mut listing = Listing::read(bucket).await?;
    for _ in 1..LOOKS {
        let result = attempt(bucket, &listing, target, &new_sink, progress).await;
        let Err(RestoreError::Damaged { .. } | RestoreError::NoSnapshot { .. }) = result else {
            return result;
        };
        // What seems lost may have been removed for its age by an owner that is at work.
        let now = Listing::read(bucket).await?;
        if !now.has_lost_some_of(&listing) {
            return result;
        }
        listing = now;
    }
    attempt(bucket, &listing, target, &new_sink, progress).await
}

/// One attempt on what was listed.
async fn attempt<S: Sink>(
    bucket: &Bucket,
    listing: &Listing,
    target: Target,
    new_sink: &impl Fn() -> Result<S, KvError>,
    progress: Report<'_>,
) -> Result<Restored, RestoreError> {
    progress(RestoreProgress { stage: Stage::Looking, done: 0, total: 0 });
    let url = || bucket.store.url().to_owned();
    let limit = match target {
        Target::Latest => None,
        Target::At(at) => Some(unix_ms(at)),
    };
    if listing.is_empty() {
        return Err(RestoreError::NoLog { url: url() });
    }
    let mut damage = Vec::new();
    let bases = listing.bases(bucket, &mut damage).await?;
    let oldest = bases.iter().map(|base| base.manifest.at_ms).min();
    if let (Some(asked), Some(oldest)) = (limit, oldest)
        && asked < oldest
    {
        return Err(RestoreError::TooEarly { url: url(), asked: When(asked), oldest: When(oldest) });
    }
    for base in bases.iter().filter(|base| limit.is_none_or(|limit| base.manifest.at_ms <= limit)) {
        let anchored = match base.anchored(bucket).await? {
            Ok(anchored) => anchored,
            Err(detail) => {
                tracing::warn!(snapshot = %base.manifest.id, %detail, "passing over a snapshot");
                damage.push(detail);
                continue;
            }
        };
        match load(bucket, listing, base, new_sink()?, progress).await? {
            Ok(sink) => {
                let chain = Chain {
                    number: base.number,
                    hash: anchored.hash,
                    position: base.manifest.position(),
                    at_ms: base.manifest.at_ms,
                };
                let replay = Replay::new(bucket.clone(), sink, chain, limit);
                // A manifest is written when the object it is tied to is there; a reset's snapshot is written before.
                let tied = bases.iter().filter(|base| base.anchor != ObjectHash::NONE);
                let known = tied.map(|base| base.number).max().unwrap_or(0);
                return apply(replay, listing, anchored, base, known, damage, progress).await;
            }
            Err(detail) => {
                tracing::warn!(snapshot = %base.manifest.id, %detail, "passing over a damaged snapshot");
                damage.push(detail);
            }
        }
    }
    if damage.is_empty() {
        damage.extend(listing.headless());
    }
    if damage.is_empty() {
        damage.push("there is none".into());
    }
    Err(RestoreError::NoSnapshot { url: url(), damage })
}

/// Loads a snapshot. The inner error says what of it is damaged.
async fn load<S: Sink>(
    bucket: &Bucket,
    listing: &Listing,
    base: &Base,
    mut sink: S,
    progress: Report<'_>,
) -> Result<Result<S, String>, RestoreError> {
    let manifest = &base.manifest;
    let parts = match listing.parts(manifest) {
        Ok(parts) => parts,
        Err(detail) => return Ok(Err(detail)),
    };
    if !S::RECORDS {
        return Ok(Ok(sink));
    }
    let total = parts.iter().map(|(_, size)| size).sum();
    let mut done = 0;
    let mut last_key: Vec<u8> = Vec::new();
    let mut fetch = Fetch::new(bucket, parts);
    for (part, record) in (0u32..).zip(&manifest.parts) {
        progress(RestoreProgress { stage: Stage::Snapshot, done, total });
        let Some((key, size, fetched)) = fetch.next().await? else { break };
        let stored = match fetched.into_bytes() {
            Ok(stored) => stored,
            Err(detail) => return Ok(Err(format!("{key}: {detail}"))),
        };
        let (bucket, id, record) = (bucket.clone(), manifest.id, *record);
        let loaded = on_thread_kv(move || {
            if ObjectHash::of(&stored) != record.hash {
                return Ok(Err(format!("{key}: it is not what the snapshot's manifest names")));
            }
            let mut records = 0;
            let outcome =
                PartRecords::decode(&bucket, id, part, &stored).map_err(Failure::from).and_then(|part| {
                    part.for_each(|record_key, value| {
                        if records == 0 && record_key <= &last_key[..] {
                            return Err(MetalogError::damaged(
                                key,
                                "its keys are not after those of the part before",
                            )
                            .into());
                        }
                        records += 1;
                        last_key.clear();
                        last_key.extend_from_slice(record_key);
                        sink.put(record_key, value).map_err(Failure::Sink)
                    })
                });
            match outcome {
                Ok(()) if records == record.records => Ok(Ok((sink, last_key))),
                Ok(()) => Ok(Err(format!("{key}: it has {records} records, not {}", record.records))),
                Err(Failure::Object(detail)) => Ok(Err(detail)),
                Err(Failure::Sink(error)) => Err(error),
            }
        });
        (sink, last_key) = match loaded.await? {
            Ok(loaded) => loaded,
            Err(detail) => return Ok(Err(detail)),
        };
        done += size;
    }
    progress(RestoreProgress { stage: Stage::Snapshot, done, total });
    Ok(Ok(sink))
}

/// Why a part could not be loaded.
enum Failure {
    Object(String),
    Sink(KvError),
}

impl From<MetalogError> for Failure {
    fn from(error: MetalogError) -> Failure {
        Failure::Object(error.to_string())
    }
}

/// Applies the log after a snapshot, up to the target. The object numbered `known`, and so all before it, are known to have been
/// written.
async fn apply<S: Sink>(
    mut replay: Replay<S>,
    listing: &Listing,
    anchored: Anchored,
    base: &Base,
    known: u64,
    damage: Vec<String>,
    progress: Report<'_>,
) -> Result<Restored, RestoreError> {
    let mut warnings = damage;
    let mut step = Ok(Step::Next);
    if let Some(object) = anchored.object {
        (replay, step) = on_thread_kv(move || {
            let step = replay.rest_of(object);
            Ok((replay, step))
        })
        .await?;
    }
    let last = listing.log.keys().next_back().copied().unwrap_or(base.number);
    let first = base.number.saturating_add(1);
    let objects = (first..=last)
        .map(|number| (Key::Log { number }, listing.log.get(&number).copied().unwrap_or_default()));
    let total = listing.log.range(first.min(last)..=last).map(|(_, size)| size).sum();
    let mut done = 0;
    let mut fetch = Fetch::new(&replay.bucket, objects);
    while let Ok(Step::Next) = step {
        progress(RestoreProgress { stage: Stage::Log, done, total });
        let Some((_, size, fetched)) = fetch.next().await? else { break };
        (replay, step) = on_thread_kv(move || {
            let step = replay.object(fetched);
            Ok((replay, step))
        })
        .await?;
        done += size;
    }
    if let Ok(Step::Next) = step
        && replay.chain.number < known
    {
        step = Err(replay.ends_early(known));
    }
    let is_latest = match step {
        Ok(Step::Next) => true,
        Ok(Step::Reached) => false,
        Err(Problem::Sink(error)) => return Err(error.into()),
        Err(Problem::Damaged { key, detail, reached }) => {
            if !replay.reached_exactly(reached) {
                return Err(RestoreError::Damaged {
                    key,
                    detail,
                    reached: Some(When(reached)),
                    also: warnings,
                });
            }
            // The very moment that an error like this one offers: nothing older can be behind the damage.
            warnings.push(format!("{key}: {detail}; what it holds of the same millisecond is left out"));
            false
        }
    };
    let Replay { sink, chain, groups, .. } = replay;
    on_thread_kv(move || sink.finish(chain.position)).await?;
    Ok(Restored {
        position: chain.position,
        number: chain.number,
        at: When(chain.at_ms).time(),
        is_latest,
        records: base.manifest.records,
        groups,
        warnings,
    })
}
