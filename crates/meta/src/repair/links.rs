//! Fifth step: which of a file's names is its home, and records of the others.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use headrace_kv::Read;
use headrace_layout::InodeNo;

use super::overlay::Overlay;
use super::{Repairer, text};
use crate::key::Key;
use crate::record::Entry;
use crate::{Result, key};

/// A name: the directory, the name, whether it has a record of a further name.
type Name = (InodeNo, Vec<u8>, bool);

/// The home among a file's names, of which there is at least one: the one that looks like it, else one in the directory
/// that the inode says, else the first.
fn choose_home(names: &[Name], home: InodeNo) -> usize {
    let plain = names.iter().position(|(dir, _, recorded)| !recorded && *dir == home);
    plain.or_else(|| names.iter().position(|(dir, ..)| *dir == home)).unwrap_or(0)
}

impl Repairer<'_> {
    pub(super) fn repair_links(&mut self) -> Result<()> {
        self.drop_stale_links()?;
        let doubtful = self.doubtful()?;
        if doubtful.is_empty() {
            return Ok(());
        }
        for (ino, names) in self.names_of(&doubtful)? {
            let Some(facts) = self.facts.get_mut(&ino) else { continue };
            let chosen = choose_home(&names, facts.home);
            let Some((home, ..)) = names.get(chosen) else { continue };
            facts.home = *home;
            for (index, (dir, name, _)) in names.iter().enumerate() {
                let record = key::link(ino, *dir, name);
                let changed =
                    if index == chosen { self.kv.delete(&record)? } else { self.kv.put(&record, &[])? };
                if changed {
                    self.fixed(
                        "link",
                        format!(
                            "name {:?} of inode {ino} in directory {dir} is recorded rightly",
                            text(name)
                        ),
                    );
                }
            }
        }
        Ok(())
    }

    /// Records of further names that lead to no such name.
    fn drop_stale_links(&mut self) -> Result<()> {
        let mut range = Overlay::all(key::LINK);
        loop {
            let page = self.kv.page(&mut range)?;
            if page.is_empty() {
                return Ok(());
            }
            for (key, _) in page {
                let Some(Key::Link(ino, dir, name)) = Key::parse(&key) else { continue };
                let named = Entry::load(&self.kv, dir, name)?.is_some_and(|entry| entry.ino == ino);
                if !named || self.facts.get(&ino).is_none_or(|facts| facts.is_dir()) {
                    self.kv.delete(&key)?;
                    self.fixed(
                        "link",
                        format!("inode {ino} records the name {:?} in directory {dir} no more", text(name)),
                    );
                }
            }
        }
    }

    /// Files with other than one home name.
    fn doubtful(&mut self) -> Result<BTreeSet<InodeNo>> {
        let mut homes: HashMap<InodeNo, u32> = HashMap::new();
        let mut wrong = BTreeSet::new();
        self.each_name(|repairer, ino, dir, _, recorded| {
            if recorded {
                return;
            }
            let home = repairer.facts.get(&ino).map(|facts| facts.home);
            let homes = homes.entry(ino).or_default();
            *homes += 1;
            if *homes > 1 || home != Some(dir) {
                wrong.insert(ino);
            }
        })?;
        wrong.extend(
            self.facts
                .iter()
                .filter(|(ino, facts)| !facts.is_dir() && facts.names > 0 && !homes.contains_key(ino))
                .map(|(ino, _)| *ino),
        );
        Ok(wrong)
    }

    fn names_of(&mut self, inodes: &BTreeSet<InodeNo>) -> Result<BTreeMap<InodeNo, Vec<Name>>> {
        let mut names: BTreeMap<InodeNo, Vec<Name>> = BTreeMap::new();
        self.each_name(|_, ino, dir, name, recorded| {
            if inodes.contains(&ino) {
                names.entry(ino).or_default().push((dir, name.to_vec(), recorded));
            }
        })?;
        Ok(names)
    }

    /// Visits the names of everything but directories: inode, directory, name, whether it is recorded as a further one.
    fn each_name(&mut self, mut visit: impl FnMut(&Self, InodeNo, InodeNo, &[u8], bool)) -> Result<()> {
        let mut range = Overlay::all(key::ENTRY);
        loop {
            let page = self.kv.page(&mut range)?;
            if page.is_empty() {
                return Ok(());
            }
            for (key, value) in page {
                let (Some(Key::Entry(dir, name)), Ok(entry)) = (Key::parse(&key), Entry::decode(&value))
                else {
                    continue;
                };
                if self.facts.get(&entry.ino).is_some_and(|facts| !facts.is_dir()) {
                    let recorded = self.kv.get(&key::link(entry.ino, dir, name))?.is_some();
                    visit(self, entry.ino, dir, name, recorded);
                }
            }
        }
    }
}
