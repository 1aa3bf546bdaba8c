//! Sixth step: attributes and data.

use headrace_kv::Read;
use headrace_layout::{CHUNK_SIZE, Extent, ExtentData, ExtentMap, InodeNo, SegmentSlice};

use super::overlay::Overlay;
use super::{LOST_SEGMENT, Repairer, hex, text};
use crate::data::chunks;
use crate::key::Key;
use crate::namespace::expected_flags;
use crate::{Kind, Result, key};

/// A range of a chunk whose bytes are lost. Reading it is an error.
pub(super) fn lost_extent(start: u32, len: u32) -> Extent {
    // A run of its own for every place, so that no two are described differently.
    let slice =
        SegmentSlice { segment: LOST_SEGMENT, run_offset: start, run_len: len, skip: 0, frames: None };
    Extent { start, len, data: ExtentData::Segment(slice) }
}

/// The parts of `[start, end)` that a map leaves open.
pub(super) fn holes(map: &ExtentMap, start: u32, end: u32) -> Vec<(u32, u32)> {
    let mut open = Vec::new();
    let mut at = start;
    for extent in map.slice(start, end) {
        if extent.start > at {
            open.push((at, extent.start));
        }
        at = at.max(extent.end());
    }
    if at < end {
        open.push((at, end));
    }
    open
}

impl Repairer<'_> {
    pub(super) fn repair_attributes(&mut self) -> Result<()> {
        let mut range = Overlay::all(key::XATTR);
        loop {
            let page = self.kv.page(&mut range)?;
            if page.is_empty() {
                return Ok(());
            }
            for (key, value) in page {
                let Some(Key::Xattr(ino, name)) = Key::parse(&key) else { continue };
                match self.facts.get_mut(&ino) {
                    Some(facts) => facts.attributes |= expected_flags(std::iter::once(name)),
                    None => {
                        self.kv.delete(&key)?;
                        let (name, value) = (text(name), hex(&value));
                        self.lost("attribute", format!("attribute {name:?} of inode {ino}, of which nothing is left, is removed; it held {value}"));
                    }
                }
            }
        }
    }

    pub(super) fn repair_chunks(&mut self) -> Result<()> {
        let mut inline = self.repair_references()?;
        self.place_unused(&mut inline)?;
        self.fill_broken()?;
        let inline = self.account()?;
        self.repair_inline(&inline)
    }

    /// Stores a chunk's extents.
    pub(super) fn put_chunk(&mut self, ino: InodeNo, index: u32, map: &ExtentMap) -> Result<()> {
        let key = key::chunk(ino, index);
        if map.is_empty() {
            self.kv.delete(&key)?
        } else {
            self.kv.put(&key, &map.encode())?
        };
        Ok(())
    }

    /// Visits every chunk of a file; data of what is no file is told and removed.
    fn each_chunk(
        &mut self,
        mut visit: impl FnMut(&mut Self, InodeNo, u32, ExtentMap) -> Result<()>,
    ) -> Result<()> {
        let mut range = Overlay::all(key::CHUNK);
        loop {
            let page = self.kv.page(&mut range)?;
            if page.is_empty() {
                return Ok(());
            }
            for (key, value) in page {
                let (Some(Key::Chunk(ino, index)), Ok(map)) = (Key::parse(&key), ExtentMap::decode(&value))
                else {
                    continue;
                };
                if self.facts.get(&ino).is_some_and(|facts| facts.kind == Kind::File) {
                    visit(self, ino, index, map)?;
                } else {
                    self.kv.delete(&key)?;
                    let held = hex(&value);
                    self.lost("data", format!("inode {ino} is no file and had data: {} bytes in chunk {index} are let go; the record was {held}", map.covered()));
                }
            }
        }
    }

    /// Extents that lead to no inline value of their file become lost ranges. Answers the values in use.
    fn repair_references(&mut self) -> Result<std::collections::BTreeSet<(InodeNo, u64)>> {
        let mut used = std::collections::BTreeSet::new();
        let mut owners: std::collections::HashMap<u64, InodeNo> = std::collections::HashMap::new();
        self.each_chunk(|repairer, ino, index, map| {
            let mut fixed = ExtentMap::default();
            let mut lost = 0u64;
            for extent in map.extents() {
                let ExtentData::Inline { id, .. } = extent.data else {
                    fixed.insert(extent.clone());
                    continue;
                };
                // An id has one owner: the file that holds the value under it.
                let there = repairer.kv.get(&key::inline(ino, id))?.is_some();
                if there && *owners.entry(id).or_insert(ino) == ino {
                    used.insert((ino, id));
                    fixed.insert(extent.clone());
                } else {
                    lost += u64::from(extent.len);
                    fixed.insert(lost_extent(extent.start, extent.len));
                }
            }
            if lost > 0 {
                repairer.put_chunk(ino, index, &fixed)?;
                let at = chunks::base_of(index);
                repairer.lost("data", format!("inode {ino}: {lost} bytes in the 64 MiB from offset {at} were in metadata and are lost: reading them is an error"));
            }
            Ok(())
        })?;
        Ok(used)
    }

    /// What is left open in chunks whose extents are lost cannot be read: a hole would read as zeros.
    fn fill_broken(&mut self) -> Result<()> {
        for (ino, index) in std::mem::take(&mut self.broken_chunks) {
            let Some(facts) = self.facts.get(&ino).filter(|facts| facts.kind == Kind::File) else { continue };
            let base = chunks::base_of(index);
            let mut map = chunks::load(&self.kv, ino, index)?;
            // Of a file whose length is lost too, all that could have been there.
            let len = match facts.size.checked_sub(base) {
                Some(len) if facts.size > 0 => len.min(CHUNK_SIZE),
                _ if map.is_empty() => CHUNK_SIZE,
                _ => 0,
            };
            let open = holes(&map, 0, u32::try_from(len).unwrap_or(u32::MAX));
            let bytes: u64 = open.iter().map(|(start, end)| u64::from(end - start)).sum();
            for (start, end) in open {
                map.insert(lost_extent(start, end - start));
            }
            self.put_chunk(ino, index, &map)?;
            if bytes > 0 {
                self.lost("data", format!("inode {ino}: {bytes} bytes from offset {base} on have no known place: reading them is an error"));
            }
        }
        Ok(())
    }

    /// Counts what the chunks, as they are now, refer to.
    fn account(&mut self) -> Result<super::inline::Uses> {
        let mut uses = super::inline::Uses::new();
        self.each_chunk(|repairer, ino, index, map| {
            let base = chunks::base_of(index);
            let mut end = 0;
            for extent in map.extents() {
                end = base.saturating_add(u64::from(extent.end()));
                match &extent.data {
                    ExtentData::Segment(slice) => {
                        *repairer.live.entry(slice.segment).or_default() += u64::from(extent.len);
                    }
                    ExtentData::Inline { id, skip } => {
                        let start = base.saturating_add(u64::from(extent.start));
                        let offset = start.saturating_sub(u64::from(*skip));
                        super::inline::note(&mut uses, (ino, *id), offset, *skip, extent.len);
                    }
                }
            }
            if let Some(facts) = repairer.facts.get_mut(&ino) {
                facts.covered = facts.covered.saturating_add(map.covered());
                facts.data_end = facts.data_end.max(end);
                if base < facts.size && end > facts.size && facts.size - base < CHUNK_SIZE {
                    facts.last_chunk_end = end;
                }
            }
            Ok(())
        })?;
        Ok(uses)
    }
}
