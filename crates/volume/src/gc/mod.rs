//! Garbage collection: dead segments, and objects that nobody knows.
//!
//! Two kinds of garbage, one order each, so that a crash at any step costs at most some space:
//!
//! * A **dead segment** is known to metadata and nothing refers to it. That it is dead must be durable first (else a crash
//!   or the loss of this machine brings back the file that used it), here and in the bucket; then its object is deleted;
//!   then metadata forgets it. A crash in between leaves a record without an object, which the next round forgets. Once dead a segment stays dead: extents are shared only
//!   from extents that exist.
//! * An **orphan** is an object that metadata does not know: an upload whose commit never came. It is deleted when both
//!   its id and the store's own time are older than the grace and this process is not writing it.
//!
//! Both wait for the volume's retention as well: until then a restore to an earlier time may need them. And nothing is deleted by one
//! who cannot be sure to own the volume: whoever has taken it over may use what looks like garbage here.

mod policy;

use std::time::{Duration, SystemTime};

use futures::{StreamExt, TryStreamExt, stream};
use headrace_layout::SegmentId;
use headrace_meta::Time;
use serde::Serialize;

use crate::error::{Result, VolumeError};
use crate::keys::{self, Owner};
use crate::open::Volume;
use crate::progress::{Progress, ProgressFn, Unit};

pub use policy::{DEFAULT_GRACE, UNDATED_GRACE};
use policy::{Sighting, Verdict, is_dead_long_enough, judge};

/// Segments handled at once: bounds memory, and what one crash leaves to do again.
const BATCH: usize = 1000;
/// Deletes in flight: at 20 ms each, 25 GiB of segments a second.
const CONCURRENCY: usize = 32;
/// Objects named by a dry run, at most.
pub const NAMED_MAX: usize = 10_000;

/// An object that a collection would delete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Garbage {
    /// Its key in the store.
    pub key: String,
    /// Its bytes there.
    pub bytes: u64,
    /// Why it is garbage.
    pub why: Why,
    /// Since when: the death of a segment, the writing of an orphan. RFC 3339, UTC.
    pub since: String,
}

/// Why an object is garbage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Why {
    /// No file uses it any more.
    Dead,
    /// Metadata does not know it: an upload that was given up.
    Unknown,
}

/// What a collection did, or would do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GcReport {
    /// Nothing was deleted: the figures say what would be.
    pub dry_run: bool,
    /// Dead segments deleted.
    pub dead_segments: u64,
    /// Their bytes in the store.
    pub dead_bytes: u64,
    /// Objects unknown to metadata that were deleted.
    pub orphans: u64,
    /// Their bytes.
    pub orphan_bytes: u64,
    /// Objects unknown to metadata that are too young to be deleted.
    pub young: u64,
    /// Their bytes.
    pub young_bytes: u64,
    /// Objects in `segments/` that are no segments: they stay.
    pub foreign: u64,
    /// Dead segments that are younger than the grace or the retention.
    pub waiting: u64,
    /// Their bytes.
    pub waiting_bytes: u64,
    /// In a dry run what would go, up to [`NAMED_MAX`] objects.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<Garbage>,
}

impl GcReport {
    fn name(&mut self, id: SegmentId, bytes: u64, why: Why, since: SystemTime) {
        if self.objects.len() < NAMED_MAX {
            let since = humantime::format_rfc3339_seconds(since).to_string();
            self.objects.push(Garbage { key: id.object_key(), bytes, why, since });
        }
    }
}

/// Deletes garbage that is older than `grace` ([`DEFAULT_GRACE`] unless there is a reason) and than the volume's retention.
pub async fn gc(
    volume: &Volume,
    grace: Duration,
    dry_run: bool,
    progress: &ProgressFn<'_>,
) -> Result<GcReport> {
    gc_at(volume, SystemTime::now(), grace, dry_run, progress).await
}

/// [`gc`] as if the time were `now`.
pub async fn gc_at(
    volume: &Volume,
    now: SystemTime,
    grace: Duration,
    dry_run: bool,
    progress: &ProgressFn<'_>,
) -> Result<GcReport> {
    if !dry_run {
        volume.writable("collect garbage")?;
    }
    let mut report = GcReport { dry_run, ..GcReport::default() };
    let grace = grace.max(volume.retention);
    if dry_run {
        count_dead(volume, now, grace, &mut report, progress)?;
    } else {
        delete_dead(volume, now, grace, &mut report, progress).await?;
    }
    sweep_orphans(volume, now, grace, &mut report, progress).await?;
    Ok(report)
}

/// Deletes dead segments only: no listing, so cheap enough to run often.
pub async fn gc_dead(volume: &Volume, now: SystemTime, grace: Duration) -> Result<GcReport> {
    volume.writable("collect garbage")?;
    let mut report = GcReport::default();
    delete_dead(volume, now, grace.max(volume.retention), &mut report, &crate::progress::silent).await?;
    Ok(report)
}

