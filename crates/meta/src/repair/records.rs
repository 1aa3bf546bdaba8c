//! First step: every record that cannot be read is set aside. What can be derived from others comes back in later steps.

use headrace_layout::ExtentMap;

use super::overlay::Overlay;
use super::{Repairer, hex};
use crate::key::Key;
use crate::record::{Counters, Entry, InlineRecord, Inode, KeptRecord, SegmentRecord};
use crate::{DirTotals, MetaError, Result, key};

impl Repairer<'_> {
    pub(super) fn decode_all(&mut self) -> Result<()> {
        for tag in 0..u8::MAX {
            // Raw values need no look.
            if matches!(tag, key::INLINE | key::XATTR) {
                self.set_aside_shapes(tag)?;
                continue;
            }
            let mut range = Overlay::all(tag);
            loop {
                let page = self.kv.page(&mut range)?;
                if page.is_empty() {
                    break;
                }
                for (key, value) in page {
                    if let Err(error) = decode(&key, &value) {
                        let detail = match &error {
                            MetaError::Corrupt(detail) => detail.clone(),
                            other => other.to_string(),
                        };
                        self.set_aside(&key, &value, &detail)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Keys of families whose values may be long: without copying those of the well-formed ones at once.
    fn set_aside_shapes(&mut self, tag: u8) -> Result<()> {
        let mut range = Overlay::all(tag);
        loop {
            let page = self.kv.page(&mut range)?;
            if page.is_empty() {
                return Ok(());
            }
            for (key, value) in page {
                if Key::parse(&key).is_none() {
                    self.set_aside(&key, &value, "its shape is unknown")?;
                }
            }
        }
    }

    fn set_aside(&mut self, key: &[u8], value: &[u8], detail: &str) -> Result<()> {
        self.kv.delete(key)?;
        let shown = format!("key {}: {detail}; it held {}", key.escape_ascii(), hex(value));
        match Key::parse(key) {
            Some(Key::Chunk(ino, index)) => {
                self.broken_chunks.push((ino, index));
                self.lost("undecodable", format!("{shown}; data of inode {ino} in chunk {index} is lost"));
            }
            Some(Key::Inode(ino)) => {
                self.lost(
                    "undecodable",
                    format!("{shown}; owner, permissions and times of inode {ino} are lost"),
                );
            }
            Some(_) => {
                self.fixed("undecodable", format!("{shown}; derived from other records where possible"))
            }
            None => self.lost("undecodable", format!("{shown}; removed")),
        }
        Ok(())
    }
}

/// Whether a record can be read.
fn decode(key: &[u8], value: &[u8]) -> Result<()> {
    let parsed = Key::parse(key).ok_or_else(|| MetaError::Corrupt("its shape is unknown".into()))?;
    match parsed {
        Key::Inode(_) => drop(Inode::decode(value)?),
        Key::Entry(..) => drop(Entry::decode(value)?),
        Key::Position(_, cookie) => drop(Entry::decode_position(value, cookie)?),
        Key::Chunk(..) => drop(ExtentMap::decode(value)?),
        Key::Packing(_) => drop(InlineRecord::decode(value)?),
        Key::Segment(_) => drop(SegmentRecord::decode(value)?),
        Key::Usage(_) => drop(DirTotals::decode(value)?),
        Key::Counters => drop(Counters::decode(value)?),
        Key::Orphan(_) => drop(KeptRecord::decode(value)?),
        _ => {}
    }
    Ok(())
}
