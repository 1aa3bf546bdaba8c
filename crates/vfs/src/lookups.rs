//! References that the kernel holds on inodes: counted when an entry is answered, given back by FORGET.
//!
//! The kernel may know millions of inodes, most of them made in one go and so with numbers that follow each other, and most
//! referred to once. So counts are bytes, kept for [`GROUP`] neighbours together: a few bytes per inode, and at worst, where
//! no two are neighbours, some fifty. Counts beyond a byte go into a table of their own.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use headrace_layout::InodeNo;
use parking_lot::Mutex;

const SHARDS: usize = 32;
/// Neighbours that share an entry.
const GROUP: u64 = 16;
/// The largest count that fits a byte; one more says that the count is in the other table.
const MOST: u8 = u8::MAX - 1;
const ELSEWHERE: u8 = u8::MAX;

#[derive(Default)]
struct Shard {
    groups: HashMap<u64, [u8; GROUP as usize]>,
    /// Counts above [`MOST`].
    large: HashMap<InodeNo, u64>,
    /// Inodes with a count.
    held: u64,
}

/// See the module's description.
pub(crate) struct Lookups {
    shards: Vec<Mutex<Shard>>,
}

impl Lookups {
    pub(crate) fn new() -> Self {
        Lookups { shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }

    fn shard(&self, ino: InodeNo) -> &Mutex<Shard> {
        &self.shards[(ino.0 / GROUP % SHARDS as u64) as usize]
    }

    pub(crate) fn add(&self, ino: InodeNo) {
        self.shard(ino).lock().add(ino);
    }

    /// Whether none is left.
    pub(crate) fn forget(&self, ino: InodeNo, count: u64) -> bool {
        self.shard(ino).lock().forget(ino, count)
    }

    pub(crate) fn any(&self, ino: InodeNo) -> bool {
        let shard = self.shard(ino).lock();
        shard.groups.get(&(ino.0 / GROUP)).is_some_and(|group| group[place(ino)] > 0)
    }

    /// Inodes referred to.
    pub(crate) fn len(&self) -> u64 {
        self.shards.iter().map(|shard| shard.lock().held).sum()
    }

    /// Memory, bytes.
    pub(crate) fn bytes(&self) -> u64 {
        // An entry and its byte of control.
        let group = size_of::<(u64, [u8; GROUP as usize])>() + 1;
        let large = size_of::<(InodeNo, u64)>() + 1;
        let of = |shard: &Shard| shard.groups.capacity() * group + shard.large.capacity() * large;
        self.shards.iter().map(|shard| of(&shard.lock()) as u64).sum()
    }
}

fn place(ino: InodeNo) -> usize {
    (ino.0 % GROUP) as usize
}

impl Shard {
    fn add(&mut self, ino: InodeNo) {
        let count = &mut self.groups.entry(ino.0 / GROUP).or_default()[place(ino)];
        match *count {
            ELSEWHERE => {
                let large = self.large.entry(ino).or_insert(u64::from(MOST));
                *large = large.saturating_add(1);
            }
            MOST => {
                *count = ELSEWHERE;
                self.large.insert(ino, u64::from(MOST) + 1);
            }
            0 => {
                *count = 1;
                self.held += 1;
            }
            _ => *count += 1,
        }
    }

    fn forget(&mut self, ino: InodeNo, given: u64) -> bool {
        let Entry::Occupied(mut group) = self.groups.entry(ino.0 / GROUP) else { return true };
        let count = &mut group.get_mut()[place(ino)];
        let held = match *count {
            0 => return true,
            ELSEWHERE => self.large.get(&ino).copied().unwrap_or(u64::from(MOST)),
            few => u64::from(few),
        };
        let left = held.saturating_sub(given);
        if left > u64::from(MOST) {
            self.large.insert(ino, left);
            return false;
        }
        if *count == ELSEWHERE {
            self.large.remove(&ino);
        }
        // At most MOST.
        *count = left as u8;
        if left > 0 {
            return false;
        }
        self.held -= 1;
        if group.get().iter().all(|count| *count == 0) {
            group.remove();
            // Memory follows the kernel's cache down, but not at every step.
            if self.groups.len() < self.groups.capacity() / 8 {
                self.groups.shrink_to(self.groups.len() * 2);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Event {
        Add(u64, u64),
        Forget(u64, u64),
    }

    fn events() -> impl Strategy<Value = Vec<Event>> {
        let number = prop_oneof![3 => 1u64..40, 1 => Just(253), 1 => Just(254), 1 => 200u64..600];
        let ino = prop_oneof![1u64..50, Just(u64::MAX), Just(1 << 40)];
        prop::collection::vec(
            (any::<bool>(), ino, number)
                .prop_map(|(add, ino, n)| if add { Event::Add(ino, n) } else { Event::Forget(ino, n) }),
            0..120,
        )
    }

    proptest! {
        #[test]
        fn counts_as_a_table_of_numbers_does(events in events()) {
            let lookups = Lookups::new();
            let mut model: HashMap<u64, u64> = HashMap::new();
            for event in events {
                match event {
                    Event::Add(ino, n) => {
                        (0..n).for_each(|_| lookups.add(InodeNo(ino)));
                        *model.entry(ino).or_default() += n;
                    }
                    Event::Forget(ino, n) => {
                        let count = model.entry(ino).or_default();
                        *count = count.saturating_sub(n);
                        let none = *count == 0;
                        prop_assert_eq!(lookups.forget(InodeNo(ino), n), none);
                    }
                }
                model.retain(|_, count| *count > 0);
                prop_assert_eq!(lookups.len(), model.len() as u64);
                for ino in [1, 17, 49, u64::MAX, 1 << 40] {
                    prop_assert_eq!(lookups.any(InodeNo(ino)), model.contains_key(&ino));
                }
            }
            for (ino, count) in model {
                prop_assert!(lookups.forget(InodeNo(ino), count));
            }
            prop_assert_eq!(lookups.len(), 0);
        }
    }

    #[test]
    fn a_million_neighbours_take_a_few_bytes_each_and_none_when_forgotten() {
        let lookups = Lookups::new();
        for ino in 1..=1_000_000 {
            lookups.add(InodeNo(ino));
        }
        assert!(lookups.bytes() < 4_000_000, "{} bytes", lookups.bytes());
        for ino in 1..=1_000_000 {
            assert!(lookups.forget(InodeNo(ino), 1));
        }
        assert_eq!(lookups.len(), 0);
        assert!(lookups.bytes() < 64 << 10, "{} bytes", lookups.bytes());
    }

    #[test]
    fn inodes_without_neighbours_take_some_fifty_bytes() {
        let lookups = Lookups::new();
        for n in 1..=200_000u64 {
            lookups.add(InodeNo(n * 1000));
        }
        assert!(lookups.bytes() < 200_000 * 60, "{} bytes", lookups.bytes());
    }
}
