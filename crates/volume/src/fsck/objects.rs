//! Segments in metadata against objects in the store.

use std::collections::{HashMap, HashSet};

use futures::TryStreamExt;
use headrace_layout::SegmentId;
use headrace_meta::{LOST_SEGMENT, SegmentUse};
use headrace_store::ErrorKind;

use super::report::Recorder;
use crate::error::Result;
use crate::keys::{self, Owner};
use crate::open::Volume;
use crate::progress::{Progress, ProgressFn, Unit};

/// Objects held in memory at once; about 48 bytes each.
const OBJECTS_PER_PASS: u64 = 1 << 20;
/// Segments asked for at once.
const BATCH: usize = 4096;
/// Key prefixes that segments are spread over.
const PREFIXES: u64 = 256;

const LOST: &str = "restore the object from a copy of the store, or delete the files named below";

/// Reports objects that are missing, too short, unknown or foreign; returns the segments whose bytes are lost.
pub(super) async fn check(
    volume: &Volume,
    progress: &ProgressFn<'_>,
    recorder: &mut Recorder<'_>,
) -> Result<HashSet<SegmentId>> {
    let total = recorder.report.segments;
    let passes = total.div_ceil(OBJECTS_PER_PASS).clamp(1, PREFIXES);
    let mut lost = HashSet::new();
    let mut done = 0;
    for pass in 0..passes {
        let objects = list(volume, pass, passes, recorder).await?;
        let mut after = None;
        loop {
            let batch = volume.meta.segments(after, BATCH)?;
            let Some(last) = batch.last() else { break };
            after = Some(last.id);
            for segment in batch.into_iter().filter(|s| pass_of(s.id, passes) == pass) {
                if is_lost(volume, &segment, objects.get(&segment.id).copied(), recorder).await? {
                    lost.insert(segment.id);
                }
                done += 1;
                if done % 256 == 0 {
                    progress(Progress { phase: "checking segments", done, total, unit: Unit::Items });
                    tokio::task::yield_now().await;
                }
            }
        }
        for (id, size) in objects {
            // Asked after the listing: a segment that was committed in between is known.
            if volume.meta.segment(id)?.is_none() && !volume.pending.contains(id) {
                recorder.report.orphans += 1;
                recorder.report.orphan_bytes = recorder.report.orphan_bytes.saturating_add(size);
            }
        }
    }
    progress(Progress { phase: "checking segments", done, total, unit: Unit::Items });
    if recorder.report.foreign > 0 {
        let message = format!("{} objects in segments/ are not segments", recorder.report.foreign);
        recorder.warning("foreign", message, "remove them from the store if nothing else needs them");
    }
    Ok(lost)
}

/// Which pass a segment is checked in: by its key's prefix, so that a pass lists only what it needs.
fn pass_of(id: SegmentId, passes: u64) -> u64 {
    prefix_number(id) * passes / PREFIXES
}

fn prefix_number(id: SegmentId) -> u64 {
    let key = id.object_key();
    let digits = key.get(keys::SEGMENTS.len()..keys::SEGMENTS.len() + 2);
    digits.and_then(|d| u64::from_str_radix(d, 16).ok()).unwrap_or(0)
}

/// The objects of a pass and their sizes.
async fn list(
    volume: &Volume,
    pass: u64,
    passes: u64,
    recorder: &mut Recorder<'_>,
) -> Result<HashMap<SegmentId, u64>> {
    let prefixes: Vec<String> = if passes == 1 {
        vec![keys::SEGMENTS.to_owned()]
    } else {
        let mine = (0..PREFIXES).filter(|prefix| prefix * passes / PREFIXES == pass);
        mine.map(|prefix| format!("{}{prefix:02x}/", keys::SEGMENTS)).collect()
    };
    let mut objects = HashMap::new();
    for prefix in prefixes {
        let mut listing = volume.store.list(&prefix);
        while let Some(object) = listing.try_next().await? {
            match keys::owner(&object.key) {
                Owner::Segment(id) => {
                    objects.insert(id, object.size);
                }
                _ => recorder.report.foreign += 1,
            }
        }
    }
    Ok(objects)
}

/// Whether bytes that are in use are not in the store.
async fn is_lost(
    volume: &Volume,
    segment: &SegmentUse,
    listed: Option<u64>,
    recorder: &mut Recorder<'_>,
) -> Result<bool> {
    if segment.live == 0 || listed.is_some_and(|size| size >= segment.stored) {
        return Ok(false);
    }
    if segment.id == LOST_SEGMENT {
        // No object was ever there: the files are named, and that is all.
        return Ok(true);
    }
    // It may have been written after the listing, or died since.
    let size = match volume.store.head(&segment.id.object_key()).await {
        Ok(object) => Some(object.size),
        Err(e) if e.kind == ErrorKind::NotFound => None,
        Err(e) => return Err(e.into()),
    };
    let still_used = volume.meta.segment(segment.id)?.is_some_and(|s| s.live > 0);
    if !still_used || size.is_some_and(|size| size >= segment.stored) {
        return Ok(false);
    }
    let key = segment.id.object_key();
    match size {
        None => {
            recorder.report.missing_segments += 1;
            let message = format!("{key} is not in the store, but files use {} bytes of it", segment.live);
            recorder.error("missing-segment", message, LOST);
        }
        Some(size) => {
            recorder.report.short_segments += 1;
            let message = format!(
                "{key} has {size} bytes, but {} were written and files use {} of them",
                segment.stored, segment.live
            );
            recorder.error("short-segment", message, LOST);
        }
    }
    Ok(true)
}
