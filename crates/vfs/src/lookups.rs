//! References that the kernel holds on inodes: counted when an entry is answered, given back by FORGET.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use headrace_layout::InodeNo;
use parking_lot::Mutex;

const SHARDS: usize = 32;

/// See the module's description.
pub(crate) struct Lookups {
    shards: Vec<Mutex<HashMap<InodeNo, u64>>>,
}

impl Lookups {
    pub(crate) fn new() -> Self {
        Lookups { shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }

    fn shard(&self, ino: InodeNo) -> &Mutex<HashMap<InodeNo, u64>> {
        &self.shards[(ino.0 % SHARDS as u64) as usize]
    }

    pub(crate) fn add(&self, ino: InodeNo) {
        *self.shard(ino).lock().entry(ino).or_insert(0) += 1;
    }

    /// Whether none is left.
    pub(crate) fn forget(&self, ino: InodeNo, count: u64) -> bool {
        let mut shard = self.shard(ino).lock();
        let Entry::Occupied(mut held) = shard.entry(ino) else { return true };
        let left = held.get().saturating_sub(count);
        if left == 0 {
            held.remove();
        } else {
            *held.get_mut() = left;
        }
        left == 0
    }

    pub(crate) fn any(&self, ino: InodeNo) -> bool {
        self.shard(ino).lock().contains_key(&ino)
    }

    pub(crate) fn len(&self) -> u64 {
        self.shards.iter().map(|s| s.lock().len() as u64).sum()
    }
}