async fn delete_dead(
    volume: &Volume,
    now: SystemTime,
    grace: Duration,
    report: &mut GcReport,
    progress: &ProgressFn<'_>,
) -> Result<()> {
    let before = Time::from(now).before(grace);
    // The queue begins with those that were left alone, so ask for that many more.
    let mut left_alone = 0;
    loop {
        let ids = volume.meta.dead_segments(before, BATCH.saturating_add(left_alone))?;
        if ids.len() > left_alone {
            // In the bucket too: from it the volume may be restored.
            volume.flush().await?;
        }
        let (ripe, bytes) = ripe(volume, &ids, now, grace)?;
        left_alone = ids.len() - ripe.len();
        if ripe.is_empty() {
            return Ok(());
        }
        still_ours(volume)?;
        let deleted = delete(volume, &ripe).await;
        // Forget what is gone even if some deletes failed; the rest is tried again next time.
        let done: Vec<SegmentId> =
            deleted.iter().filter_map(|(id, result)| result.is_ok().then_some(*id)).collect();
        volume.meta.forget_segments(&done)?;
        report.dead_segments += done.len() as u64;
        report.dead_bytes += bytes;
        let done = report.dead_segments;
        progress(Progress { phase: "deleting dead segments", done, total: 0, unit: Unit::Items });
        if let Some((_, Err(e))) = deleted.into_iter().find(|(_, result)| result.is_err()) {
            return Err(e.into());
        }
    }
}

/// Those of `ids` that may be deleted, and their stored bytes.
fn ripe(
    volume: &Volume,
    ids: &[SegmentId],
    now: SystemTime,
    grace: Duration,
) -> Result<(Vec<SegmentId>, u64)> {
    let (mut ripe, mut bytes) = (Vec::new(), 0u64);
    for &id in ids {
        // Looked up again: the queue is a hint, this is the state that decides.
        let Some(segment) = volume.meta.segment(id)? else { continue };
        let Some(since) = segment.dead_since else { continue };
        let long_enough = is_dead_long_enough(id.created(), since.into(), now, grace);
        if segment.live == 0 && long_enough && !volume.pending.contains(id) {
            ripe.push(id);
            bytes = bytes.saturating_add(segment.stored);
        }
    }
    Ok((ripe, bytes))
}

async fn delete(
    volume: &Volume,
    ids: &[SegmentId],
) -> Vec<(SegmentId, std::result::Result<(), headrace_store::StoreError>)> {
    stream::iter(ids.iter().copied())
        .map(|id| async move { (id, volume.store.delete(&id.object_key()).await) })
        .buffer_unordered(CONCURRENCY)
        .collect()
        .await
}

fn count_dead(
    volume: &Volume,
    now: SystemTime,
    grace: Duration,
    report: &mut GcReport,
    progress: &ProgressFn<'_>,
) -> Result<()> {
    let mut after = None;
    let mut seen = 0;
    loop {
        let batch = volume.meta.segments(after, BATCH)?;
        let Some(last) = batch.last() else { return Ok(()) };
        after = Some(last.id);
        seen += batch.len() as u64;
        for segment in batch {
            let Some(since) = segment.dead_since else { continue };
            if segment.live > 0 || volume.pending.contains(segment.id) {
                continue;
            }
            if is_dead_long_enough(segment.id.created(), since.into(), now, grace) {
                report.dead_segments += 1;
                report.dead_bytes = report.dead_bytes.saturating_add(segment.stored);
                report.name(segment.id, segment.stored, Why::Dead, since.into());
            } else {
                report.waiting += 1;
                report.waiting_bytes = report.waiting_bytes.saturating_add(segment.stored);
            }
        }
        progress(Progress { phase: "looking for dead segments", done: seen, total: 0, unit: Unit::Items });
    }
}

/// Lists the store and deletes what nobody knows. Metadata is asked after the listing, so an object whose commit came in
/// between is known.
async fn sweep_orphans(
    volume: &Volume,
    now: SystemTime,
    grace: Duration,
    report: &mut GcReport,
    progress: &ProgressFn<'_>,
) -> Result<()> {
    let mut listing = volume.store.list(keys::SEGMENTS);
    let mut seen = 0u64;
    let mut orphans: Vec<SegmentId> = Vec::new();
    while let Some(object) = listing.try_next().await? {
        seen += 1;
        if seen.is_multiple_of(256) {
            progress(Progress { phase: "looking for orphans", done: seen, total: 0, unit: Unit::Items });
            // A local store never waits: let others have the thread.
            tokio::task::yield_now().await;
        }
        let Owner::Segment(id) = keys::owner(&object.key) else {
            report.foreign += 1;
            continue;
        };
        let sighting = Sighting {
            created: id.created(),
            modified: object.modified,
            pending: volume.pending.contains(id),
            known: volume.meta.segment(id)?.is_some(),
        };
        match judge(sighting, now, grace) {
            Verdict::Keep => {}
            Verdict::Young => {
                report.young += 1;
                report.young_bytes = report.young_bytes.saturating_add(object.size);
            }
            Verdict::Orphan => {
                report.orphans += 1;
                report.orphan_bytes = report.orphan_bytes.saturating_add(object.size);
                if report.dry_run {
                    let since = object.modified.unwrap_or_else(|| id.created());
                    report.name(id, object.size, Why::Unknown, since);
                } else {
                    orphans.push(id);
                }
            }
        }
        if orphans.len() >= BATCH {
            delete_all(volume, &orphans).await?;
            orphans.clear();
        }
    }
    delete_all(volume, &orphans).await?;
    progress(Progress { phase: "looking for orphans", done: seen, total: seen, unit: Unit::Items });
    Ok(())
}

/// Fails if somebody else may own the volume by now: to that one these objects may be dear.
fn still_ours(volume: &Volume) -> Result<()> {
    match volume.log() {
        Some(log) if !log.is_valid() => Err(VolumeError::LeaseLapsed { url: volume.url().to_owned() }),
        _ => Ok(()),
    }
}

async fn delete_all(volume: &Volume, ids: &[SegmentId]) -> Result<()> {
    if !ids.is_empty() {
        still_ours(volume)?;
    }
    for (_, result) in delete(volume, ids).await {
        result?;
    }
    Ok(())
}
