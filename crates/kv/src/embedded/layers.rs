//! The layers a read looks through, and a view over them.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::sync::Arc;

use super::lmdb::{Lmdb, Snapshot};
use super::memtable::Memtable;
use super::merge::{Direction, Source, merge};
use crate::{CommitSeq, KvError, MAX_KEY_BYTES, Read, Visit};

/// A memtable that takes no more writes and is on its way to disk.
pub(super) struct Frozen {
    pub(super) table: Memtable,
    /// The position before its first transaction.
    pub(super) after: CommitSeq,
    /// The newest transaction in it.
    pub(super) upto: CommitSeq,
    /// When it was frozen: milliseconds since the Unix epoch.
    pub(super) at_ms: u64,
}

/// Newest first. Changed under the write lock only.
pub(super) struct Layers {
    pub(super) active: Memtable,
    pub(super) frozen: Option<Arc<Frozen>>,
    /// `None` once the engine is closed.
    pub(super) store: Option<Arc<Lmdb>>,
    /// The newest transaction in `active`.
    pub(super) position: CommitSeq,
}

impl Layers {
    pub(super) fn view(&self) -> Result<View<'_>, KvError> {
        let store = self.store.as_deref().ok_or(KvError::Closed)?;
        Ok(View { layers: self, store, snapshot: OnceCell::new() })
    }

    /// Bytes not yet durable.
    pub(super) fn pending_bytes(&self) -> u64 {
        self.active.bytes() + self.frozen.as_ref().map_or(0, |f| f.table.bytes())
    }
}

/// A consistent view: the layers as they are while the read lock is held.
pub(super) struct View<'l> {
    layers: &'l Layers,
    store: &'l Lmdb,
    /// Opened by the first read that no memtable answers.
    snapshot: OnceCell<Snapshot<'l>>,
}

impl<'l> View<'l> {
    pub(super) fn lookup(&self, key: &[u8]) -> Result<Option<&[u8]>, KvError> {
        if let Some(known) = self.layers.active.get(key) {
            return Ok(known);
        }
        if let Some(known) = self.layers.frozen.as_ref().and_then(|f| f.table.get(key)) {
            return Ok(known);
        }
        if key.is_empty() || key.len() > MAX_KEY_BYTES {
            return Ok(None);
        }
        self.snapshot()?.get(key)
    }

    /// Walks `[start, end)` through all layers, with `newest` on top.
    pub(super) fn walk(
        &self,
        newest: Option<&Memtable>,
        start: &[u8],
        end: &[u8],
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), KvError> {
        if start >= end {
            return Ok(());
        }
        let frozen = self.layers.frozen.as_ref().map(|f| &f.table);
        let memory = [newest, Some(&self.layers.active), frozen];
        let memory = memory.into_iter().flatten().map(|t| Source::Memory(t.range(start, end)));
        let disk = self.snapshot()?.range(start, end, direction)?;
        merge(memory.chain(disk), direction, visit)
    }

    fn snapshot(&self) -> Result<&Snapshot<'l>, KvError> {
        if let Some(snapshot) = self.snapshot.get() {
            return Ok(snapshot);
        }
        let opened = self.store.snapshot()?;
        Ok(self.snapshot.get_or_init(|| opened))
    }
}

impl Read for View<'_> {
    fn get<'a>(&'a self, key: &[u8]) -> Result<Option<Cow<'a, [u8]>>, KvError> {
        Ok(self.lookup(key)?.map(Cow::Borrowed))
    }

    fn scan(&self, start: &[u8], end: &[u8], visit: Visit<'_>) -> Result<(), KvError> {
        self.walk(None, start, end, Direction::Forward, visit)
    }

    fn scan_reverse(&self, start: &[u8], end: &[u8], visit: Visit<'_>) -> Result<(), KvError> {
        self.walk(None, start, end, Direction::Reverse, visit)
    }
}
