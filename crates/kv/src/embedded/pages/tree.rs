//! Walks a table from its root in the order of its keys.

use std::cmp::Ordering;

use super::file::DataFile;
use super::meta::TableInfo;
use super::page::{Content, HEADER, Node, Page, long_pages};
use super::seen::Seen;
use crate::KvError;

/// Bytes of a long value read at once.
const PIECE: usize = 256 << 10;
/// Pages between two calls of `progress`.
const PROGRESS_PAGES: u64 = 1024;

/// How keys are ordered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Order {
    Bytes,
    /// Native integers of 8 bytes.
    Integer,
}

impl Order {
    fn compare(self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            Order::Bytes => a.cmp(b),
            // Backwards, as they are little-endian; other lengths are refused by who reads them.
            Order::Integer => a.len().cmp(&b.len()).then_with(|| a.iter().rev().cmp(b.iter().rev())),
        }
    }
}

/// A stored value: where it is, and its bytes if they are in the page.
pub(super) struct Value<'p> {
    /// In the file.
    pub(super) offset: u64,
    pub(super) len: u64,
    inline: Option<&'p [u8]>,
    /// The value describes a table.
    pub(super) is_table: bool,
}

impl Value<'_> {
    /// The bytes, one piece after the other.
    pub(super) fn pieces(
        &self,
        file: &DataFile<'_>,
        piece: &mut dyn FnMut(&[u8]) -> Result<(), KvError>,
    ) -> Result<(), KvError> {
        if let Some(inline) = self.inline {
            return piece(inline);
        }
        let mut buffer = vec![0; usize::try_from(self.len).unwrap_or(PIECE).min(PIECE)];
        let mut done = 0;
        while done < self.len {
            let len = usize::try_from(self.len - done).unwrap_or(PIECE).min(PIECE);
            let Some(buffer) = buffer.get_mut(..len) else { break };
            file.read(buffer, self.offset.saturating_add(done))?;
            piece(buffer)?;
            done += len as u64;
        }
        Ok(())
    }

    /// All of the bytes, if they are in the page.
    pub(super) fn inline(&self) -> Option<&[u8]> {
        self.inline
    }
}

/// What is done with each entry; gets the pages met so far.
pub(super) type Sink<'s> = &'s mut dyn FnMut(&mut Seen, &[u8], &Value<'_>) -> Result<(), KvError>;

pub(super) struct Walk<'w> {
    pub(super) file: &'w DataFile<'w>,
    pub(super) page_size: usize,
    pub(super) seen: Seen,
    pub(super) total_pages: u64,
    pub(super) told: u64,
    pub(super) progress: &'w mut dyn FnMut(u64, u64),
    pub(super) buffers: Vec<Vec<u8>>,
    pub(super) scratch: Vec<(usize, usize)>,
}

/// What the pages above say of a page: keys from `low` on, and below `high`.
#[derive(Clone, Copy)]
struct Place<'k> {
    page: u64,
    /// Levels from here to the leaves, this one included.
    height: u16,
    low: Option<&'k [u8]>,
    high: Option<&'k [u8]>,
}

