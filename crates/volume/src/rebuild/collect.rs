//! First step: the indexes of all segments.

use futures::{StreamExt, TryStreamExt, stream};

use super::staging::Staging;
use super::{DAMAGED_KEPT, RebuildReport};
use crate::error::{Result, VolumeError};
use crate::found::Found;
use crate::keys::{self, Owner};
use crate::progress::{Progress, ProgressFn, Unit};
use crate::segment_index::read_index_of;

/// Indexes read side by side.
const CONCURRENCY: usize = 16;
/// Segments taken in hand before it is made sure that what they told is on disk.
const BATCH: usize = 1024;

pub(super) async fn collect(
    source: &Found,
    staging: &Staging,
    progress: &ProgressFn<'_>,
    report: &mut RebuildReport,
) -> Result<()> {
    if !staging.is_listed()? {
        list(source, staging, progress).await?;
    }
    let total = staging.count(b'S')?;
    let mut done = 0;
    loop {
        let batch = staging.unread(BATCH)?;
        if batch.is_empty() {
            break;
        }
        let mut indexes = stream::iter(batch)
            .map(|(id, stored)| async move {
                let (store, codec) = (&*source.store, &source.codec);
                (id, stored, read_index_of(store, codec, source.superblock.uuid, id, stored).await)
            })
            .buffer_unordered(CONCURRENCY);
        while let Some((id, stored, read)) = indexes.next().await {
            match read {
                Ok(index) => staging.add_index(&index, stored)?,
                Err(error) if error.is_damage() => {
                    tracing::error!(segment = %id, %error, "a segment cannot be used");
                    staging.set_unusable(id, &unusable(&id.object_key(), &error))?;
                }
                Err(error) => return Err(error),
            }
            done += 1;
            progress(Progress { phase: "reading indexes of segments", done, total, unit: Unit::Items });
            tokio::task::yield_now().await;
        }
        staging.sync().await?;
    }
    report.segments = staging.count(b'T')?;
    report.damaged_segments = staging.count(b'X')?;
    report.damaged = staging.unusable(DAMAGED_KEPT)?;
    Ok(())
}

fn unusable(key: &str, error: &VolumeError) -> String {
    format!("{key}: {error}")
}

async fn list(source: &Found, staging: &Staging, progress: &ProgressFn<'_>) -> Result<()> {
    let mut listing = source.store.list(keys::SEGMENTS);
    let (mut batch, mut seen) = (Vec::new(), 0u64);
    while let Some(object) = listing.try_next().await? {
        if let Owner::Segment(id) = keys::owner(&object.key) {
            batch.push((id, object.size));
            seen += 1;
        }
        if batch.len() >= BATCH {
            staging.add_segments(&batch)?;
            batch.clear();
            progress(Progress { phase: "listing segments", done: seen, total: 0, unit: Unit::Items });
        }
    }
    staging.add_segments(&batch)?;
    staging.set_listed()?;
    staging.sync().await
}
