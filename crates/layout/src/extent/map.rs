//! The extents of one chunk as an interval map.

use super::Extent;
use crate::CHUNK_SIZE;

/// The end of a chunk, relative to its start. 64 MiB fit.
const CHUNK_END: u32 = CHUNK_SIZE as u32;

/// The extents of one chunk: sorted, not overlapping; gaps are holes. Extents that continue each other in the same run
/// or inline value are kept as one.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ExtentMap {
    pub(super) extents: Vec<Extent>,
}

impl ExtentMap {
    /// The extents in order.
    pub fn extents(&self) -> &[Extent] {
        &self.extents
    }

    /// The extents in order, by value.
    pub fn into_extents(self) -> Vec<Extent> {
        self.extents
    }

    /// Number of extents.
    pub fn len(&self) -> usize {
        self.extents.len()
    }

    /// Whether the chunk is one hole.
    pub fn is_empty(&self) -> bool {
        self.extents.is_empty()
    }

    /// Bytes that are not holes.
    pub fn covered(&self) -> u64 {
        self.extents.iter().map(|e| u64::from(e.len)).sum()
    }

    /// Puts `extent` in place of whatever was there; returns the (trimmed) extents it displaced.
    ///
    /// # Panics
    /// If the extent is empty, passes the end of the chunk, or passes the end of its run: writing it down would lose
    /// data later, so a caller's mistake stops here.
    pub fn insert(&mut self, mut extent: Extent) -> Vec<Extent> {
        if let Some(defect) = extent.defect() {
            panic!("{defect}: {extent:?}");
        }
        let (mut at, displaced) = self.cut(extent.start, extent.end());
        let joins_next = self.extents.get(at).is_some_and(|next| extent.continued_by(next));
        if joins_next {
            extent.len += self.extents.remove(at).len;
        }
        match at.checked_sub(1).and_then(|before| self.extents.get_mut(before)) {
            Some(previous) if previous.continued_by(&extent) => {
                previous.len += extent.len;
                at -= 1;
            }
            _ => self.extents.insert(at, extent),
        }
        debug_assert!(self.extents[at].defect().is_none());
        displaced
    }

    /// Removes `[start, end)`; returns the (trimmed) extents removed.
    pub fn punch(&mut self, start: u32, end: u32) -> Vec<Extent> {
        self.cut(start, end).1
    }

    /// The extents within `[start, end)`, trimmed to it.
    pub fn slice(&self, start: u32, end: u32) -> Vec<Extent> {
        let first = self.first_after(start);
        self.extents[first..].iter().map_while(|e| e.trim(start, end)).collect()
    }

    /// Cuts the map in two at `at`: keeps what is before, returns what follows, moved so that `at` becomes 0.
    pub fn split_off(&mut self, at: u32) -> ExtentMap {
        let mut extents = self.cut(at, u32::MAX).1;
        for extent in &mut extents {
            extent.start -= at;
        }
        ExtentMap { extents }
    }

    /// Moves every extent `by` bytes up; what passes the end of the chunk is cut off and returned relative to the start of
    /// the next chunk.
    ///
    /// # Panics
    /// If `by` exceeds [`CHUNK_SIZE`].
    pub fn offset_by(&mut self, by: u32) -> ExtentMap {
        assert!(by <= CHUNK_END, "a shift of {by} bytes exceeds a chunk");
        let over = self.split_off(CHUNK_END - by);
        for extent in &mut self.extents {
            extent.start += by;
        }
        over
    }

    /// Inserts all of `other`'s extents; returns what they displaced.
    pub fn append(&mut self, other: ExtentMap) -> Vec<Extent> {
        other.extents.into_iter().flat_map(|extent| self.insert(extent)).collect()
    }

    /// Index of the first extent that ends after `start`.
    fn first_after(&self, start: u32) -> usize {
        self.extents.partition_point(|e| e.end() <= start)
    }

    /// Empties `[start, end)`; returns where an extent at `start` belongs, and what was removed.
    fn cut(&mut self, start: u32, end: u32) -> (usize, Vec<Extent>) {
        let first = self.first_after(start);
        let last = first + self.extents[first..].partition_point(|e| e.start < end);
        if first >= last || start >= end {
            return (first, Vec::new());
        }
        let head = self.extents[first].trim(0, start);
        let tail = self.extents[last - 1].trim(end, u32::MAX);
        let at = first + usize::from(head.is_some());
        let whole = self.extents.splice(first..last, head.into_iter().chain(tail));
        let removed = whole.filter_map(|e| e.trim(start, end)).collect();
        (at, removed)
    }
}
