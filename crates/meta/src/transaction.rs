//! One transaction of the namespace: changes are collected and their consequences (totals, live bytes, queues) written
//! once, at the end.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;

use headrace_kv::{Read, Txn};
use headrace_layout::{Extent, ExtentData, InodeNo, SegmentId};

use crate::record::{Counters, Entry, InlineRecord, Inode, NOWHERE, SegmentRecord};
use crate::{DirTotals, Kind, MetaError, Result, Time, key};

/// An inode as the engine has it and as it will be.
struct Cached {
    stored: Option<Inode>,
    current: Option<Inode>,
}

#[derive(Default)]
struct SegmentChange {
    /// Bytes referenced, less bytes let go.
    live: i64,
    /// Stored length, if the segment is named for the first time.
    register: Option<u64>,
}

/// A transaction in progress.
pub(crate) struct Tx<'a> {
    txn: &'a mut dyn Txn,
    /// The time of everything that happens in it.
    pub now: Time,
    inodes: BTreeMap<InodeNo, Cached>,
    counters: Option<(Counters, Counters)>,
    segments: BTreeMap<SegmentId, SegmentChange>,
    inline: BTreeMap<u64, i64>,
}

impl<'a> Tx<'a> {
    pub(crate) fn new(txn: &'a mut dyn Txn, now: Time) -> Tx<'a> {
        Tx {
            txn,
            now,
            inodes: BTreeMap::new(),
            counters: None,
            segments: BTreeMap::new(),
            inline: BTreeMap::new(),
        }
    }

    /// The view underneath. It does not show changed inodes and counters until [`Tx::finish`].
    pub(crate) fn read(&self) -> &dyn Read {
        &*self.txn
    }

    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) {
        self.txn.put(key, value);
    }

    pub(crate) fn delete(&mut self, key: &[u8]) {
        self.txn.delete(key);
    }

    fn cached(&mut self, ino: InodeNo) -> Result<&mut Cached> {
        match self.inodes.entry(ino) {
            Slot::Occupied(slot) => Ok(slot.into_mut()),
            Slot::Vacant(slot) => {
                let stored = Inode::load(&*self.txn, ino)?;
                Ok(slot.insert(Cached { current: stored.clone(), stored }))
            }
        }
    }

    /// The inode, if it exists; changes to it are kept.
    pub(crate) fn find_inode(&mut self, ino: InodeNo) -> Result<Option<&mut Inode>> {
        Ok(self.cached(ino)?.current.as_mut())
    }

    /// The inode; changes to it are kept.
    pub(crate) fn inode(&mut self, ino: InodeNo) -> Result<&mut Inode> {
        self.find_inode(ino)?.ok_or(MetaError::NotFound)
    }

    /// A directory that still has a name.
    pub(crate) fn directory(&mut self, dir: InodeNo) -> Result<&mut Inode> {
        let inode = self.inode(dir)?;
        if !inode.is_dir() {
            return Err(MetaError::NotDirectory);
        }
        if inode.nlink == 0 {
            return Err(MetaError::NotFound);
        }
        Ok(inode)
    }

    /// A new inode; answers its number.
    pub(crate) fn add_inode(&mut self, inode: Inode) -> Result<InodeNo> {
        let counters = self.counters()?;
        let ino = InodeNo(counters.next_ino);
        counters.next_ino =
            counters.next_ino.checked_add(1).ok_or(MetaError::NoSpace("no inode number is left"))?;
        self.inodes.insert(ino, Cached { stored: None, current: Some(inode) });
        Ok(ino)
    }

    /// A new inode under a number that is free: for rebuilds.
    pub(crate) fn add_inode_as(&mut self, ino: InodeNo, inode: Inode) -> Result<()> {
        let counters = self.counters()?;
        let next = ino.0.checked_add(1).ok_or(MetaError::NoSpace("no inode number is left"))?;
        counters.next_ino = counters.next_ino.max(next);
        self.inodes.insert(ino, Cached { stored: None, current: Some(inode) });
        Ok(())
    }

    pub(crate) fn remove_inode(&mut self, ino: InodeNo) -> Result<()> {
        self.cached(ino)?.current = None;
        Ok(())
    }

    /// Allocators and totals; changes are kept.
    pub(crate) fn counters(&mut self) -> Result<&mut Counters> {
        if self.counters.is_none() {
            let counters = Counters::load(&*self.txn)?;
            self.counters = Some((counters, counters));
        }
        match &mut self.counters {
            Some((_, current)) => Ok(current),
            None => Err(MetaError::Corrupt("the counters are missing".into())),
        }
    }

