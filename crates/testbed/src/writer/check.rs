//! What is there against what was acknowledged.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Instant;

use super::operation::Operation;
use super::{Writer, digest};

/// Differences reported, at most.
const MOST_LINES: usize = 12;

/// How much of what was acknowledged must be there.
#[derive(Clone, Copy, Debug)]
pub enum Demand {
    /// All of it.
    Everything,
    /// What was acknowledged before this moment, and of what came after a prefix.
    Before(Instant),
}

/// How much of what was acknowledged since the last time is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Kept {
    /// Changes that are there.
    pub kept: usize,
    /// Changes that are not.
    pub lost: usize,
}

type Digests = BTreeMap<String, String>;

impl Writer {
    /// Compares what is on the volume mounted at `mount` with what was acknowledged, then goes on from what is there.
    ///
    /// What is there must be the state after one of the acknowledged changes, a recent enough one, apart from the names that
    /// the next change was about to change: those may be in either state, and must be readable.
    ///
    /// # Errors
    /// What is wrong, a line each.
    pub fn verify(&mut self, mount: &Path, demand: Demand) -> Result<Kept, Vec<String>> {
        let dir = mount.join(&self.name);
        let all = self.history.len();
        let floor = match demand {
            Demand::Everything => all,
            Demand::Before(moment) => self.history.iter().filter(|entry| entry.ended < moment).count(),
        };
        let found = match read_all(&dir) {
            Ok(found) => found,
            // The directory itself is the first thing to be lost.
            Err(_) if !dir.exists() && floor == 0 && self.base.is_empty() => {
                self.started = false;
                BTreeMap::new()
            }
            Err(wrong) => return Err(self.named(wrong)),
        };
        let digests: Digests = found.iter().map(|(name, content)| (name.clone(), digest(content))).collect();
        let state = |upto: usize| {
            let mut state = self.base.clone();
            for (name, content) in self.history[..upto].iter().flat_map(|entry| &entry.operation.after) {
                match content {
                    Some(content) => state.insert(name.clone(), content.clone()),
                    None => state.remove(name),
                };
            }
            state
        };
        let next = |upto: usize| match self.history.get(upto) {
            Some(entry) => Some(&entry.operation),
            None => self.in_flight.as_ref(),
        };
        let fits = |upto: &usize| differences(&state(*upto), &digests, next(*upto)).is_empty();
        let Some(kept) = (floor..=all).rev().find(fits) else {
            let mut wrong = differences(&state(all), &digests, next(all));
            if floor < all {
                wrong.push(format!("(nor any state after {floor} to {all} acknowledged changes)"));
            }
            return Err(self.named(wrong));
        };
        (self.files, self.base) = (found, digests);
        self.history.clear();
        self.in_flight = None;
        Ok(Kept { kept, lost: all - kept })
    }

    fn named(&self, mut wrong: Vec<String>) -> Vec<String> {
        wrong.truncate(MOST_LINES);
        wrong.into_iter().map(|line| format!("{}: {line}", self.name)).collect()
    }
}

/// What contradicts `state`, with `next` possibly begun.
fn differences(state: &Digests, found: &Digests, next: Option<&Operation>) -> Vec<String> {
    let touched: BTreeSet<&str> = next.into_iter().flat_map(Operation::names).collect();
    let names: BTreeSet<&String> = state.keys().chain(found.keys()).collect();
    let mut wrong = Vec::new();
    for name in names {
        let (before, now) = (state.get(name), found.get(name));
        if touched.contains(name.as_str()) {
            if next.is_some_and(|next| !next.allows(name, before, now)) {
                wrong.push(format!(
                    "{name}: neither its old nor its new state, after a change that was cut short"
                ));
            }
            continue;
        }
        match (before, now) {
            (Some(before), Some(now)) if before != now => wrong.push(format!("{name}: other bytes")),
            (Some(_), None) => wrong.push(format!("{name}: missing")),
            (None, Some(_)) => wrong.push(format!("{name}: was removed, or never made, and is there")),
            _ => {}
        }
    }
    wrong
}

fn read_all(dir: &Path) -> Result<BTreeMap<String, Vec<u8>>, Vec<String>> {
    let entries = std::fs::read_dir(dir).map_err(|error| vec![format!("listing the directory: {error}")])?;
    let (mut found, mut wrong) = (BTreeMap::new(), Vec::new());
    for entry in entries {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                wrong.push(format!("listing the directory: {error}"));
                break;
            }
        };
        let name = entry.file_name().to_string_lossy().into_owned();
        match std::fs::read(entry.path()) {
            Ok(content) => drop(found.insert(name, content)),
            Err(error) => wrong.push(format!("{name}: {error}")),
        }
    }
    if wrong.is_empty() { Ok(found) } else { Err(wrong) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On a plain directory, which loses nothing by itself.
    fn worked(seed: u64, steps: usize) -> (tempfile::TempDir, Writer) {
        let dir = tempfile::tempdir().expect("temporary directory");
        let mut writer = Writer::new("writer", seed).largest(30_000);
        writer.started = true;
        std::fs::create_dir(dir.path().join("writer")).expect("mkdir");
        for _ in 0..steps {
            writer.step(dir.path()).expect("a plain directory takes every change");
        }
        (dir, writer)
    }

    #[test]
    fn a_true_file_system_passes_and_every_kind_of_loss_is_seen() {
        for seed in 0..20 {
            let (dir, mut writer) = worked(seed, 60);
            let kept = writer.verify(dir.path(), Demand::Everything).expect("nothing is wrong");
            assert_eq!(kept, Kept { kept: 60, lost: 0 });

            let name =
                writer.files.iter().find(|(_, content)| !content.is_empty()).expect("a file").0.clone();
            let path = dir.path().join("writer").join(name);
            let content = std::fs::read(&path).expect("readable");
            let mut bad = content.clone();
            bad[0] ^= 1;
            std::fs::write(&path, &bad).expect("write");
            assert!(writer.verify(dir.path(), Demand::Everything).is_err(), "a flipped bit");
            std::fs::write(&path, &content[1..]).expect("write");
            assert!(writer.verify(dir.path(), Demand::Everything).is_err(), "a lost byte");
            std::fs::remove_file(&path).expect("remove");
            assert!(writer.verify(dir.path(), Demand::Everything).is_err(), "a lost file");
            std::fs::write(&path, &content).expect("write");
            std::fs::write(dir.path().join("writer/surplus"), b"").expect("write");
            assert!(writer.verify(dir.path(), Demand::Everything).is_err(), "a file nobody made");
        }
    }

    #[test]
    fn a_prefix_is_enough_only_where_it_is_allowed() {
        let (dir, mut writer) = worked(7, 20);
        let middle = writer.history()[12].ended;
        // The last change that can be taken back: a file that was made by it.
        let made = writer.history.iter().rev().find_map(|entry| {
            let (name, _) = entry.operation.after.iter().find(|(_, content)| content.is_some())?;
            Some(name.clone())
        });
        std::fs::remove_file(dir.path().join("writer").join(made.expect("some file was changed")))
            .expect("remove");
        assert!(writer.verify(dir.path(), Demand::Everything).is_err());
        // Whether it passes depends on the change; what must never pass is a state older than the moment.
        if let Ok(kept) = writer.verify(dir.path(), Demand::Before(middle)) {
            assert!(kept.kept >= 12 && kept.lost > 0, "{kept:?}");
        }
    }
}
