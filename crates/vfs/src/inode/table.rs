//! Finds the state of a file by its inode number.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Deref;
use std::sync::Arc;

use headrace_layout::InodeNo;
use headrace_meta::Attr;
use parking_lot::Mutex;

use super::Inode;
use crate::error::Result;

const SHARDS: usize = 16;

struct Slot {
    inode: Arc<Inode>,
    pins: u32,
}

/// All files that are open or dirty.
pub(crate) struct InodeTable {
    shards: Vec<Mutex<HashMap<InodeNo, Slot>>>,
}

impl InodeTable {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(InodeTable { shards: (0..SHARDS).map(|_| Mutex::default()).collect() })
    }

    fn shard(&self, ino: InodeNo) -> &Mutex<HashMap<InodeNo, Slot>> {
        &self.shards[(ino.0 % SHARDS as u64) as usize]
    }

    /// The state, made from `load` if there is none, and kept while the answer lives.
    pub(crate) fn pin(self: &Arc<Self>, ino: InodeNo, load: impl FnOnce() -> Result<Attr>) -> Result<Pinned> {
        let mut shard = self.shard(ino).lock();
        let slot = match shard.entry(ino) {
            Entry::Occupied(slot) => slot.into_mut(),
            Entry::Vacant(vacant) => {
                let inode = Arc::new(Inode::new(ino, &load()?));
                vacant.insert(Slot { inode, pins: 0 })
            }
        };
        Ok(self.pin_slot(slot))
    }

    /// The state, if there is one.
    pub(crate) fn find(self: &Arc<Self>, ino: InodeNo) -> Option<Pinned> {
        self.shard(ino).lock().get_mut(&ino).map(|slot| self.pin_slot(slot))
    }

    fn pin_slot(self: &Arc<Self>, slot: &mut Slot) -> Pinned {
        slot.pins += 1;
        Pinned { table: Arc::clone(self), inode: Arc::clone(&slot.inode) }
    }

    pub(crate) fn contains(&self, ino: InodeNo) -> bool {
        self.shard(ino).lock().contains_key(&ino)
    }

    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|s| s.lock().len()).sum()
    }

    /// Every file there is at some moment.
    pub(crate) fn all(&self) -> Vec<Arc<Inode>> {
        self.shards
            .iter()
            .flat_map(|s| s.lock().values().map(|slot| Arc::clone(&slot.inode)).collect::<Vec<_>>())
            .collect()
    }

    /// Drops the state if nobody pins it, everything is committed and nothing staged. Whether it is gone.
    pub(crate) fn evict(&self, ino: InodeNo) -> bool {
        let mut shard = self.shard(ino).lock();
        let Some(slot) = shard.get(&ino) else { return true };
        let idle = slot.pins == 0 && {
            let state = slot.inode.state.lock();
            state.dirty.is_clean() && state.staged.is_none()
        };
        if idle {
            shard.remove(&ino);
        }
        idle
    }

    /// Whether nobody pins it.
    pub(crate) fn is_unpinned(&self, ino: InodeNo) -> bool {
        self.shard(ino).lock().get(&ino).is_none_or(|slot| slot.pins == 0)
    }

    fn unpin(&self, ino: InodeNo) {
        if let Some(slot) = self.shard(ino).lock().get_mut(&ino) {
            slot.pins = slot.pins.saturating_sub(1);
        }
        self.evict(ino);
    }
}

/// Keeps a file's state in the table.
pub(crate) struct Pinned {
    table: Arc<InodeTable>,
    inode: Arc<Inode>,
}

impl Deref for Pinned {
    type Target = Arc<Inode>;

    fn deref(&self) -> &Arc<Inode> {
        &self.inode
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        self.table.unpin(self.inode.ino);
    }
}
