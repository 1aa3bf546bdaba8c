//! Second step: directories, then file by file the data.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use headrace_kv::Engine;
use headrace_layout::InodeNo;
use headrace_meta::{DataCommit, MAX_FILE_SIZE, MetaError, Namespace, NewData, NewExtent, Time};

use super::names::Places;
use super::staging::{Part, Staging};
use super::{RebuildReport, synced};
use crate::error::{Result, VolumeError};
use crate::progress::{Progress, ProgressFn, Unit};

/// Parts put into a file in one transaction.
const PARTS: usize = 512;
/// Files after which it is made sure that all is on disk.
const FILES: u64 = 1024;

pub(super) async fn build(
    staging: &Staging,
    dir: &Path,
    progress: &ProgressFn<'_>,
    report: &mut RebuildReport,
) -> Result<()> {
    let engine = super::engine(dir)?;
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    match Namespace::format(&*engine, uid, gid, 0o755) {
        Ok(()) | Err(MetaError::Exists) => {}
        Err(error) => return Err(error.into()),
    }
    let namespace = Namespace::open(Arc::clone(&engine) as Arc<dyn Engine>)?;
    if let Some((_, root)) = staging.directory(InodeNo::ROOT)? {
        namespace.rebuild_root(&root)?;
    }
    reserve_numbers(staging.choose_names()?, &namespace)?;
    let mut places = Places::new(staging, &namespace);
    build_directories(staging, &mut places).await?;
    build_files(staging, &namespace, &engine, &mut places, progress).await?;
    let totals = namespace.statfs()?;
    report.bytes = totals.bytes;
    count(&namespace, report)?;
    synced(&*engine).await?;
    drop(namespace);
    Ok(engine.close()?)
}

/// Inode numbers left out behind the highest that is known: some may have been given to files that never were stored.
const GAP: u64 = 1 << 20;

/// New inodes get numbers that no old one has.
fn reserve_numbers(last: InodeNo, namespace: &Namespace) -> Result<()> {
    let Some(reserved) = last.0.checked_add(GAP) else {
        return Err(VolumeError::System {
            operation: "rebuilding",
            detail: format!("a segment names inode {last}, which cannot be"),
        });
    };
    Ok(namespace.rebuild_reserve(InodeNo(reserved))?)
}

/// Directories that segments name, each below the one it was in.
async fn build_directories(staging: &Staging, places: &mut Places<'_>) -> Result<()> {
    let mut after = InodeNo::ROOT;
    loop {
        let batch = staging.directories(after, PARTS)?;
        let Some(last) = batch.last() else { return Ok(()) };
        after = *last;
        for ino in batch {
            places.directory(ino)?;
        }
        // The engine need not wait, but others want the thread.
        tokio::task::yield_now().await;
    }
}

async fn build_files(
    staging: &Staging,
    namespace: &Namespace,
    engine: &Arc<headrace_kv::embedded::EmbeddedEngine>,
    places: &mut Places<'_>,
    progress: &ProgressFn<'_>,
) -> Result<()> {
    let mut built = staging.built()?;
    let mut done = 0u64;
    while let Some(ino) = staging.next_file(built)? {
        match places.file(ino) {
            Ok(_) => fill(staging, namespace, ino)?,
            Err(VolumeError::Meta(MetaError::Invalid(why))) => {
                tracing::error!(%ino, why, "data of an impossible file is left out");
            }
            Err(error) => return Err(error),
        }
        built = ino;
        done += 1;
        if done.is_multiple_of(FILES) {
            synced(&**engine).await?;
            staging.set_built(built)?;
            progress(Progress { phase: "rebuilding files", done, total: 0, unit: Unit::Items });
            tokio::task::yield_now().await;
        }
    }
    progress(Progress { phase: "rebuilding files", done, total: done, unit: Unit::Items });
    Ok(())
}

/// Puts all runs of a file over each other, the newest last.
fn fill(staging: &Staging, namespace: &Namespace, ino: InodeNo) -> Result<()> {
    let record = staging.file(ino)?.map(|(_, record)| record);
    let mut cursor = None;
    loop {
        let parts = staging.parts(ino, cursor.take(), PARTS)?;
        let Some((last, _)) = parts.last() else { break };
        cursor = Some(last.clone());
        let mut commit = DataCommit::default();
        let mut segments = BTreeSet::new();
        let mut end = 0;
        for (_, Part { offset, len, slice }) in parts {
            let stop = offset.saturating_add(u64::from(len));
            if stop > MAX_FILE_SIZE {
                tracing::error!(%ino, offset, "data past the end of any file is left out");
                continue;
            }
            end = end.max(stop);
            segments.insert(slice.segment);
            commit.pieces.push(NewExtent { offset, len, data: NewData::Segment(slice) });
        }
        commit.new_size = Some(end);
        for id in segments {
            commit.new_segments.push((id, staging.stored(id)?));
        }
        namespace.commit_write(ino, &commit)?;
    }
    // The length that it had may reach past its data, into a hole.
    let size = record.as_ref().map_or(0, |record| record.size.min(MAX_FILE_SIZE));
    let mtime = record.map(|record| Time { secs: record.mtime_secs, nanos: record.mtime_nanos });
    namespace.commit_write(ino, &DataCommit { new_size: Some(size), mtime, ..DataCommit::default() })?;
    Ok(())
}

/// What was made.
fn count(namespace: &Namespace, report: &mut RebuildReport) -> Result<()> {
    let totals = namespace.tree_totals(InodeNo::ROOT, &mut |_| ())?;
    (report.files, report.directories) = (totals.files, totals.directories);
    if let Ok(lost) = namespace.lookup(InodeNo::ROOT, super::names::LOST_FOUND) {
        report.nameless = namespace.tree_totals(lost.ino, &mut |_| ())?.files;
    }
    Ok(())
}
