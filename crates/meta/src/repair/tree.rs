//! Fourth step: everything leads up to the root. What does not gets a name in `lost+found`.

use std::collections::{BTreeSet, HashSet};

use headrace_layout::InodeNo;

use super::Repairer;
use super::facts::{Facts, substitute};
use crate::record::{Entry, Inode};
use crate::{Kind, Result, key};

/// The directory, in the root, for what has no name.
const LOST_FOUND: &str = "lost+found";

impl Repairer<'_> {
    pub(super) fn repair_tree(&mut self) -> Result<()> {
        self.repair_orphans()?;
        let nameless: Vec<InodeNo> = self
            .facts
            .iter()
            .filter(|(ino, facts)| facts.names == 0 && !facts.orphan && **ino != InodeNo::ROOT)
            .map(|(ino, _)| *ino)
            .collect();
        for ino in nameless {
            self.name_lost(ino)?;
        }
        for ino in self.one_of_each_cycle() {
            self.take_out(ino)?;
            self.name_lost(ino)?;
        }
        for (ino, (parent, _)) in &self.directories {
            if let Some(facts) = self.facts.get_mut(ino) {
                facts.home = *parent;
            }
            if let Some(parent) = self.facts.get_mut(parent) {
                parent.subdirectories = parent.subdirectories.saturating_add(1);
            }
        }
        Ok(())
    }

    /// What has a name, or names in it, is no orphan.
    fn repair_orphans(&mut self) -> Result<()> {
        let wrong: Vec<InodeNo> = self
            .facts
            .iter()
            .filter(|(_, facts)| facts.orphan && (facts.names > 0 || facts.entries > 0))
            .map(|(ino, _)| *ino)
            .collect();
        for ino in wrong {
            self.kv.delete(&key::orphan(ino))?;
            if let Some(facts) = self.facts.get_mut(&ino) {
                facts.orphan = false;
            }
            self.fixed("orphan", format!("inode {ino} is no longer recorded as deleted: it is in use"));
        }
        Ok(())
    }

    /// Of every ring of directories that are each other's ancestors, the one with the lowest number.
    fn one_of_each_cycle(&self) -> BTreeSet<InodeNo> {
        let mut settled = HashSet::from([InodeNo::ROOT]);
        let mut found = BTreeSet::new();
        for &start in self.directories.keys() {
            let mut path = Vec::new();
            let mut on_path = HashSet::new();
            let mut at = start;
            while !settled.contains(&at) && on_path.insert(at) {
                path.push(at);
                match self.directories.get(&at) {
                    Some((parent, _)) => at = *parent,
                    None => break,
                }
            }
            if !settled.contains(&at)
                && self.directories.contains_key(&at)
                && let Some(first) = path.iter().position(|dir| *dir == at)
                && let Some(lowest) = path[first..].iter().min()
            {
                found.insert(*lowest);
            }
            settled.extend(path);
        }
        found
    }

    /// Removes the name of a directory.
    fn take_out(&mut self, ino: InodeNo) -> Result<()> {
        let Some((parent, name)) = self.directories.remove(&ino) else { return Ok(()) };
        if let Some(entry) = Entry::load(&self.kv, parent, &name)? {
            self.kv.delete(&key::entry(parent, &name))?;
            self.kv.delete(&key::position(parent, entry.cookie))?;
        }
        if let Some(facts) = self.facts.get_mut(&ino) {
            facts.names = 0;
        }
        self.lost(
            "name",
            format!("directory {ino} was below itself: its name {:?} is removed", super::text(&name)),
        );
        Ok(())
    }

    /// Gives an inode a name in `lost+found`.
    fn name_lost(&mut self, ino: InodeNo) -> Result<()> {
        let dir = self.lost_found()?;
        let name = self.free_name(dir, &ino.0.to_string())?;
        self.add_name(dir, name.as_bytes(), ino)?;
        self.fixed("lost", format!("inode {ino} had no name: it is /{LOST_FOUND}/{name} now"));
        Ok(())
    }

    fn add_name(&mut self, dir: InodeNo, name: &[u8], ino: InodeNo) -> Result<()> {
        let cookie = self.take_cookie(dir);
        let Some(facts) = self.facts.get_mut(&ino) else { return Ok(()) };
        facts.names = facts.names.saturating_add(1);
        facts.home = dir;
        let entry = Entry { ino, kind: facts.kind, cookie };
        if facts.is_dir() {
            self.directories.insert(ino, (dir, name.to_vec()));
        }
        self.kv.put(&key::entry(dir, name), &entry.encode())?;
        self.kv.put(&key::position(dir, cookie), &entry.encode_position(name))?;
        Ok(())
    }

    fn free_name(&self, dir: InodeNo, wish: &str) -> Result<String> {
        let mut name = wish.to_owned();
        let mut number = 0u64;
        while Entry::load(&self.kv, dir, name.as_bytes())?.is_some() {
            number += 1;
            name = format!("{wish}.{number}");
        }
        Ok(name)
    }

    fn lost_found(&mut self) -> Result<InodeNo> {
        if let Some(dir) = self.lost_found {
            return Ok(dir);
        }
        let found = Entry::load(&self.kv, InodeNo::ROOT, LOST_FOUND.as_bytes())?;
        let dir = match found {
            Some(entry) if entry.kind == Kind::Directory => entry.ino,
            _ => {
                let ino = InodeNo(self.next_ino);
                self.next_ino = self.next_ino.saturating_add(1);
                let inode: Inode = substitute(Kind::Directory, self.now);
                self.kv.put(&key::inode(ino), &inode.encode())?;
                self.facts.insert(ino, Facts::of(ino, &inode));
                let name = self.free_name(InodeNo::ROOT, LOST_FOUND)?;
                self.add_name(InodeNo::ROOT, name.as_bytes(), ino)?;
                ino
            }
        };
        self.lost_found = Some(dir);
        Ok(dir)
    }
}
