//! Consistency of the metadata with itself: every record is read once, what it claims is compared with what the others
//! say. Memory grows with the number of inodes (about 150 bytes each), directories and segments.

mod contents;
mod names;
mod report;
mod segments;
mod verdict;

use std::collections::HashMap;
use std::ops::ControlFlow;

use headrace_kv::Read;
use headrace_layout::{InodeNo, SegmentId};
pub use report::{CheckSummary, Problem, ProblemKind, Severity};

use crate::key::Key;
use crate::namespace::Namespace;
use crate::record::{Counters, Inode};
use crate::{DirTotals, Result, key};

/// The first bytes of all keys there are.
const TAGS: [u8; 15] = [
    b'S',
    key::INODE,
    key::ENTRY,
    key::POSITION,
    key::LINK,
    key::XATTR,
    key::CHUNK,
    key::INLINE,
    key::PACKING,
    key::SEGMENT,
    key::DEAD,
    key::ORPHAN,
    key::UNSETTLED,
    key::TRASHED,
    key::USAGE,
];

/// An inode's record and what the other records say of it.
struct Seen {
    inode: Inode,
    /// Entries that name it.
    names: u32,
    /// Entries among them that have a record of a further name.
    links: u32,
    /// Entries that name subdirectories in it.
    subdirectories: u32,
    /// Bytes that its extents cover.
    covered: u64,
    /// Where its data ends.
    data_end: u64,
    orphan: bool,
    unsettled: bool,
    /// What its attributes say its flags should be.
    attributes: u16,
}

/// The state of a check.
struct Checker<'a> {
    read: &'a dyn Read,
    sink: &'a mut dyn FnMut(Problem),
    summary: CheckSummary,
    counters: Option<Counters>,
    inodes: HashMap<InodeNo, Seen>,
    /// What directories' totals should be.
    usage: HashMap<InodeNo, DirTotals>,
    /// Bytes that extents refer to.
    live: HashMap<SegmentId, u64>,
    /// Owner and bytes that extents refer to.
    inline: HashMap<u64, (InodeNo, u64)>,
    inline_bytes: u64,
    last_inline: u64,
}

impl Namespace {
    /// Compares everything in the metadata with everything else, in one view; `sink` gets each problem. Changes nothing.
    pub fn check(&self, sink: &mut dyn FnMut(Problem)) -> Result<CheckSummary> {
        self.view(|read| {
            let mut checker = Checker {
                read,
                sink: &mut *sink,
                summary: CheckSummary::default(),
                counters: None,
                inodes: HashMap::new(),
                usage: HashMap::new(),
                live: HashMap::new(),
                inline: HashMap::new(),
                inline_bytes: 0,
                last_inline: 0,
            };
            checker.run()?;
            Ok(checker.summary)
        })
    }
}

impl Checker<'_> {
    fn run(&mut self) -> Result<()> {
        self.unknown_keys()?;
        self.read_inodes()?;
        self.read_marks()?;
        self.read_trash()?;
        self.read_links()?;
        self.read_entries()?;
        self.read_positions()?;
        self.read_attributes()?;
        self.read_chunks()?;
        self.read_inline_values()?;
        self.read_segments()?;
        self.judge_inodes();
        self.judge_tree();
        self.judge_totals()
    }

    fn report(&mut self, severity: Severity, kind: ProblemKind, message: String) {
        self.summary.problems += 1;
        (self.sink)(Problem { severity, kind, message });
    }

    fn error(&mut self, kind: ProblemKind, message: String) {
        self.report(Severity::Error, kind, message);
    }

    fn warning(&mut self, kind: ProblemKind, message: String) {
        self.report(Severity::Warning, kind, message);
    }

    /// A key or record that cannot be read.
    fn undecodable(&mut self, key: &[u8], detail: &str) {
        self.error(ProblemKind::Undecodable, format!("key {}: {detail}", key.escape_ascii()));
    }

    /// Visits every well-formed key of a tag; an error of `visit` is a problem of that record.
    fn each(
        &mut self,
        tag: u8,
        mut visit: impl FnMut(&mut Self, Key<'_>, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let read = self.read;
        let range = key::all(tag);
        read.scan(&range.start, &range.end, &mut |key, value| {
            match Key::parse(key) {
                Some(parsed) => {
                    if let Err(error) = visit(self, parsed, value) {
                        self.undecodable(key, &error.to_string());
                    }
                }
                None => self.undecodable(key, "its shape is unknown"),
            }
            ControlFlow::Continue(())
        })?;
        Ok(())
    }

    /// Keys outside all families, and the few that stand alone.
    fn unknown_keys(&mut self) -> Result<()> {
        for tag in (0..u8::MAX).filter(|tag| !TAGS.contains(tag)) {
            self.each(tag, |_, _, _| Ok(()))?;
        }
        self.each(b'S', |checker, key, value| {
            if key == Key::Counters {
                checker.counters = Some(Counters::decode(value)?);
            }
            Ok(())
        })?;
        if self.counters.is_none() {
            self.error(ProblemKind::Counters, "the counters are missing".into());
        }
        Ok(())
    }
}
