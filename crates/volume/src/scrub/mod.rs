//! Scrubbing: reading everything again, slowly, to find damage while there still is a copy to restore from.
//!
//! A pass reads the segments in use in the order of their ids and verifies every checksum. Where it is, is kept in the state
//! directory, so that a pass goes on after a restart. Damage is logged with the names of the files.

mod pace;
mod segment;

use std::time::{Duration, SystemTime};

use headrace_layout::SegmentId;
use headrace_store::ErrorKind;
use serde::{Deserialize, Serialize};

use crate::error::{Result, VolumeError};
use crate::open::Volume;
use crate::state_dir::read_small;

pub use pace::{FASTEST, PASS, Pacer, SLOWEST, Scrub};
pub use segment::Pause;
use segment::Verdict;

/// The file in the state directory.
pub(crate) const SCRUB: &str = "scrub.json";
/// Messages kept of a pass.
const KEPT: usize = 100;
/// Bytes read between two times that the place is written down.
const SAVE_EVERY: u64 = 256 << 20;
/// Segments asked for at once.
const BATCH: usize = 64;

/// A pass that was finished.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pass {
    /// When it began, Unix seconds.
    pub began: u64,
    /// When it ended, Unix seconds.
    pub ended: u64,
    /// Segments read.
    pub segments: u64,
    /// Stored bytes read.
    pub bytes: u64,
    /// Segments with damage in them.
    pub damaged: u64,
    /// What is wrong with them, the first 100.
    pub found: Vec<String>,
}

/// Where scrubbing is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubStatus {
    /// The segment read last in this pass; `None` before the first.
    pub last_segment: Option<String>,
    /// When this pass began, Unix seconds.
    pub began: u64,
    /// Segments read in this pass.
    pub segments: u64,
    /// Stored bytes read in this pass.
    pub bytes: u64,
    /// Segments with damage found in this pass.
    pub damaged: u64,
    /// What was found in this pass, the first 100.
    pub found: Vec<String>,
    /// The pass before.
    pub last_pass: Option<Pass>,
    /// Why the metadata on this machine is damaged, if it is.
    pub metadata: Option<String>,
}

/// What a step of scrubbing came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// There is more to read.
    More,
    /// The pass is complete.
    Passed,
    /// It was to stop.
    Stopped,
}

/// Scrubs a volume.
#[derive(Debug)]
pub struct Scrubber {
    status: ScrubStatus,
    unsaved: u64,
}

fn seconds(now: SystemTime) -> u64 {
    now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |age| age.as_secs())
}

impl Scrubber {
    /// Goes on where the last one was.
    pub fn load(volume: &Volume) -> Scrubber {
        let read = read_small(&volume.state_dir.path().join(SCRUB));
        let status = match read {
            Ok(Some(bytes)) => serde_json::from_slice(&bytes).unwrap_or_else(|error| {
                tracing::warn!(%error, "where the last scrub was is not readable: it begins anew");
                ScrubStatus::default()
            }),
            Ok(None) => ScrubStatus::default(),
            Err(error) => {
                tracing::warn!(%error, "where the last scrub was is not readable: it begins anew");
                ScrubStatus::default()
            }
        };
        Scrubber { status, unsaved: 0 }
    }

    /// Where it is.
    pub fn status(&self) -> &ScrubStatus {
        &self.status
    }

    /// How long until the next pass is to begin; zero in the middle of one.
    pub fn until_next(&self, scrub: Scrub, now: SystemTime) -> Duration {
        match &self.status.last_pass {
            Some(pass) if self.status.began == 0 => {
                // One that found nothing to read says little.
                let interval = if pass.segments == 0 { pace::DAILY } else { scrub.interval() };
                let due = pass.began.saturating_add(interval.as_secs());
                Duration::from_secs(due.saturating_sub(seconds(now)))
            }
            _ => Duration::ZERO,
        }
    }

    /// Whether opening the volume has verified the metadata on this machine already.
    pub fn is_metadata_verified(volume: &Volume) -> bool {
        volume.log().is_none_or(crate::log::Log::verified_at_open)
    }

    /// Reads all of the metadata on this machine and compares checksums. Blocks, and takes as long as reading the engine's
    /// file does.
    pub fn verify_metadata(&mut self, volume: &Volume) -> Result<()> {
        let Some(log) = volume.log() else { return Ok(()) };
        match log.verify() {
            Ok(()) => {
                self.status.metadata = None;
                Ok(())
            }
            Err(headrace_kv::KvError::Corrupt(detail)) => {
                tracing::error!(
                    detail,
                    "the metadata on this machine is damaged: unmount, then bring it back with `headrace restore {}`",
                    volume.url()
                );
                self.status.metadata = Some(detail);
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Reads the next segment, asking `pause` after every piece. A store that fails is an error; the same segment comes next.
    pub async fn step(&mut self, volume: &Volume, pause: &Pause<'_>) -> Result<Step> {
        if self.status.began == 0 {
            self.status.began = seconds(SystemTime::now());
        }
        let after = self.status.last_segment.as_deref().and_then(|text| text.parse::<SegmentId>().ok());
        let batch = volume.meta.segments(after, BATCH)?;
        let Some(last) = batch.last().map(|segment| segment.id) else { return self.pass(volume) };
        let used = |segment: &headrace_meta::SegmentUse| {
            segment.live > 0
                && !volume.pending.contains(segment.id)
                && segment.id != headrace_meta::LOST_SEGMENT
        };
        let Some(segment) = batch.into_iter().find(used) else {
            self.status.last_segment = Some(last.to_string());
            return Ok(Step::More);
        };
        let verified = match segment::verify(volume, &segment, pause).await {
            Err(VolumeError::Store(error)) if error.kind == ErrorKind::NotFound => Ok((0, Verdict::Gone)),
            other => other,
        };
        let (bytes, verdict) = verified?;
        self.status.bytes += bytes;
        match verdict {
            Verdict::Stopped => return Ok(Step::Stopped),
            Verdict::Sound => self.status.segments += 1,
            Verdict::Gone => {}
            Verdict::Damaged(message) => {
                tracing::error!("scrub: {message}; \"headrace fsck --data\" names every lost range");
                self.status.segments += 1;
                self.status.damaged += 1;
                if self.status.found.len() < KEPT {
                    self.status.found.push(message);
                }
            }
        }
        self.status.last_segment = Some(segment.id.to_string());
        self.unsaved += bytes;
        if self.unsaved >= SAVE_EVERY {
            self.save(volume)?;
        }
        Ok(Step::More)
    }

    fn pass(&mut self, volume: &Volume) -> Result<Step> {
        let ScrubStatus { began, segments, bytes, damaged, found, metadata, .. } =
            std::mem::take(&mut self.status);
        tracing::info!(segments, bytes, damaged, "everything stored was read and verified");
        let pass = Pass { began, ended: seconds(SystemTime::now()), segments, bytes, damaged, found };
        self.status = ScrubStatus { last_pass: Some(pass), metadata, ..ScrubStatus::default() };
        self.save(volume)?;
        Ok(Step::Passed)
    }

    /// Writes down where it is.
    pub fn save(&mut self, volume: &Volume) -> Result<()> {
        self.unsaved = 0;
        let bytes = serde_json::to_vec(&self.status).map_err(|e| VolumeError::System {
            operation: "noting where the scrub is",
            detail: e.to_string(),
        })?;
        volume.state_dir.replace(SCRUB, &bytes)
    }
}
