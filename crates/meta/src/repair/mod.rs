//! Putting metadata in order: whatever a [check](Namespace::check) finds is corrected.
//!
//! The plan is made over one view: every step reads what the steps before it would leave (an [`Overlay`]), and decides for
//! each record alone what it should be. Then the changes are written in transactions of bounded size. A crash in between
//! leaves metadata that another repair completes.
//!
//! The rules: what can be derived from other records is derived. A file or directory that nothing names gets a name in
//! `lost+found`. Data whose place is not known any more becomes a range that cannot be read, in [`LOST_SEGMENT`], never a
//! hole that would read as zeros. What cannot be kept is told, with its bytes.

mod contents;
mod facts;
mod inline;
mod inodes;
mod links;
mod names;
mod overlay;
mod records;
mod segments;
mod totals;
mod trash;
mod tree;

use std::collections::{BTreeMap, HashMap};

use headrace_kv::EngineExt;
use headrace_layout::{InodeNo, SegmentId};

use self::facts::Facts;
use self::overlay::Overlay;
use crate::namespace::Namespace;
use crate::{Result, Time};

/// The segment of ranges whose bytes are lost: it never exists, so reading them is an error.
pub const LOST_SEGMENT: SegmentId = SegmentId(0);

/// Changes written in one transaction, at most, and their bytes.
const BATCH: usize = 1024;
const BATCH_BYTES: usize = 4 << 20;
/// Bytes of an undecodable record that are told.
const SHOWN: usize = 1024;

/// How to repair.
#[derive(Clone, Copy, Debug)]
pub struct RepairOptions<'a> {
    /// Only say what would be done.
    pub dry_run: bool,
    /// Lengths of objects in the store, for segments that metadata has no record of.
    pub stored: &'a HashMap<SegmentId, u64>,
}

/// Something that was corrected, or would be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Repair {
    /// What kind of correction, for programs; fixed words.
    pub what: &'static str,
    /// What was wrong and what was done, for people.
    pub message: String,
    /// Whether something of the user's is gone: a name, an attribute, bytes.
    pub loses: bool,
}

/// What a repair did, or would do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RepairSummary {
    /// Corrections.
    pub repairs: u64,
    /// Those among them that lose something of the user's.
    pub losses: u64,
    /// Records written or removed.
    pub records: u64,
}

impl Namespace {
    /// Corrects everything that [`Namespace::check`] finds. `sink` gets each correction before it is written. Nobody else
    /// may change the metadata meanwhile. Memory grows with the number of inodes, as in a check, and of corrections.
    pub fn repair(&self, options: &RepairOptions<'_>, sink: &mut dyn FnMut(Repair)) -> Result<RepairSummary> {
        let now = Time::now();
        let (changes, mut summary) = self.view(|read| {
            let mut repairer = Repairer {
                kv: Overlay::new(read),
                sink: &mut *sink,
                summary: RepairSummary::default(),
                now,
                stored: options.stored,
                facts: BTreeMap::new(),
                directories: BTreeMap::new(),
                broken_chunks: Vec::new(),
                next_ino: 0,
                next_inline: 0,
                inline_bytes: 0,
                live: BTreeMap::new(),
                lost_found: None,
            };
            repairer.run()?;
            let summary = repairer.summary;
            Ok((repairer.kv.into_changes(), summary))
        })?;
        summary.records = changes.len() as u64;
        if !options.dry_run {
            self.write(changes)?;
        }
        Ok(summary)
    }

    fn write(&self, changes: BTreeMap<Vec<u8>, Option<Vec<u8>>>) -> Result<()> {
        let changes: Vec<_> = changes.into_iter().collect();
        let mut rest = &changes[..];
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = |(key, value): &&(Vec<u8>, Option<Vec<u8>>)| {
                bytes += key.len() + value.as_ref().map_or(0, Vec::len);
                bytes <= BATCH_BYTES
            };
            let count = rest.iter().take(BATCH).take_while(fits).count().max(1);
            let (batch, left) = rest.split_at(count);
            self.engine().transact_with(|txn| {
                for (key, value) in batch {
                    match value {
                        Some(value) => txn.put(key, value),
                        None => txn.delete(key),
                    }
                }
                Ok::<(), crate::MetaError>(())
            })?;
            rest = left;
        }
        Ok(())
    }
}

/// A repair being planned.
struct Repairer<'a> {
    kv: Overlay<'a>,
    sink: &'a mut dyn FnMut(Repair),
    summary: RepairSummary,
    now: Time,
    stored: &'a HashMap<SegmentId, u64>,
    facts: BTreeMap<InodeNo, Facts>,
    /// The name of each directory: where it is, and what.
    directories: BTreeMap<InodeNo, (InodeNo, Vec<u8>)>,
    /// Chunks whose extents cannot be read.
    broken_chunks: Vec<(InodeNo, u32)>,
    next_ino: u64,
    next_inline: u64,
    inline_bytes: u64,
    /// Bytes that extents refer to.
    live: BTreeMap<SegmentId, u64>,
    /// The directory for what has no name.
    lost_found: Option<InodeNo>,
}

impl Repairer<'_> {
    fn run(&mut self) -> Result<()> {
        self.decode_all()?;
        self.load_inodes()?;
        self.repair_entries()?;
        self.repair_positions()?;
        self.repair_tree()?;
        self.repair_trash()?;
        self.repair_links()?;
        self.repair_attributes()?;
        self.repair_chunks()?;
        self.repair_segments()?;
        self.write_inodes()?;
        self.repair_totals()
    }

    /// Tells of a correction that loses nothing.
    fn fixed(&mut self, what: &'static str, message: String) {
        self.tell(what, message, false);
    }

    /// Tells of a correction that loses something of the user's.
    fn lost(&mut self, what: &'static str, message: String) {
        self.tell(what, message, true);
    }

    fn tell(&mut self, what: &'static str, message: String, loses: bool) {
        self.summary.repairs += 1;
        self.summary.losses += u64::from(loses);
        (self.sink)(Repair { what, message, loses });
    }
}

/// A name for a message.
fn text(name: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(name)
}

/// Bytes for a message.
fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    let mut text = String::with_capacity(2 * bytes.len().min(SHOWN) + 3);
    for byte in &bytes[..bytes.len().min(SHOWN)] {
        let _ = write!(text, "{byte:02x}");
    }
    if bytes.len() > SHOWN {
        text.push_str("...");
    }
    text
}
