//! What a check reports.

use headrace_layout::{InodeNo, SegmentId};

/// How bad a problem is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Severity {
    /// Costs space or makes a figure wrong; no data is at risk.
    Warning,
    /// Data cannot be reached, or is at risk.
    Error,
}

/// What is wrong.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ProblemKind {
    /// A key or record that cannot be read.
    Undecodable,
    /// A name without an inode.
    MissingInode(InodeNo),
    /// A name that calls its inode something else than it is.
    WrongKind(InodeNo),
    /// A directory's names and its order of names disagree.
    Index(InodeNo),
    /// A position that the directory will hand out again.
    Cookie(InodeNo),
    /// An inode that counts its names wrongly.
    LinkCount(InodeNo),
    /// An inode that records another home directory than one that names it.
    Home(InodeNo),
    /// A record of a further name that does not exist, or is missing.
    Link(InodeNo),
    /// An inode without a name and without an orphan record.
    Unreachable(InodeNo),
    /// A directory with several names, or one that is its own ancestor.
    DirectoryShape(InodeNo),
    /// An orphan record for an inode that has names or does not exist.
    Orphan(InodeNo),
    /// A deleted inode that is kept and its name do not lead to each other.
    Trash(InodeNo),
    /// A directory whose totals are wrong.
    DirectoryTotals(InodeNo),
    /// Volume-wide totals or allocators that are wrong.
    Counters,
    /// An inode that counts its data wrongly.
    Allocated(InodeNo),
    /// Data past the end of a file.
    PastEnd(InodeNo),
    /// Data, attributes or totals of an inode that does not exist or cannot have them.
    Stray(InodeNo),
    /// Extended attributes that the inode's flags deny.
    Xattr(InodeNo),
    /// An extent that leads nowhere: an unknown inline value.
    MissingInline(InodeNo),
    /// An inline value or its queue record that is unused or counted wrongly.
    Inline(InodeNo),
    /// An extent in a segment that is not recorded.
    UnknownSegment(SegmentId),
    /// A segment whose live bytes are counted wrongly.
    SegmentLive(SegmentId),
    /// The queue of dead segments disagrees with the segments.
    DeadQueue(SegmentId),
}

/// Something wrong in the metadata.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// How bad it is.
    pub severity: Severity,
    /// What, for programs.
    pub kind: ProblemKind,
    /// What, for people.
    pub message: String,
}

/// What a check has seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CheckSummary {
    /// Inodes of all kinds.
    pub inodes: u64,
    /// Directories among them.
    pub directories: u64,
    /// Names.
    pub entries: u64,
    /// Unlinked inodes: those that wait for their reclaim, and those that are kept.
    pub orphans: u64,
    /// Those among them that are kept.
    pub kept: u64,
    /// Extents.
    pub extents: u64,
    /// Bytes that extents cover.
    pub bytes: u64,
    /// Values kept inline.
    pub inline_values: u64,
    /// Segments.
    pub segments: u64,
    /// Segments that nothing refers to.
    pub dead_segments: u64,
    /// Problems reported.
    pub problems: u64,
}
