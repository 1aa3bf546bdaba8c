//! `fsck --repair`: metadata put in order, and what is lost said.
//!
//! Data that is gone stays gone: a range whose segment is missing or damaged keeps its extent, so that reading it is an
//! error and never zeros, until the file is restored, overwritten or deleted. The report names every such file.

use std::collections::HashMap;
use std::sync::Arc;

use futures::TryStreamExt;
use headrace_layout::SegmentId;
use headrace_meta::{ProblemKind, Repair, RepairOptions as MetaOptions, RepairSummary};
use serde::Serialize;
use tokio::sync::mpsc;

use crate::error::{Result, VolumeError};
use crate::fsck::{FindingSink, FsckOptions, FsckReport, fsck};
use crate::keys::{self, Owner};
use crate::open::Volume;
use crate::progress::{Progress, ProgressFn, Unit};

/// Corrections kept in a report; all go to the sink.
pub const CORRECTIONS_KEPT: usize = 1000;

/// How to repair.
#[derive(Clone, Copy, Debug, Default)]
pub struct RepairOptions {
    /// Only say what would be done.
    pub dry_run: bool,
    /// Read everything afterwards and verify checksums, to name all files that lost data.
    pub data: bool,
}

/// Something that was corrected, or would be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Correction {
    /// What kind of correction, for programs; fixed words.
    pub what: &'static str,
    /// What was wrong and what was done, for people.
    pub message: String,
    /// Whether something of the user's is gone: a name, an attribute, bytes.
    pub loses: bool,
}

/// Receives corrections as they are decided.
pub type CorrectionSink<'a> = dyn FnMut(&Correction) + Send + 'a;

/// What a repair did, or would do.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RepairReport {
    /// Nothing was changed: this is what would be.
    pub dry_run: bool,
    /// Corrections.
    pub repairs: u64,
    /// Those among them that lose something of the user's.
    pub losses: u64,
    /// Records of the metadata written or removed.
    pub records: u64,
    /// The first [`CORRECTIONS_KEPT`] corrections.
    pub corrections: Vec<Correction>,
    /// What a check finds afterwards: what is lost. None after a dry run.
    pub after: Option<FsckReport>,
}

/// Repairs `volume`, which nobody may use meanwhile, then checks it. Corrections go to `sink` before they are made, what
/// the check finds afterwards to `findings`.
pub async fn repair<'a>(
    volume: &Volume,
    options: RepairOptions,
    progress: &ProgressFn<'_>,
    sink: &mut CorrectionSink<'_>,
    findings: &'a mut FindingSink<'a>,
) -> Result<RepairReport> {
    if !options.dry_run {
        volume.writable("repair")?;
    }
    progress(Progress { phase: "checking metadata", done: 0, total: 0, unit: Unit::Items });
    let stored = lengths(volume).await?;
    progress(Progress { phase: "repairing metadata", done: 0, total: 0, unit: Unit::Items });
    let mut report = RepairReport { dry_run: options.dry_run, ..RepairReport::default() };
    let summary = repair_metadata(volume, options.dry_run, stored, sink, &mut report).await?;
    (report.repairs, report.losses, report.records) = (summary.repairs, summary.losses, summary.records);
    if !options.dry_run {
        volume.durable().await?;
        report.after = Some(fsck(volume, FsckOptions { data: options.data }, progress, findings).await?);
    }
    Ok(report)
}

/// Lengths of all objects, if metadata may have lost the record of one; about 48 bytes of memory each.
async fn lengths(volume: &Volume) -> Result<HashMap<SegmentId, u64>> {
    let meta = Arc::clone(&volume.meta);
    let needed = beside(move || {
        let mut needed = false;
        meta.check(&mut |problem| {
            needed |= matches!(problem.kind, ProblemKind::UnknownSegment(_) | ProblemKind::Undecodable);
        })?;
        Ok(needed)
    });
    let mut lengths = HashMap::new();
    if needed.await? {
        let mut listing = volume.store.list(keys::SEGMENTS);
        while let Some(object) = listing.try_next().await? {
            if let Owner::Segment(id) = keys::owner(&object.key) {
                lengths.insert(id, object.size);
            }
        }
    }
    Ok(lengths)
}

async fn repair_metadata(
    volume: &Volume,
    dry_run: bool,
    stored: HashMap<SegmentId, u64>,
    sink: &mut CorrectionSink<'_>,
    report: &mut RepairReport,
) -> Result<RepairSummary> {
    let (corrections, mut made) = mpsc::channel::<Repair>(64);
    let meta = Arc::clone(&volume.meta);
    let work = tokio::spawn(beside(move || {
        let options = MetaOptions { dry_run, stored: &stored };
        let summary = meta.repair(&options, &mut |repair| {
            // Fails only when this future was dropped: then nobody wants the rest.
            let _ = corrections.blocking_send(repair);
        })?;
        Ok(summary)
    }));
    while let Some(Repair { what, message, loses }) = made.recv().await {
        let correction = Correction { what, message, loses };
        sink(&correction);
        if report.corrections.len() < CORRECTIONS_KEPT {
            report.corrections.push(correction);
        }
    }
    work.await.map_err(|e| VolumeError::System { operation: "repairing metadata", detail: e.to_string() })?
}

/// Runs long work that does not yield beside the async runtime.
async fn beside<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|e| VolumeError::System { operation: "repairing metadata", detail: e.to_string() })?
}