    pub(crate) fn entry(&self, dir: InodeNo, name: &[u8]) -> Result<Option<Entry>> {
        Entry::load(self.read(), dir, name)
    }

    /// The entry under a name that must exist.
    pub(crate) fn require_entry(&self, dir: InodeNo, name: &[u8]) -> Result<Entry> {
        self.entry(dir, name)?.ok_or(MetaError::NotFound)
    }

    /// Writes or replaces a name.
    pub(crate) fn put_entry(&mut self, dir: InodeNo, name: &[u8], entry: &Entry) {
        self.put(&key::entry(dir, name), &entry.encode());
        self.put(&key::position(dir, entry.cookie), &entry.encode_position(name));
    }

    /// Removes a name.
    pub(crate) fn delete_entry(&mut self, dir: InodeNo, name: &[u8], entry: &Entry) {
        self.delete(&key::entry(dir, name));
        self.delete(&key::position(dir, entry.cookie));
    }

    /// Writes a new name at the end of the directory.
    pub(crate) fn append_entry(&mut self, dir: InodeNo, name: &[u8], ino: InodeNo, kind: Kind) -> Result<()> {
        let parent = self.directory(dir)?;
        let cookie = parent.next_cookie;
        parent.next_cookie =
            cookie.checked_add(1).ok_or(MetaError::NoSpace("the directory is out of positions"))?;
        self.put_entry(dir, name, &Entry { ino, kind, cookie });
        Ok(())
    }

    /// One subdirectory more.
    pub(crate) fn gain_subdirectory(&mut self, dir: InodeNo) -> Result<()> {
        let parent = self.directory(dir)?;
        parent.nlink = parent.nlink.checked_add(1).ok_or(MetaError::TooManyLinks)?;
        Ok(())
    }

    /// One subdirectory less.
    pub(crate) fn lose_subdirectory(&mut self, dir: InodeNo) -> Result<()> {
        let parent = self.inode(dir)?;
        match parent.nlink.checked_sub(1) {
            Some(nlink) if nlink >= 2 => parent.nlink = nlink,
            _ => {
                return Err(MetaError::Corrupt(format!("directory {dir} counts fewer links than it has")));
            }
        }
        Ok(())
    }

    /// Sets mtime and ctime of a directory whose names change.
    pub(crate) fn touch(&mut self, dir: InodeNo) -> Result<()> {
        let now = self.now;
        self.inode(dir)?.modified(now);
        Ok(())
    }

    /// A segment that was uploaded. Naming one again changes nothing.
    pub(crate) fn register_segments(&mut self, segments: &[(SegmentId, u64)]) {
        for (id, stored) in segments {
            self.segments.entry(*id).or_default().register = Some(*stored);
        }
    }

    /// An extent refers to bytes.
    pub(crate) fn reference(&mut self, len: u32, data: &ExtentData) {
        self.count(data, i64::from(len));
    }

    /// Extents no longer refer to their bytes.
    pub(crate) fn release(&mut self, extents: &[Extent]) {
        for extent in extents {
            self.count(&extent.data, -i64::from(extent.len));
        }
    }

    fn count(&mut self, data: &ExtentData, delta: i64) {
        match data {
            ExtentData::Segment(slice) => self.segments.entry(slice.segment).or_default().live += delta,
            ExtentData::Inline { id, .. } => *self.inline.entry(*id).or_default() += delta,
        }
    }

    /// Stores an inline value that nothing refers to yet; unless something does by [`Tx::finish`], it goes again.
    pub(crate) fn add_inline(&mut self, ino: InodeNo, offset: u64, len: u32, sealed: &[u8]) -> Result<u64> {
        let sealed_len = u32::try_from(sealed.len()).map_err(|_| MetaError::FileTooBig)?;
        let counters = self.counters()?;
        let id = counters.next_inline;
        counters.next_inline =
            id.checked_add(1).ok_or(MetaError::NoSpace("no inline value number is left"))?;
        counters.inline_bytes = counters.inline_bytes.wrapping_add(u64::from(sealed_len));
        self.put(&key::inline(ino, id), sealed);
        let record = InlineRecord { ino, offset, len, sealed: sealed_len, live: 0 };
        self.put(&key::packing(id), &record.encode());
        self.inline.entry(id).or_default();
        Ok(id)
    }

