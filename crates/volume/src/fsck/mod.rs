//! Checking a volume: metadata with itself, segments with the store, and on request every byte of every file.
//!
//! Nothing is changed. The volume may be in use by this process meanwhile: what looks wrong is looked at a second time
//! before it is reported.

mod contents;
mod log;
mod objects;
mod report;

use std::sync::Arc;

use headrace_meta::{CheckSummary, Problem, ProblemKind};
use tokio::sync::mpsc;

use crate::error::{Result, VolumeError};
use crate::open::Volume;
use crate::progress::{Progress, ProgressFn, Unit};
use report::Recorder;

pub use report::{
    DAMAGED_KEPT, DamagedFile, FINDINGS_KEPT, Finding, FindingSink, FsckReport, Level, LostRange,
};

/// How thoroughly to check.
#[derive(Clone, Copy, Debug, Default)]
pub struct FsckOptions {
    /// Read everything and verify checksums; costs a read of the whole volume.
    pub data: bool,
}

/// Checks `volume`. Findings go to `sink` as they are made. Fails only if the check itself cannot go on.
pub async fn fsck<'a>(
    volume: &Volume,
    options: FsckOptions,
    progress: &ProgressFn<'_>,
    sink: &'a mut FindingSink<'a>,
) -> Result<FsckReport> {
    let mut recorder = Recorder::new(options.data, sink);
    progress(Progress { phase: "checking metadata", done: 0, total: 0, unit: Unit::Items });
    let summary = check_metadata(volume, &mut recorder).await?;
    recorder.report.add_summary(&summary);
    let lost = objects::check(volume, progress, &mut recorder).await?;
    if options.data || !lost.is_empty() {
        contents::check(volume, options.data, &lost, summary.bytes, progress, &mut recorder).await?;
    }
    log::check(volume, options.data, progress, &mut recorder).await?;
    Ok(recorder.report)
}

/// Runs the namespace's own check beside the async runtime, because it is long and does not yield.
async fn check_metadata(volume: &Volume, recorder: &mut Recorder<'_>) -> Result<CheckSummary> {
    let (problems, mut found) = mpsc::channel::<Problem>(64);
    let meta = Arc::clone(&volume.meta);
    let check = tokio::task::spawn_blocking(move || {
        meta.check(&mut |problem| {
            // Fails only when this future was dropped: then nobody wants the rest.
            let _ = problems.blocking_send(problem);
        })
    });
    while let Some(problem) = found.recv().await {
        let (kind, remedy) = explain(&problem.kind);
        recorder.add(Finding { level: problem.severity.into(), kind, message: problem.message, remedy });
    }
    let summary = check
        .await
        .map_err(|e| VolumeError::System { operation: "checking metadata", detail: e.to_string() })?;
    Ok(summary?)
}

const RESTORE: &str = "put it in order with `headrace fsck --repair` (--dry-run says first what that does)";
const HARMLESS: &str =
    "no data is at risk: `headrace fsck --repair` corrects it; please report it, since it should not happen";

/// A fixed word for a problem, and what to do.
fn explain(kind: &ProblemKind) -> (&'static str, &'static str) {
    match kind {
        ProblemKind::Undecodable => ("undecodable", RESTORE),
        ProblemKind::MissingInode(_) => ("missing-inode", RESTORE),
        ProblemKind::WrongKind(_) => ("wrong-kind", RESTORE),
        ProblemKind::Index(_) => ("directory-index", RESTORE),
        ProblemKind::Cookie(_) => ("directory-cookie", RESTORE),
        ProblemKind::LinkCount(_) => ("link-count", HARMLESS),
        ProblemKind::Home(_) => ("home", HARMLESS),
        ProblemKind::Link(_) => ("link", HARMLESS),
        ProblemKind::Unreachable(_) => ("unreachable", RESTORE),
        ProblemKind::DirectoryShape(_) => ("directory-shape", RESTORE),
        ProblemKind::Orphan(_) => ("orphan", HARMLESS),
        ProblemKind::Trash(_) => ("trash", HARMLESS),
        ProblemKind::DirectoryTotals(_) => ("directory-totals", HARMLESS),
        ProblemKind::Counters => ("counters", HARMLESS),
        ProblemKind::Allocated(_) => ("allocated", HARMLESS),
        ProblemKind::PastEnd(_) => ("past-end", RESTORE),
        ProblemKind::Stray(_) => ("stray", HARMLESS),
        ProblemKind::Xattr(_) => ("xattr", RESTORE),
        ProblemKind::MissingInline(_) => ("missing-inline", RESTORE),
        ProblemKind::Inline(_) => ("inline", HARMLESS),
        ProblemKind::UnknownSegment(_) => (
            "unknown-segment",
            "do not run `headrace gc` before `headrace fsck --repair`: it would take the segment for garbage",
        ),
        ProblemKind::SegmentLive(_) => (
            "segment-live",
            "do not run `headrace gc` before `headrace fsck --repair`: a segment counted too low could be taken for garbage",
        ),
        ProblemKind::DeadQueue(_) => ("dead-queue", HARMLESS),
        _ => ("metadata", RESTORE),
    }
}
