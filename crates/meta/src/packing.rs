//! Small files whose data still lives in the metadata engine.

use std::ops::ControlFlow;

use headrace_kv::Read;
use headrace_layout::{ExtentData, ExtentMap, InodeNo};

use crate::data::chunks;
use crate::key::Key;
use crate::namespace::Namespace;
use crate::record::{Counters, InlineRecord};
use crate::{MAX_FILE_SIZE, MetaError, Result, key};

/// Most values taken from the queue at once.
const MAX_VALUES: usize = 16 << 10;

/// A range of a file whose bytes are in an inline value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InlineRef {
    /// The file.
    pub ino: InodeNo,
    /// First byte in the file.
    pub offset: u64,
    /// Length in bytes.
    pub len: u32,
    /// The inline value.
    pub id: u64,
    /// Offset of the range within the plain value.
    pub skip: u32,
}

impl Namespace {
    /// Ranges that are inline, oldest value first, from the value behind `after` (inode and id of an earlier answer), until
    /// values of `max_bytes` plain bytes are reached (at least one value; all ranges of a value come together).
    pub fn inline_backlog(&self, after: Option<(InodeNo, u64)>, max_bytes: u64) -> Result<Vec<InlineRef>> {
        let end = key::all(key::PACKING).end;
        let mut from = match after {
            Some((_, u64::MAX)) => return Ok(Vec::new()),
            Some((_, id)) => id + 1,
            None => 0,
        };
        loop {
            let (refs, last) = self.view(|read| {
                let values = queued(read, from, &end, max_bytes)?;
                let last = values.last().map(|(id, _)| *id);
                let mut refs = Vec::new();
                let mut chunks = Chunks::new(read);
                for (id, record) in values {
                    chunks.find(id, &record, &mut refs)?;
                }
                Ok((refs, last))
            })?;
            match last {
                // Records that nothing refers to must not hide the ones behind them.
                Some(last) if refs.is_empty() && last < u64::MAX => from = last + 1,
                _ => return Ok(refs),
            }
        }
    }

    /// Sealed bytes of all inline values. 0 if the engine cannot say, which its next use will report.
    pub fn inline_bytes(&self) -> u64 {
        self.view(|read| Ok(Counters::load(read)?.inline_bytes)).unwrap_or(0)
    }
}

fn queued(read: &dyn Read, from: u64, end: &[u8], max_bytes: u64) -> Result<Vec<(u64, InlineRecord)>> {
    let mut values = Vec::new();
    let mut bytes = 0;
    let mut outcome = Ok(());
    read.scan(&key::packing(from), end, &mut |key, value| {
        if !values.is_empty() && (bytes >= max_bytes || values.len() >= MAX_VALUES) {
            return ControlFlow::Break(());
        }
        let Some(Key::Packing(id)) = Key::parse(key) else { return ControlFlow::Continue(()) };
        match InlineRecord::decode(value) {
            Ok(record) => {
                bytes += u64::from(record.len);
                values.push((id, record));
                ControlFlow::Continue(())
            }
            Err(error) => {
                outcome = Err(error);
                ControlFlow::Break(())
            }
        }
    })?;
    outcome.map(|()| values)
}

/// Reads chunks to find the ranges of values; keeps the last one, as neighbours in the queue are often of one file.
struct Chunks<'a> {
    read: &'a dyn Read,
    last: Option<((InodeNo, u32), ExtentMap)>,
}

impl<'a> Chunks<'a> {
    fn new(read: &'a dyn Read) -> Chunks<'a> {
        Chunks { read, last: None }
    }

    /// Appends the ranges that refer to a value.
    fn find(&mut self, id: u64, record: &InlineRecord, refs: &mut Vec<InlineRef>) -> Result<()> {
        if record.offset >= MAX_FILE_SIZE {
            return Err(MetaError::Corrupt(format!("inline value {id} is past the end of any file")));
        }
        let first = refs.len();
        let end = (record.offset + u64::from(record.len)).clamp(record.offset + 1, MAX_FILE_SIZE);
        for index in chunks::index_of(record.offset)..=chunks::index_of(end - 1) {
            let place = (record.ino, index);
            let map = match self.last.take() {
                Some((last, map)) if last == place => map,
                _ => chunks::load(self.read, record.ino, index)?,
            };
            collect(record.ino, index, &map, id, refs);
            self.last = Some((place, map));
        }
        let found: u64 = refs[first..].iter().map(|found| u64::from(found.len)).sum();
        if found < u64::from(record.live) {
            // The file's contents were shifted since: the value can be anywhere in it.
            refs.truncate(first);
            self.find_anywhere(id, record.ino, refs)?;
        }
        Ok(())
    }

    fn find_anywhere(&self, id: u64, ino: InodeNo, refs: &mut Vec<InlineRef>) -> Result<()> {
        let mut outcome = Ok(());
        chunks::scan(
            self.read,
            ino,
            (0, MAX_FILE_SIZE),
            &mut |index, value| match ExtentMap::decode(value) {
                Ok(map) => {
                    collect(ino, index, &map, id, refs);
                    ControlFlow::Continue(())
                }
                Err(error) => {
                    outcome = Err(MetaError::from(error));
                    ControlFlow::Break(())
                }
            },
        )?;
        outcome
    }
}

fn collect(ino: InodeNo, index: u32, map: &ExtentMap, id: u64, refs: &mut Vec<InlineRef>) {
    let base = chunks::base_of(index);
    refs.extend(map.extents().iter().filter_map(|extent| match extent.data {
        ExtentData::Inline { id: found, skip } if found == id => {
            Some(InlineRef { ino, offset: base + u64::from(extent.start), len: extent.len, id, skip })
        }
        _ => None,
    }));
}
