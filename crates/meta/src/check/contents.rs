//! Attributes and data of inodes.

use headrace_layout::{ExtentData, ExtentMap, InodeNo};

use super::{Checker, ProblemKind, Seen};
use crate::data::chunks;
use crate::key::Key;
use crate::namespace::expected_flags;
use crate::record::{Flags, InlineRecord};
use crate::{Kind, MetaError, Result, key};

impl Checker<'_> {
    pub(super) fn read_attributes(&mut self) -> Result<()> {
        self.each(key::XATTR, |checker, key, _| {
            let Key::Xattr(ino, name) = key else { return Ok(()) };
            match checker.inodes.get_mut(&ino) {
                Some(seen) => seen.attributes |= expected_flags(std::iter::once(name)),
                None => checker.stray(ino, "an extended attribute"),
            }
            Ok(())
        })
    }

    fn stray(&mut self, ino: InodeNo, what: &str) {
        self.warning(
            ProblemKind::Stray(ino),
            format!("{what} belongs to inode {ino}, which does not exist or cannot have it"),
        );
    }

    pub(super) fn read_chunks(&mut self) -> Result<()> {
        self.each(key::CHUNK, |checker, key, value| {
            let Key::Chunk(ino, index) = key else { return Ok(()) };
            let map = ExtentMap::decode(value)?;
            let mut end = 0;
            for extent in map.extents() {
                checker.summary.extents += 1;
                checker.summary.bytes += u64::from(extent.len);
                end = chunks::base_of(index) + u64::from(extent.end());
                let len = u64::from(extent.len);
                match &extent.data {
                    ExtentData::Segment(slice) => *checker.live.entry(slice.segment).or_default() += len,
                    ExtentData::Inline { id, .. } => {
                        let (owner, live) = checker.inline.entry(*id).or_insert((ino, 0));
                        *live += len;
                        if *owner != ino {
                            checker.error(
                                ProblemKind::Inline(ino),
                                format!("inode {ino} refers to inline value {id} of another inode"),
                            );
                        }
                    }
                }
            }
            match checker.inodes.get_mut(&ino) {
                Some(seen) if seen.inode.kind == Kind::File => {
                    seen.covered += map.covered();
                    seen.data_end = seen.data_end.max(end);
                }
                _ => checker.stray(ino, "data"),
            }
            Ok(())
        })
    }

    pub(super) fn judge_contents(&mut self, ino: InodeNo, seen: &Seen) {
        let inode = &seen.inode;
        let flags = [Flags::XATTRS, Flags::ACCESS_ACL, Flags::DEFAULT_ACL, Flags::CAPABILITY];
        if flags.iter().any(|&flag| inode.flags.has(flag) != (seen.attributes & flag != 0)) {
            self.error(
                ProblemKind::Xattr(ino),
                format!("the flags of inode {ino} deny extended attributes that it has, or claim others"),
            );
        }
        if inode.allocated != seen.covered {
            self.warning(
                ProblemKind::Allocated(ino),
                format!("inode {ino} counts {} bytes of data and has {}", inode.allocated, seen.covered),
            );
        }
        // An orphan may be half deleted, an unsettled file half cut off.
        if seen.data_end > inode.size && !seen.unsettled && !seen.orphan {
            self.error(
                ProblemKind::PastEnd(ino),
                format!("inode {ino} is {} bytes long and has data up to {}", inode.size, seen.data_end),
            );
        }
    }

    pub(super) fn read_inline_values(&mut self) -> Result<()> {
        self.each(key::PACKING, |checker, key, value| {
            let Key::Packing(id) = key else { return Ok(()) };
            let record = InlineRecord::decode(value)?;
            checker.summary.inline_values += 1;
            checker.inline_bytes += u64::from(record.sealed);
            checker.last_inline = checker.last_inline.max(id);
            let stored = checker.read.get(&key::inline(record.ino, id))?.map(|value| value.len() as u64);
            if stored != Some(u64::from(record.sealed)) {
                checker.error(
                    ProblemKind::Inline(record.ino),
                    format!("inline value {id} of inode {} is missing or has the wrong length", record.ino),
                );
            }
            let (owner, live) = checker.inline.remove(&id).unwrap_or((record.ino, 0));
            if owner != record.ino || live != u64::from(record.live) {
                checker.error(
                    ProblemKind::Inline(record.ino),
                    format!("inline value {id} counts {} live bytes of {live}", record.live),
                );
            }
            Ok(())
        })?;
        self.each(key::INLINE, |checker, key, _| {
            let Key::Inline(ino, id) = key else { return Ok(()) };
            checker.last_inline = checker.last_inline.max(id);
            let record = InlineRecord::load(checker.read, id);
            // One that cannot be read was reported above.
            if matches!(&record, Ok(record) if record.is_none_or(|record| record.ino != ino)) {
                checker.warning(
                    ProblemKind::Inline(ino),
                    format!("inline value {id} of inode {ino} is not in the packing queue"),
                );
            }
            match record {
                Err(error @ MetaError::Kv(_)) => Err(error),
                _ => Ok(()),
            }
        })?;
        for (id, (ino, _)) in std::mem::take(&mut self.inline) {
            self.error(
                ProblemKind::MissingInline(ino),
                format!("inode {ino} refers to inline value {id}, which does not exist"),
            );
        }
        Ok(())
    }
}
