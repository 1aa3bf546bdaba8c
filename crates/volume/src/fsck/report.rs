//! What a check finds.

use headrace_meta::{CheckSummary, Severity};
use serde::Serialize;

/// Findings kept in a report; all go to the sink.
pub const FINDINGS_KEPT: usize = 100;

/// Damaged files named in a report, and ranges of each.
pub const DAMAGED_KEPT: usize = 10_000;
const RANGES_KEPT: usize = 64;

/// A file that lost bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DamagedFile {
    /// A path of it; of one without a name, its inode.
    pub path: String,
    /// Its number.
    pub ino: u64,
    /// Bytes that cannot be read.
    pub bytes: u64,
    /// Where they are: the first 64 ranges.
    pub ranges: Vec<LostRange>,
    /// There are more ranges.
    pub more: bool,
}

/// Bytes of a file that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LostRange {
    /// The first one.
    pub offset: u64,
    /// How many.
    pub len: u64,
    /// Why.
    pub why: String,
}

impl DamagedFile {
    pub(super) fn new(path: String, ino: u64) -> DamagedFile {
        DamagedFile { path, ino, bytes: 0, ranges: Vec::new(), more: false }
    }

    /// Adds a range; one that continues the last for the same reason makes that longer.
    pub(super) fn add(&mut self, offset: u64, len: u32, why: &str) {
        let len = u64::from(len);
        self.bytes = self.bytes.saturating_add(len);
        if let Some(last) = self.ranges.last_mut()
            && last.offset.saturating_add(last.len) == offset
            && last.why == why
        {
            last.len += len;
        } else if self.ranges.len() < RANGES_KEPT {
            self.ranges.push(LostRange { offset, len, why: why.to_owned() });
        } else {
            self.more = true;
        }
    }

    /// In one sentence; `None` if nothing is wrong.
    pub(super) fn message(&self) -> Option<String> {
        let LostRange { offset, why, .. } = self.ranges.first()?;
        let more = match self.ranges.len() {
            1 => String::new(),
            _ if self.more => " (and many more ranges)".to_owned(),
            n => format!(" (and {} more ranges)", n - 1),
        };
        let (path, bytes) = (&self.path, self.bytes);
        Some(format!("{path}: {bytes} bytes cannot be read, from offset {offset}{more}: {why}"))
    }
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Costs space or makes a figure wrong; no data is at risk.
    Warning,
    /// Data is lost, cannot be reached, or is at risk.
    Error,
}

impl From<Severity> for Level {
    fn from(severity: Severity) -> Level {
        match severity {
            Severity::Warning => Level::Warning,
            Severity::Error => Level::Error,
        }
    }
}

/// Something wrong with a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub level: Level,
    /// What kind of problem, for programs; fixed words.
    pub kind: &'static str,
    /// What is wrong with what, for people.
    pub message: String,
    /// What to do about it.
    pub remedy: &'static str,
}

/// Receives findings as they are made.
pub type FindingSink<'a> = dyn FnMut(&Finding) + Send + 'a;

/// The result of a check.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FsckReport {
    /// Whether contents were read and verified.
    pub data_checked: bool,
    /// Inodes of all kinds.
    pub inodes: u64,
    /// Directories among them.
    pub directories: u64,
    /// Unlinked files that wait to be reclaimed.
    pub unlinked: u64,
    /// Those among them that are kept in the trash.
    pub kept: u64,
    /// Extents.
    pub extents: u64,
    /// Bytes of file data, holes not counted.
    pub bytes: u64,
    /// Values that wait in metadata to be packed.
    pub inline_values: u64,
    /// Segments known to metadata.
    pub segments: u64,
    /// Segments in use whose object is not in the store.
    pub missing_segments: u64,
    /// Segments in use whose object is shorter than it was written.
    pub short_segments: u64,
    /// Objects that metadata does not know. Uploads that were given up, or are under way.
    pub orphans: u64,
    /// Their bytes.
    pub orphan_bytes: u64,
    /// Objects in `segments/` that are no segments.
    pub foreign: u64,
    /// Files whose contents were read.
    pub files_read: u64,
    /// Bytes read and verified.
    pub bytes_read: u64,
    /// Files with bytes that are lost or damaged.
    pub damaged_files: u64,
    /// The first [`DAMAGED_KEPT`] of them.
    pub damaged: Vec<DamagedFile>,
    /// Objects of the metadata's log that were read.
    pub log_objects: u64,
    /// As of when the store alone could bring the metadata back (RFC 3339); `None` if it could not, or has no log.
    pub restorable: Option<String>,
    /// Findings that are errors.
    pub errors: u64,
    /// Findings that are warnings.
    pub warnings: u64,
    /// The first [`FINDINGS_KEPT`] findings.
    pub findings: Vec<Finding>,
}

impl FsckReport {
    /// The worst finding; `None` if the volume is in order.
    pub fn worst(&self) -> Option<Level> {
        match (self.errors, self.warnings) {
            (0, 0) => None,
            (0, _) => Some(Level::Warning),
            _ => Some(Level::Error),
        }
    }

    /// Whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.worst().is_none()
    }

    pub(super) fn add_summary(&mut self, summary: &CheckSummary) {
        self.inodes = summary.inodes;
        self.directories = summary.directories;
        self.unlinked = summary.orphans;
        self.kept = summary.kept;
        self.extents = summary.extents;
        self.bytes = summary.bytes;
        self.inline_values = summary.inline_values;
        self.segments = summary.segments;
    }
}

/// Collects findings into a report and passes them on.
pub(super) struct Recorder<'a> {
    pub report: FsckReport,
    sink: &'a mut FindingSink<'a>,
}

impl<'a> Recorder<'a> {
    pub fn new(data: bool, sink: &'a mut FindingSink<'a>) -> Recorder<'a> {
        Recorder { report: FsckReport { data_checked: data, ..FsckReport::default() }, sink }
    }

    pub fn add(&mut self, finding: Finding) {
        match finding.level {
            Level::Error => self.report.errors += 1,
            Level::Warning => self.report.warnings += 1,
        }
        (self.sink)(&finding);
        if self.report.findings.len() < FINDINGS_KEPT {
            self.report.findings.push(finding);
        }
    }

    pub fn error(&mut self, kind: &'static str, message: String, remedy: &'static str) {
        self.add(Finding { level: Level::Error, kind, message, remedy });
    }

    pub fn warning(&mut self, kind: &'static str, message: String, remedy: &'static str) {
        self.add(Finding { level: Level::Warning, kind, message, remedy });
    }
}