    /// Writes everything down.
    pub(crate) fn finish(mut self) -> Result<()> {
        self.finish_inodes()?;
        self.finish_inline()?;
        self.finish_segments()?;
        if let Some((stored, current)) = self.counters
            && stored != current
        {
            self.txn.put(key::COUNTERS, &current.encode());
        }
        Ok(())
    }

    fn finish_inodes(&mut self) -> Result<()> {
        let mut homes: BTreeMap<InodeNo, DirTotals> = BTreeMap::new();
        let (mut inodes, mut bytes) = (0u64, 0u64);
        for (&ino, Cached { stored, current }) in &self.inodes {
            if stored == current {
                continue;
            }
            match current {
                Some(inode) => self.txn.put(&key::inode(ino), &inode.encode()),
                None => self.txn.delete(&key::inode(ino)),
            }
            if let Some(inode) = stored {
                inodes = inodes.wrapping_sub(1);
                bytes = bytes.wrapping_sub(inode.allocated);
                if let Some(home) = counted_in(ino, inode) {
                    let total = homes.entry(home).or_default();
                    *total = total.minus(inode.usage());
                }
            }
            if let Some(inode) = current {
                inodes = inodes.wrapping_add(1);
                bytes = bytes.wrapping_add(inode.allocated);
                if let Some(home) = counted_in(ino, inode) {
                    let total = homes.entry(home).or_default();
                    *total = total.plus(inode.usage());
                }
            }
        }
        for (home, delta) in homes {
            if delta == DirTotals::default() {
                continue;
            }
            let totals = DirTotals::load(self.read(), home)?.plus(delta);
            if totals == DirTotals::default() {
                self.delete(&key::usage(home));
            } else {
                self.put(&key::usage(home), &totals.encode());
            }
        }
        if inodes != 0 || bytes != 0 {
            let counters = self.counters()?;
            counters.inodes = counters.inodes.wrapping_add(inodes);
            counters.bytes = counters.bytes.wrapping_add(bytes);
        }
        Ok(())
    }

    fn finish_inline(&mut self) -> Result<()> {
        for (id, delta) in std::mem::take(&mut self.inline) {
            let Some(mut record) = InlineRecord::load(self.read(), id)? else {
                if delta > 0 {
                    return Err(MetaError::Corrupt(format!("inline value {id} has no record")));
                }
                // Letting go of what is gone already must stay possible, or its file could never be deleted.
                tracing::warn!(id, "an inline value without a record was released");
                continue;
            };
            let live = i64::from(record.live) + delta;
            if live <= 0 {
                self.delete(&key::packing(id));
                self.delete(&key::inline(record.ino, id));
                let counters = self.counters()?;
                counters.inline_bytes = counters.inline_bytes.saturating_sub(u64::from(record.sealed));
            } else if delta != 0 {
                record.live = u32::try_from(live)
                    .map_err(|_| MetaError::Corrupt(format!("inline value {id} is referred to too often")))?;
                self.put(&key::packing(id), &record.encode());
            }
        }
        Ok(())
    }

    fn finish_segments(&mut self) -> Result<()> {
        for (id, change) in std::mem::take(&mut self.segments) {
            if change.live == 0 && change.register.is_none() {
                continue;
            }
            let before = SegmentRecord::load(self.read(), id)?;
            let mut record = match (before, change.register) {
                (Some(record), _) => record,
                (None, Some(stored)) => SegmentRecord { stored, live: 0, dead_since: None },
                (None, None) if change.live > 0 => {
                    return Err(MetaError::Invalid("an extent names a segment that was not registered"));
                }
                (None, None) => {
                    tracing::warn!(segment = ?id, "bytes of an unknown segment were released");
                    continue;
                }
            };
            record.live = match record.live.checked_add_signed(change.live) {
                Some(live) => live,
                None => {
                    tracing::warn!(segment = ?id, "more bytes were released than were live");
                    0
                }
            };
            match (record.live, record.dead_since) {
                (0, None) => {
                    record.dead_since = Some(self.now);
                    self.put(&key::dead(self.now, id), &[]);
                }
                (1.., Some(since)) => {
                    record.dead_since = None;
                    self.delete(&key::dead(since, id));
                }
                _ => {}
            }
            if before != Some(record) {
                self.put(&key::segment(id), &record.encode());
            }
        }
        Ok(())
    }
}

/// The directory whose totals count the inode.
pub(crate) fn counted_in(ino: InodeNo, inode: &Inode) -> Option<InodeNo> {
    (ino != InodeNo::ROOT && inode.home != NOWHERE).then_some(inode.home)
}
