//! Which open files hold which backing file.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::io;

use super::BackingId;
use crate::{Backing, FileId, InodeNo};

/// The backing files of some inodes.
#[derive(Debug, Default)]
pub(super) struct Table {
    inodes: HashMap<InodeNo, Backed>,
}

/// An inode that has one.
#[derive(Debug)]
struct Backed {
    id: BackingId,
    /// To tell it from others.
    backing: Backing,
    /// Never none.
    holders: HashSet<FileId>,
}

impl Table {
    /// `file`, an open file of `ino`, holds `backing` from here on. `open` is asked for an id if the inode has none.
    ///
    /// # Errors
    /// Those of `open`; `EBUSY` if other open files hold another backing file, for the kernel takes one for each inode. Nothing
    /// is held then.
    pub fn hold(
        &mut self,
        ino: InodeNo,
        file: FileId,
        backing: &Backing,
        open: impl FnOnce() -> io::Result<BackingId>,
    ) -> io::Result<BackingId> {
        match self.inodes.entry(ino) {
            Entry::Occupied(mut entry) => {
                let backed = entry.get_mut();
                if backed.backing != *backing {
                    return Err(io::Error::from_raw_os_error(libc::EBUSY));
                }
                backed.holders.insert(file);
                Ok(backed.id)
            }
            Entry::Vacant(entry) => {
                let id = open()?;
                let holders = HashSet::from([file]);
                entry.insert(Backed { id, backing: backing.clone(), holders });
                Ok(id)
            }
        }
    }

    /// `file` holds nothing any more. Answers what is to be closed, if it was the last.
    pub fn release(&mut self, ino: InodeNo, file: FileId) -> Option<Closing> {
        let Entry::Occupied(mut entry) = self.inodes.entry(ino) else { return None };
        entry.get_mut().holders.remove(&file);
        entry.get().holders.is_empty().then(|| Closing::from(entry.remove()))
    }

    /// Nobody holds anything any more.
    pub fn clear(&mut self) -> Vec<Closing> {
        self.inodes.drain().map(|(_, backed)| backed.into()).collect()
    }
}

/// A backing file that nobody holds any more. The file is closed where this is dropped: not under a lock, for the last reference to
/// a file that has no name makes its disk free all of its space.
#[derive(Debug)]
pub(super) struct Closing {
    pub id: BackingId,
    _backing: Backing,
}

impl From<Backed> for Closing {
    fn from(backed: Backed) -> Self {
        Closing { id: backed.id, _backing: backed.backing }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeMap;
    use std::fs::File;
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Hold { ino: u64, backing: usize, refused: bool },
        Release(prop::sample::Index),
        Unknown,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => (0..4_u64, 0..2_usize, prop::bool::weighted(0.1))
                .prop_map(|(ino, backing, refused)| Step::Hold { ino, backing, refused }),
            5 => any::<prop::sample::Index>().prop_map(Step::Release),
            1 => Just(Step::Unknown),
        ]
    }

    proptest! {
        #[test]
        fn one_id_for_each_inode_from_its_first_holder_to_its_last(
            steps in proptest::collection::vec(step(), 0..200),
        ) {
            let backings = [0, 1].map(|_| Backing(Arc::new(File::open("/dev/null").unwrap())));
            let mut table = Table::default();
            let mut next = 1;
            // What is held, by which open file of which inode; and which ids the kernel has.
            let mut held: Vec<(u64, u64)> = Vec::new();
            let mut open: BTreeMap<u64, (i32, usize)> = BTreeMap::new();
            for (number, step) in (1..).zip(steps) {
                match step {
                    Step::Hold { ino, backing, refused } => {
                        let asked = Cell::new(false);
                        let result = table.hold(InodeNo(ino), FileId(number), &backings[backing], || {
                            asked.set(true);
                            if refused {
                                return Err(io::Error::from_raw_os_error(libc::EPERM));
                            }
                            next += 1;
                            Ok(BackingId(next))
                        });
                        prop_assert_eq!(asked.get(), !open.contains_key(&ino));
                        match (open.get(&ino), result) {
                            (Some((id, same)), Ok(got)) => {
                                prop_assert_eq!((got, backing), (BackingId(*id), *same));
                                held.push((ino, number));
                            }
                            (Some((_, other)), Err(error)) => {
                                prop_assert_ne!(backing, *other);
                                prop_assert_eq!(error.raw_os_error(), Some(libc::EBUSY));
                            }
                            (None, Ok(got)) => {
                                prop_assert!(!refused);
                                open.insert(ino, (got.0, backing));
                                held.push((ino, number));
                            }
                            (None, Err(error)) => {
                                prop_assert!(refused && error.raw_os_error() == Some(libc::EPERM));
                            }
                        }
                    }
                    Step::Release(_) if held.is_empty() => {}
                    Step::Release(which) => {
                        let (ino, file) = held.swap_remove(which.index(held.len()));
                        let closed = table.release(InodeNo(ino), FileId(file)).map(|closing| closing.id);
                        let last = !held.iter().any(|(other, _)| *other == ino);
                        let expected = last.then(|| BackingId(open.remove(&ino).unwrap().0));
                        prop_assert_eq!(closed, expected);
                        prop_assert!(table.release(InodeNo(ino), FileId(file)).is_none(), "once only");
                    }
                    Step::Unknown => {
                        prop_assert!((0..4).all(|ino| table.release(InodeNo(ino), FileId(0)).is_none()));
                    }
                }
                let used = 1 + open.values().filter(|(_, backing)| *backing == 0).count();
                prop_assert_eq!(Arc::strong_count(&backings[0].0), used);
            }
            let mut left: Vec<i32> = table.clear().iter().map(|closing| closing.id.0).collect();
            left.sort_unstable();
            let mut expected: Vec<i32> = open.values().map(|(id, _)| *id).collect();
            expected.sort_unstable();
            prop_assert_eq!(left, expected);
            prop_assert!(table.clear().is_empty());
        }
    }
}
