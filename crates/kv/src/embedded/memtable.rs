//! Writes held in memory: a sorted map in which a deletion is an entry too, so that it hides what lies below.

use std::collections::BTreeMap;
use std::collections::btree_map::Range;
use std::ops::Bound;

/// What an entry costs beyond its bytes: its share of a tree node and two allocations.
const ENTRY_OVERHEAD: u64 = 64;

/// A key's value, or `None` where it was deleted.
pub(super) type Slot = Option<Box<[u8]>>;

#[derive(Default)]
pub(super) struct Memtable {
    entries: BTreeMap<Box<[u8]>, Slot>,
    bytes: u64,
}

impl Memtable {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Keys in it, deleted ones too.
    pub(super) fn keys(&self) -> u64 {
        self.entries.len() as u64
    }

    /// Memory in use, estimated.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// `None`: this table knows nothing of `key`. `Some(None)`: it was deleted here.
    pub(super) fn get(&self, key: &[u8]) -> Option<Option<&[u8]>> {
        self.entries.get(key).map(Option::as_deref)
    }

    pub(super) fn set(&mut self, key: &[u8], value: Option<&[u8]>) {
        self.insert(key.into(), value.map(Into::into));
    }

    /// Takes over everything in `newer`, which wins.
    pub(super) fn absorb(&mut self, newer: Memtable) {
        if self.entries.is_empty() {
            *self = newer;
            return;
        }
        for (key, slot) in newer.entries {
            self.insert(key, slot);
        }
    }

    /// Entries in `[start, end)`.
    pub(super) fn range(&self, start: &[u8], end: &[u8]) -> Range<'_, Box<[u8]>, Slot> {
        // The map panics on a range that ends before it starts.
        let end = end.max(start);
        self.entries.range::<[u8], _>((Bound::Included(start), Bound::Excluded(end)))
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], Option<&[u8]>)> {
        self.entries.iter().map(|(key, slot)| (&**key, slot.as_deref()))
    }

    fn insert(&mut self, key: Box<[u8]>, slot: Slot) {
        let key_bytes = key.len() as u64 + ENTRY_OVERHEAD;
        self.bytes += key_bytes + slot_bytes(&slot);
        if let Some(old) = self.entries.insert(key, slot) {
            self.bytes -= key_bytes + slot_bytes(&old);
        }
    }
}

fn slot_bytes(slot: &Slot) -> u64 {
    slot.as_ref().map_or(0, |value| value.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_what_it_holds_not_what_was_written() {
        let mut table = Memtable::default();
        table.set(b"k", Some(&[0; 100]));
        table.set(b"k", Some(&[0; 10]));
        assert_eq!(table.bytes(), 1 + 10 + ENTRY_OVERHEAD);
        table.set(b"k", None);
        let mut newer = Memtable::default();
        newer.set(b"k", Some(b"12345"));
        newer.set(b"l", None);
        table.absorb(newer);
        assert_eq!(table.bytes(), 2 * (1 + ENTRY_OVERHEAD) + 5);
        assert_eq!(table.get(b"k"), Some(Some(&b"12345"[..])));
        assert_eq!(table.get(b"l"), Some(None));
        assert_eq!(table.get(b"m"), None);
    }
}
