//! How much there is: volume-wide, in a directory, below a directory.

use std::ops::ControlFlow;

use headrace_layout::InodeNo;

use crate::key::Key;
use crate::namespace::Namespace;
use crate::record::{Counters, Entry, Inode};
use crate::{DirTotals, Kind, MetaError, Result, Totals, key};

impl Namespace {
    /// Totals of the volume.
    pub fn statfs(&self) -> Result<Totals> {
        self.view(|read| {
            let counters = Counters::load(read)?;
            Ok(Totals { inodes: counters.inodes, bytes: counters.bytes })
        })
    }

    /// Totals of what is directly in a directory.
    pub fn directory_totals(&self, dir: InodeNo) -> Result<DirTotals> {
        self.view(|read| {
            if !Inode::require(read, dir)?.is_dir() {
                return Err(MetaError::NotDirectory);
            }
            DirTotals::load(read, dir)
        })
    }

    /// Totals of everything below a directory. Visits directories, not files, each at a moment of its own; `progress` gets
    /// the sum so far after each.
    pub fn tree_totals(&self, dir: InodeNo, progress: &mut dyn FnMut(&DirTotals)) -> Result<DirTotals> {
        let mut sum = self.directory_totals(dir)?;
        progress(&sum);
        let mut left = if sum.directories > 0 { vec![dir] } else { Vec::new() };
        while let Some(dir) = left.pop() {
            for child in self.subdirectories(dir)? {
                let totals = match self.directory_totals(child) {
                    Ok(totals) => totals,
                    // Removed since its parent was read.
                    Err(MetaError::NotFound) => continue,
                    Err(error) => return Err(error),
                };
                sum = sum.plus(totals);
                progress(&sum);
                if totals.directories > 0 {
                    left.push(child);
                }
            }
        }
        Ok(sum)
    }

    fn subdirectories(&self, dir: InodeNo) -> Result<Vec<InodeNo>> {
        self.view(|read| {
            let expected = DirTotals::load(read, dir)?.directories;
            let range = key::all_of(key::POSITION, dir);
            let mut found = Vec::new();
            let mut outcome = Ok(());
            read.scan(&range.start, &range.end, &mut |key, value| {
                let Some(Key::Position(_, cookie)) = Key::parse(key) else {
                    return ControlFlow::Continue(());
                };
                match Entry::decode_position(value, cookie) {
                    Ok((entry, _)) if entry.kind == Kind::Directory => found.push(entry.ino),
                    Ok(_) => {}
                    Err(error) => outcome = Err(error),
                }
                if found.len() as u64 >= expected || outcome.is_err() {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })?;
            outcome.map(|()| found)
        })
    }
}
