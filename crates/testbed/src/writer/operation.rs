//! What a writer does: the ways in which programs change files durably.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::{MAX_FILES, digest};
use crate::{Rng, pattern};

type Files = BTreeMap<String, Vec<u8>>;

/// One change.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    how: How,
    name: String,
    /// The second name of a rename.
    other: String,
    offset: u64,
    piece: Vec<u8>,
    /// The names it changes, with their content once it is done: filled in when it is.
    pub(super) after: BTreeMap<String, Option<String>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum How {
    Create,
    Overwrite,
    Append,
    Truncate,
    /// As programs replace a file: write a new one, sync it, rename it over the old one, sync the directory.
    Replace,
    Move,
    Remove,
}

impl Operation {
    pub(super) fn choose(rng: &mut Rng, number: u64, files: &Files, largest: u64) -> Operation {
        let picked = match files.len() as u64 {
            0 => None,
            count => files.keys().nth(rng.below(count) as usize).cloned(),
        };
        let how = match (rng.below(14), &picked) {
            (_, None) => How::Create,
            _ if files.len() >= MAX_FILES => How::Remove,
            (0..=4, _) => How::Create,
            (5..=6, _) => How::Overwrite,
            (7, _) => How::Append,
            (8, _) => How::Truncate,
            (9..=10, _) => How::Replace,
            (11, _) => How::Move,
            _ => How::Remove,
        };
        let len = match rng.below(12) {
            0..=6 => rng.below(20_000),
            7..=10 => rng.below(300_000.min(largest)),
            _ => rng.below(largest),
        };
        let (name, other) = match how {
            How::Create => (format!("file-{number}"), String::new()),
            How::Replace => (picked.unwrap_or_default(), format!("tmp-{number}")),
            How::Move => (picked.unwrap_or_default(), format!("moved-{number}")),
            _ => (picked.unwrap_or_default(), String::new()),
        };
        let old = files.get(&name).map_or(0, Vec::len) as u64;
        let offset = match how {
            How::Overwrite => rng.below(old + 5_000),
            How::Append => old,
            How::Truncate => rng.below(old + 10_000),
            _ => 0,
        };
        let piece = match how {
            How::Create | How::Overwrite | How::Append | How::Replace => {
                pattern(rng.next_u64(), len as usize)
            }
            _ => Vec::new(),
        };
        Operation { how, name, other, offset, piece, after: BTreeMap::new() }
    }

    /// Does it below `dir`, durably, and then to `files`.
    pub(super) fn carry_out(&self, dir: &Path, files: &mut Files) -> io::Result<()> {
        let path = dir.join(&self.name);
        let sync_dir = || File::open(dir)?.sync_all();
        match self.how {
            How::Create => {
                let mut file = OpenOptions::new().write(true).create_new(true).open(&path)?;
                file.write_all(&self.piece)?;
                file.sync_all()?;
                sync_dir()?;
            }
            How::Overwrite => {
                let file = OpenOptions::new().write(true).open(&path)?;
                file.write_all_at(&self.piece, self.offset)?;
                file.sync_data()?;
            }
            How::Append => {
                let mut file = OpenOptions::new().append(true).open(&path)?;
                file.write_all(&self.piece)?;
                file.sync_all()?;
            }
            How::Truncate => {
                let file = OpenOptions::new().write(true).open(&path)?;
                file.set_len(self.offset)?;
                file.sync_all()?;
            }
            How::Replace => {
                let new = dir.join(&self.other);
                let mut file = OpenOptions::new().write(true).create_new(true).open(&new)?;
                file.write_all(&self.piece)?;
                file.sync_all()?;
                std::fs::rename(new, &path)?;
                sync_dir()?;
            }
            How::Move => {
                std::fs::rename(&path, dir.join(&self.other))?;
                sync_dir()?;
            }
            How::Remove => {
                std::fs::remove_file(&path)?;
                sync_dir()?;
            }
        }
        self.apply(files);
        Ok(())
    }

    fn apply(&self, files: &mut Files) {
        match self.how {
            How::Create | How::Replace => drop(files.insert(self.name.clone(), self.piece.clone())),
            How::Overwrite | How::Append if self.piece.is_empty() => {}
            How::Overwrite | How::Append => {
                let content = files.entry(self.name.clone()).or_default();
                let start = self.offset as usize;
                let end = start + self.piece.len();
                content.resize(content.len().max(end), 0);
                content[start..end].copy_from_slice(&self.piece);
            }
            How::Truncate => files.entry(self.name.clone()).or_default().resize(self.offset as usize, 0),
            How::Move => {
                let content = files.remove(&self.name).unwrap_or_default();
                files.insert(self.other.clone(), content);
            }
            How::Remove => drop(files.remove(&self.name)),
        }
    }

    /// The names it concerns.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        [self.name.as_str(), self.other.as_str()].into_iter().filter(|name| !name.is_empty())
    }

    /// What it was, once it is done: digests instead of bytes.
    pub(super) fn remembered(mut self, files: &Files) -> Operation {
        let after =
            self.names().map(|name| (name.to_string(), files.get(name).map(|content| digest(content))));
        self.after = after.collect();
        self.piece = Vec::new();
        self
    }

    /// Whether `found` may be there if it was interrupted, where `before` was before it. Only of what must be one or
    /// the other: the name that is replaced, renamed or removed.
    pub(super) fn allows(&self, name: &str, before: Option<&String>, found: Option<&String>) -> bool {
        let after = || match self.how {
            // Not yet remembered: the change is still under way, and its bytes are here.
            How::Replace if self.after.is_empty() => Some(digest(&self.piece)),
            _ => self.after.get(name).cloned().flatten(),
        };
        match self.how {
            How::Replace if name == self.name => found == before || found == after().as_ref(),
            How::Remove => found.is_none() || found == before,
            How::Move if name == self.name => found.is_none() || found == before,
            _ => true,
        }
    }
}