impl Walk<'_> {
    pub(super) fn table(
        &mut self,
        name: &str,
        info: &TableInfo,
        order: Order,
        sink: Sink<'_>,
    ) -> Result<(), KvError> {
        let mut entries = 0;
        if let Some(root) = info.root {
            let place = Place { page: root, height: info.depth, low: None, high: None };
            self.page(name, place, order, &mut entries, sink)?;
        }
        if entries != info.entries {
            let stated = info.entries;
            return Err(self
                .file
                .damaged(&format!("table {name} should have {stated} entries and has {entries}")));
        }
        Ok(())
    }

    fn page(
        &mut self,
        name: &str,
        place: Place<'_>,
        order: Order,
        entries: &mut u64,
        sink: Sink<'_>,
    ) -> Result<(), KvError> {
        let mut buffer = self.buffers.pop().unwrap_or_else(|| vec![0; self.page_size]);
        self.take(name, place.page)?;
        self.file.read(&mut buffer, self.offset(place.page))?;
        self.entries(name, place, &buffer, order, entries, sink)?;
        self.buffers.push(buffer);
        Ok(())
    }

    fn entries(
        &mut self,
        name: &str,
        place: Place<'_>,
        buffer: &[u8],
        order: Order,
        entries: &mut u64,
        sink: Sink<'_>,
    ) -> Result<(), KvError> {
        let file = self.file;
        let damaged = |what: &str| file.damaged(&format!("page {} of table {name}: {what}", place.page));
        let page = Page::parse(buffer, place.page, &mut self.scratch)
            .ok_or_else(|| damaged("it is not what belongs there"))?;
        if page.is_leaf != (place.height == 1) {
            return Err(damaged("the tree is not level"));
        }
        let node = |i: usize| page.node(i).ok_or_else(|| damaged("an entry is damaged"));
        let mut previous: Option<&[u8]> = None;
        for i in 0..page.entries() {
            let Node { key, content } = node(i)?;
            // A branch's first key is not used: what is below it begins where the branch does.
            if page.is_leaf || i > 0 {
                let ascends = previous.is_none_or(|p| order.compare(p, key).is_lt())
                    && place.low.is_none_or(|low| order.compare(low, key).is_le())
                    && place.high.is_none_or(|high| order.compare(key, high).is_lt());
                if !ascends {
                    return Err(damaged("its keys are out of order"));
                }
                previous = Some(key);
            }
            match content {
                Content::Child(child) => {
                    let low = if i == 0 { place.low } else { Some(key) };
                    let high = if i + 1 < page.entries() { Some(node(i + 1)?.key) } else { place.high };
                    let child = Place { page: child, height: place.height.saturating_sub(1), low, high };
                    self.page(name, child, order, entries, sink)?;
                }
                Content::Value { bytes, at } => {
                    *entries += 1;
                    let offset = self.offset(place.page).saturating_add(at as u64);
                    let value =
                        Value { offset, len: bytes.len() as u64, inline: Some(bytes), is_table: false };
                    sink(&mut self.seen, key, &value)?;
                }
                Content::Table(bytes) => {
                    *entries += 1;
                    let value =
                        Value { offset: 0, len: bytes.len() as u64, inline: Some(bytes), is_table: true };
                    sink(&mut self.seen, key, &value)?;
                }
                Content::Long { page: first, len } => {
                    *entries += 1;
                    self.take_long(name, first, len)?;
                    let offset = self.offset(first).saturating_add(HEADER as u64);
                    let value = Value { offset, len: u64::from(len), inline: None, is_table: false };
                    sink(&mut self.seen, key, &value)?;
                }
            }
        }
        Ok(())
    }

    /// Notes that `page` is used.
    fn take(&mut self, name: &str, page: u64) -> Result<(), KvError> {
        if !self.seen.mark(page) {
            let detail =
                format!("table {name} leads to page {page}, which is in use elsewhere or does not exist");
            return Err(self.file.damaged(&detail));
        }
        let done = self.seen.count();
        if done - self.told >= PROGRESS_PAGES {
            self.told = done;
            (self.progress)(done, self.total_pages);
        }
        Ok(())
    }

    /// Notes that the pages of a long value are used.
    fn take_long(&mut self, name: &str, first: u64, len: u32) -> Result<(), KvError> {
        // Before it is read: the number may be anything.
        self.take(name, first)?;
        let mut header = [0; HEADER];
        self.file.read(&mut header, self.offset(first))?;
        let pages = long_pages(&header, first, len, self.page_size).ok_or_else(|| {
            self.file.damaged(&format!("page {first} of table {name} does not begin a value of {len} bytes"))
        })?;
        for page in 1..pages {
            self.take(name, first.saturating_add(page))?;
        }
        Ok(())
    }

    fn offset(&self, page: u64) -> u64 {
        page.saturating_mul(self.page_size as u64)
    }
}
