//! Whole trees come back: from the top, in bounded transactions, each a consistent state, with at most lists of directories in memory.

use std::collections::HashMap;

use headrace_layout::InodeNo;

use super::{Kept, Restored, Revival, deleted_of, revive};
use crate::namespace::Namespace;
use crate::{Attr, Kind, MetaError, Result};

/// Names given back in one transaction, or looked at in one view, at most.
const BATCH: usize = 256;

/// What became of a name that was to be given back.
enum Outcome {
    /// It is there again.
    Back(Attr),
    /// This has it.
    Taken(InodeNo, Kind),
    /// It has expired, or its directory is gone.
    Gone,
}

impl Namespace {
    /// Gives everything its name back that was deleted in a directory that is there, or below it: the newest of each name. The same in
    /// `before`, directories that had its path before it, the latest first: what was deleted in them comes into it. Names that are taken
    /// stay so, but where both are directories the deleted one is such a `before` of the other. `revived` gets each.
    ///
    /// # Errors
    /// Metadata cannot be read or changed; what came back until then stays.
    pub fn revive_into(
        &self,
        top: InodeNo,
        before: Vec<InodeNo>,
        revived: &mut dyn FnMut(&Revival, &Attr),
    ) -> Result<Restored> {
        let mut restored = Restored::default();
        let mut left = vec![(top, before)];
        while let Some((into, before)) = left.pop() {
            let mut replaced: HashMap<InodeNo, Vec<InodeNo>> = HashMap::new();
            for from in std::iter::once(into).chain(before) {
                let older = self.give_back(from, into, &mut |revival, kind, outcome| match outcome {
                    Outcome::Back(attr) => {
                        restored.add(&attr);
                        revived(&revival, &attr);
                    }
                    Outcome::Taken(other, Kind::Directory) if kind == Kind::Directory => {
                        replaced.entry(other).or_default().push(revival.ino);
                    }
                    Outcome::Taken(..) => restored.taken += 1,
                    Outcome::Gone => {}
                })?;
                restored.older += older;
            }
            // Those that came back are among them.
            self.directories_in(into, &mut |dir| {
                left.push((dir, replaced.remove(&dir).unwrap_or_default()))
            })?;
        }
        Ok(restored)
    }

    /// Gives the newest of each name that was deleted in `from` that name in `into`; how many older ones there are. `each` gets what
    /// became of it, with the kind of what was deleted.
    fn give_back(
        &self,
        from: InodeNo,
        into: InodeNo,
        each: &mut dyn FnMut(Revival, Kind, Outcome),
    ) -> Result<u64> {
        let (mut after, mut older): (Option<Vec<u8>>, u64) = (None, 0);
        loop {
            let (mut page, more) = self.deleted_in(from, after.as_deref(), BATCH)?;
            if let Some(last) = &more {
                // All of the last name: the newest may be behind the page.
                page.retain(|(kept, _)| kept.name != *last);
                page.extend(self.view(|read| deleted_of(read, from, last))?);
            }
            after = more;
            // Most directories have nothing deleted in them: no transaction for nothing.
            if page.is_empty() && after.is_none() {
                return Ok(older);
            }
            let (newest, others) = newest_of_each(page);
            older += others;
            let wanted: Vec<(Revival, Kind)> = newest
                .into_iter()
                .map(|(kept, attr)| (Revival { ino: kept.ino, parent: into, name: kept.name }, attr.kind))
                .collect();
            let outcomes = self.update(|tx| {
                let mut outcomes = Vec::with_capacity(wanted.len());
                for (revival, _) in &wanted {
                    outcomes.push(match revive(tx, revival) {
                        Ok(attr) => Outcome::Back(attr),
                        Err(MetaError::NotFound) => Outcome::Gone,
                        Err(MetaError::Exists) => match tx.entry(into, &revival.name)? {
                            Some(entry) => Outcome::Taken(entry.ino, entry.kind),
                            None => Outcome::Gone,
                        },
                        Err(error) => return Err(error),
                    });
                }
                Ok(outcomes)
            })?;
            for ((revival, kind), outcome) in wanted.into_iter().zip(outcomes) {
                each(revival, kind, outcome);
            }
            if after.is_none() {
                return Ok(older);
            }
        }
    }

    /// The directories in a directory.
    fn directories_in(&self, dir: InodeNo, each: &mut dyn FnMut(InodeNo)) -> Result<()> {
        let mut after = 0;
        loop {
            let mut seen = 0;
            let listed = self.readdir(dir, after, false, &mut |entry| {
                after = entry.cookie;
                seen += 1;
                if entry.kind == Kind::Directory {
                    each(entry.ino);
                }
                seen < BATCH
            });
            match listed {
                // Removed meanwhile.
                Err(MetaError::NotFound | MetaError::Stale) => return Ok(()),
                Err(error) => return Err(error),
                Ok(()) if seen < BATCH => return Ok(()),
                Ok(()) => {}
            }
        }
    }
}

/// Of those that follow each other the newest of each name, and how many others there are.
fn newest_of_each(page: Vec<(Kept, Attr)>) -> (Vec<(Kept, Attr)>, u64) {
    let mut newest: Vec<(Kept, Attr)> = Vec::with_capacity(page.len());
    let mut older = 0;
    for (kept, attr) in page {
        match newest.last_mut() {
            Some((other, of)) if other.name == kept.name => {
                older += 1;
                if (kept.deleted, kept.ino) > (other.deleted, other.ino) {
                    (*other, *of) = (kept, attr);
                }
            }
            _ => newest.push((kept, attr)),
        }
    }
    (newest, older)
}
