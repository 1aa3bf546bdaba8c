//! Last step: totals of directories, and the counters.

use std::collections::BTreeMap;

use headrace_layout::InodeNo;

use super::Repairer;
use super::overlay::Overlay;
use crate::key::Key;
use crate::record::{Counters, Inode};
use crate::transaction::counted_in;
use crate::{DirTotals, Result, key};

impl Repairer<'_> {
    pub(super) fn repair_totals(&mut self) -> Result<()> {
        let mut usage: BTreeMap<InodeNo, DirTotals> = BTreeMap::new();
        let (mut inodes, mut bytes, mut last) = (0u64, 0u64, 0u64);
        let mut range = Overlay::all(key::INODE);
        loop {
            let page = self.kv.page(&mut range)?;
            if page.is_empty() {
                break;
            }
            for (key, value) in page {
                let (Some(Key::Inode(ino)), Ok(inode)) = (Key::parse(&key), Inode::decode(&value)) else {
                    continue;
                };
                inodes += 1;
                last = last.max(ino.0);
                bytes = bytes.wrapping_add(inode.allocated);
                if let Some(home) = counted_in(ino, &inode) {
                    let totals = usage.entry(home).or_default();
                    *totals = totals.plus(inode.usage());
                }
            }
        }
        self.repair_usage(usage)?;
        let counters = Counters {
            next_ino: self.next_ino.max(last.saturating_add(1)),
            next_inline: self.next_inline,
            inodes,
            bytes,
            inline_bytes: self.inline_bytes,
        };
        if self.kv.put(key::COUNTERS, &counters.encode())? {
            self.fixed("counters", format!("the volume counts {inodes} inodes with {bytes} bytes of data"));
        }
        Ok(())
    }

    fn repair_usage(&mut self, mut usage: BTreeMap<InodeNo, DirTotals>) -> Result<()> {
        let mut range = Overlay::all(key::USAGE);
        loop {
            let page = self.kv.page(&mut range)?;
            if page.is_empty() {
                break;
            }
            for (key, value) in page {
                let Some(Key::Usage(dir)) = Key::parse(&key) else { continue };
                let expected = usage.remove(&dir).unwrap_or_default();
                if DirTotals::decode(&value)? != expected {
                    self.put_usage(dir, expected)?;
                }
            }
        }
        for (dir, expected) in usage {
            if expected != DirTotals::default() {
                self.put_usage(dir, expected)?;
            }
        }
        Ok(())
    }

    fn put_usage(&mut self, dir: InodeNo, totals: DirTotals) -> Result<()> {
        let key = key::usage(dir);
        if totals == DirTotals::default() {
            self.kv.delete(&key)?
        } else {
            self.kv.put(&key, &totals.encode())?
        };
        let DirTotals { files, directories, .. } = totals;
        self.fixed("totals", format!("directory {dir} counts {files} files and {directories} directories"));
        Ok(())
    }
}
