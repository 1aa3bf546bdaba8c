//! Inline values and their queue.

use std::collections::{BTreeMap, BTreeSet};

use headrace_kv::Read;
use headrace_layout::{CHUNK_SIZE, Extent, ExtentData, InodeNo};

use super::Repairer;
use super::contents::holes;
use super::overlay::Overlay;
use crate::data::chunks;
use crate::key::Key;
use crate::record::InlineRecord;
use crate::{Kind, MAX_FILE_SIZE, Result, key};

/// How extents use a value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Use {
    /// Where its first byte is in the file, going by the first extent.
    offset: u64,
    /// Plain bytes that it must have.
    len: u32,
    /// Bytes in use.
    live: u32,
}

/// The use of each value of each file.
pub(super) type Uses = BTreeMap<(InodeNo, u64), Use>;

/// Adds an extent of `len` bytes from byte `skip` of a value.
pub(super) fn note(uses: &mut Uses, value: (InodeNo, u64), offset: u64, skip: u32, len: u32) {
    let found = uses.entry(value).or_insert(Use { offset, len: 0, live: 0 });
    found.len = found.len.max(skip.saturating_add(len));
    found.live = found.live.saturating_add(len);
}

impl Repairer<'_> {
    /// Values that nothing refers to: one that its record says is in use whole goes back to where it was written, if
    /// nothing else is there; others are let go.
    pub(super) fn place_unused(&mut self, used: &mut BTreeSet<(InodeNo, u64)>) -> Result<()> {
        let mut unused = Vec::new();
        let mut range = Overlay::all(key::INLINE);
        loop {
            let page = self.kv.page(&mut range)?;
            if page.is_empty() {
                break;
            }
            for (key, value) in page {
                if let Some(Key::Inline(ino, id)) = Key::parse(&key)
                    && !used.contains(&(ino, id))
                {
                    unused.push((ino, id, value.len()));
                }
            }
        }
        // The newest first: what it covers, an older one does not.
        for (ino, id, stored) in unused.into_iter().rev() {
            let record = InlineRecord::load(&self.kv, id)?;
            let whole =
                record.filter(|record| record.ino == ino && record.live == record.len && record.len > 0);
            let placed = match whole {
                Some(record) => self.place(ino, id, &record)?,
                None => 0,
            };
            if placed > 0 {
                used.insert((ino, id));
                self.fixed(
                    "inline",
                    format!("inode {ino}: {placed} bytes that were written to metadata are back in the file"),
                );
            } else {
                self.kv.delete(&key::inline(ino, id))?;
                self.lost("inline", format!("inode {ino}: a value of {stored} stored bytes in metadata, which no file range refers to, is removed"));
            }
        }
        Ok(())
    }

    /// Puts a value where it was written, as far as nothing is there; how many bytes.
    fn place(&mut self, ino: InodeNo, id: u64, record: &InlineRecord) -> Result<u64> {
        let is_file = self.facts.get(&ino).is_some_and(|facts| facts.kind == Kind::File);
        let Some(end) = record.offset.checked_add(u64::from(record.len)).filter(|end| *end <= MAX_FILE_SIZE)
        else {
            return Ok(0);
        };
        if !is_file {
            return Ok(0);
        }
        let mut placed = 0;
        for index in chunks::index_of(record.offset)..=chunks::index_of(end - 1) {
            let base = chunks::base_of(index);
            let mut map = chunks::load(&self.kv, ino, index)?;
            let from = record.offset.saturating_sub(base);
            let to = (end - base).min(CHUNK_SIZE);
            // Both are within a chunk.
            for (start, stop) in holes(&map, from as u32, to as u32) {
                let skip = (base + u64::from(start) - record.offset) as u32;
                map.insert(Extent { start, len: stop - start, data: ExtentData::Inline { id, skip } });
                placed += u64::from(stop - start);
            }
            self.put_chunk(ino, index, &map)?;
        }
        Ok(placed)
    }

    /// The queue holds exactly the values that are in use, rightly counted.
    pub(super) fn repair_inline(&mut self, uses: &Uses) -> Result<()> {
        let mut range = Overlay::all(key::PACKING);
        loop {
            let page = self.kv.page(&mut range)?;
            if page.is_empty() {
                break;
            }
            for (key, value) in page {
                let Some(Key::Packing(id)) = Key::parse(&key) else { continue };
                let record = InlineRecord::decode(&value)?;
                self.next_inline = self.next_inline.max(id.saturating_add(1));
                if !uses.contains_key(&(record.ino, id)) {
                    self.kv.delete(&key)?;
                    self.fixed(
                        "inline",
                        format!(
                            "inline value {id} of inode {}, which is not there, is no longer queued",
                            record.ino
                        ),
                    );
                }
            }
        }
        for (&(ino, id), found) in uses {
            self.next_inline = self.next_inline.max(id.saturating_add(1));
            let stored = self.kv.get(&key::inline(ino, id))?.map_or(0, |value| value.len());
            let sealed = u32::try_from(stored).unwrap_or(u32::MAX);
            self.inline_bytes = self.inline_bytes.wrapping_add(u64::from(sealed));
            let before = InlineRecord::load(&self.kv, id)?.filter(|record| record.ino == ino);
            let (offset, len) = before.map_or((found.offset, 0), |record| (record.offset, record.len));
            // The packer looks for the value where its record says: within a file.
            let offset = if offset < MAX_FILE_SIZE { offset } else { found.offset };
            let record = InlineRecord { ino, offset, len: len.max(found.len), sealed, live: found.live };
            if self.kv.put(&key::packing(id), &record.encode())? {
                self.fixed(
                    "inline",
                    format!("inline value {id} of inode {ino} is queued with {} live bytes", found.live),
                );
            }
        }
        Ok(())
    }
}
