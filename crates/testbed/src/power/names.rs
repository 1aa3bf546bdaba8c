//! Directories: the durable names, and the changes of names that no sync has covered yet.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::disk::Ino;
use crate::Rng;

/// The names of each directory.
pub(super) type Directories = HashMap<Ino, BTreeMap<Vec<u8>, Ino>>;

/// What one system call did to names: `(directory, name, what it names from now on)`. All of it is durable at once.
pub(super) type Change = Vec<(Ino, Vec<u8>, Option<Ino>)>;

#[derive(Debug, Default)]
pub(super) struct Names {
    durable: Directories,
    unsynced: Vec<Change>,
}

impl Names {
    pub(super) fn record(&mut self, change: Change) {
        self.unsynced.push(change);
    }

    /// Makes the names in `directory` durable, with whatever is tied to them by a rename.
    pub(super) fn sync(&mut self, directory: Ino) {
        // Backwards: a change that is needed needs everything before it in the directories it concerns.
        let mut needed = BTreeSet::from([directory]);
        let mut keep = vec![false; self.unsynced.len()];
        for (index, change) in self.unsynced.iter().enumerate().rev() {
            if change.iter().any(|(dir, _, _)| needed.contains(dir)) {
                keep[index] = true;
                needed.extend(change.iter().map(|(dir, _, _)| *dir));
            }
        }
        let mut rest = Vec::new();
        for (change, keep) in std::mem::take(&mut self.unsynced).into_iter().zip(keep) {
            if keep {
                apply(&mut self.durable, &change);
            } else {
                rest.push(change);
            }
        }
        self.unsynced = rest;
    }

    /// Whether a power cut could still show `ino` under some name.
    pub(super) fn may_show(&self, ino: Ino) -> bool {
        let named = |target: &Option<Ino>| *target == Some(ino);
        self.durable.values().any(|names| names.values().any(|target| *target == ino))
            || self.unsynced.iter().flatten().any(|(_, _, target)| named(target))
    }

    /// The names that may be left after a power cut.
    pub(super) fn after_cut(&self, rng: &mut Rng) -> Directories {
        let lost_percent = match rng.below(4) {
            0 => 0,
            1 => 100,
            _ => rng.below(60),
        };
        let mut left = self.durable.clone();
        let mut stopped: BTreeSet<Ino> = BTreeSet::new();
        for change in &self.unsynced {
            let lost =
                change.iter().any(|(dir, _, _)| stopped.contains(dir)) || rng.below(100) < lost_percent;
            if lost {
                stopped.extend(change.iter().map(|(dir, _, _)| *dir));
            } else {
                apply(&mut left, change);
            }
        }
        left
    }
}

fn apply(directories: &mut Directories, change: &Change) {
    for (directory, name, target) in change {
        let names = directories.entry(*directory).or_default();
        match target {
            Some(ino) => names.insert(name.clone(), *ino),
            None => names.remove(name),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Ino = 1;
    const B: Ino = 2;

    fn name(text: &str) -> Vec<u8> {
        text.as_bytes().to_vec()
    }

    #[test]
    fn a_directory_keeps_its_order_and_a_rename_is_in_both_or_neither() {
        let mut names = Names::default();
        names.record(vec![(A, name("one"), Some(10))]);
        names.record(vec![(A, name("two"), Some(11))]);
        names.record(vec![(A, name("two"), None), (B, name("moved"), Some(11))]);
        names.record(vec![(B, name("last"), Some(12))]);
        let mut seen = BTreeSet::new();
        for seed in 0..500 {
            let left = names.after_cut(&mut Rng::new(seed));
            let has =
                |dir: Ino, text: &str| left.get(&dir).is_some_and(|names| names.contains_key(&name(text)));
            assert!(!(has(A, "two") && has(B, "moved")));
            assert!(!has(B, "moved") || has(A, "one"), "order in one directory");
            assert!(!has(B, "last") || has(B, "moved"), "order in one directory");
            seen.insert((has(A, "one"), has(A, "two"), has(B, "moved"), has(B, "last")));
        }
        assert_eq!(seen.len(), 5, "every prefix: {seen:?}");
    }

    #[test]
    fn a_sync_takes_along_what_a_rename_ties_to_it() {
        let mut names = Names::default();
        names.record(vec![(A, name("file"), Some(10))]);
        names.record(vec![(A, name("file"), None), (B, name("file"), Some(10))]);
        names.record(vec![(A, name("later"), Some(11))]);
        names.sync(B);
        for seed in 0..100 {
            let left = names.after_cut(&mut Rng::new(seed));
            assert_eq!(left[&B].get(&name("file")), Some(&10));
            assert!(!left[&A].contains_key(&name("file")));
        }
        assert!(!names.durable[&A].contains_key(&name("later")), "that was after");
        assert!(names.may_show(11) && names.may_show(10) && !names.may_show(12));
    }
}
