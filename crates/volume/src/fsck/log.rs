//! The metadata's log in the store: could it bring the volume back?

use futures::{StreamExt, stream};
use headrace_metalog::object::{LogObject, Manifest, ObjectHash, Owner, PartRecords};
use headrace_metalog::restore::{self, RestoreError, Target};
use headrace_metalog::{Bucket, Key, MetalogError, keys};

use super::report::Recorder;
use crate::claim;
use crate::error::Result;
use crate::open::Volume;
use crate::progress::{Progress, ProgressFn, Unit};

/// Objects read side by side.
const CONCURRENCY: usize = 8;

const WRITTEN_ANEW: &str =
    "the metadata on this machine is what counts; mount the volume here, which writes to the log anew";
const ONLY_HERE: &str = "keep the metadata on this machine safe: it is the only copy; mount the volume here, which writes the log anew";

/// Reads every object of the log (with `data` also the parts of snapshots), reports what is damaged, and says whether the
/// store alone could bring the metadata back.
pub(super) async fn check(
    volume: &Volume,
    data: bool,
    progress: &ProgressFn<'_>,
    recorder: &mut Recorder<'_>,
) -> Result<()> {
    let bucket =
        claim::bucket(std::sync::Arc::clone(&volume.store), volume.codec.clone(), &volume.superblock);
    let mut listed = Vec::new();
    for prefix in [keys::OWNERS, keys::LOG, keys::SNAPSHOTS] {
        listed.extend(bucket.list(prefix).await?.into_iter().map(|(key, _)| key));
    }
    if !data {
        listed.retain(|key| !matches!(key, Key::SnapshotPart { .. }));
    }
    let total = listed.len() as u64;
    let mut reads = stream::iter(listed).map(|key| read(&bucket, key)).buffered(CONCURRENCY);
    let mut before: Option<(u64, ObjectHash)> = None;
    while let Some((key, verdict)) = reads.next().await {
        recorder.report.log_objects += 1;
        let done = recorder.report.log_objects;
        progress(Progress { phase: "checking the log", done, total, unit: Unit::Items });
        match verdict {
            // Trimmed since the listing.
            Verdict::Gone => {}
            Verdict::Sound(hash, prev) => {
                if let Some(number) = key.number() {
                    let fits = before
                        .is_none_or(|(last, hash)| last.checked_add(1) == Some(number) && Some(hash) == prev);
                    if !fits {
                        recorder.error("log", format!("{key} does not follow the object of the log before it: one was removed, exchanged or changed"), WRITTEN_ANEW);
                    }
                    before = Some((number, hash));
                }
            }
            Verdict::Damaged(detail) => {
                recorder.error("log", detail, WRITTEN_ANEW);
                // What follows cannot be compared with it.
                if key.number().is_some() {
                    before = None;
                }
            }
            Verdict::Failed(error) => return Err(error.into()),
        }
    }
    if total == 0 {
        return Ok(());
    }
    let found = if data {
        restore::check(&bucket, Target::Latest, &|_| ()).await
    } else {
        restore::locate(&bucket, Target::Latest, &|_| ()).await
    };
    match found {
        Ok(restored) => {
            recorder.report.restorable = Some(humantime::format_rfc3339_millis(restored.at).to_string());
            for warning in restored.warnings {
                recorder.warning("log", warning, WRITTEN_ANEW);
            }
        }
        Err(RestoreError::Store(error)) => return Err(error.into()),
        Err(error) => recorder.error(
            "not-restorable",
            format!("the store alone could not bring the metadata back: {error}"),
            ONLY_HERE,
        ),
    }
    Ok(())
}

enum Verdict {
    /// Its hash, and of an object of the log the one before it.
    Sound(ObjectHash, Option<ObjectHash>),
    Damaged(String),
    Gone,
    Failed(headrace_store::StoreError),
}

async fn read(bucket: &Bucket, key: Key) -> (Key, Verdict) {
    let stored = match bucket.get(key).await {
        Ok(Some(stored)) => stored,
        Ok(None) => return (key, Verdict::Gone),
        Err(error) => return (key, Verdict::Failed(error)),
    };
    let sound = match key {
        Key::Owner { epoch } => Owner::decode(bucket, epoch, &stored).map(|_| None),
        Key::Log { number } => LogObject::decode(bucket, number, &stored).map(|object| Some(object.prev)),
        Key::SnapshotManifest { snapshot } => Manifest::decode(bucket, snapshot, &stored).map(|_| None),
        Key::SnapshotPart { snapshot, part } => PartRecords::decode(bucket, snapshot, part, &stored)
            .and_then(|records| records.for_each(|_, _| Ok::<(), MetalogError>(())))
            .map(|()| None),
    };
    let verdict = match sound {
        Ok(prev) => Verdict::Sound(ObjectHash::of(&stored), prev),
        Err(error) => Verdict::Damaged(error.to_string()),
    };
    (key, verdict)
}
