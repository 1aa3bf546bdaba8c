//! Keys: a tag byte, then big-endian integers and names, so that the engine's order is the numeric one.

use std::ops::Range;

use headrace_layout::{InodeNo, SegmentId};

use crate::Time;

pub(crate) const INODE: u8 = b'I';
pub(crate) const ENTRY: u8 = b'D';
pub(crate) const POSITION: u8 = b'E';
pub(crate) const LINK: u8 = b'L';
pub(crate) const XATTR: u8 = b'X';
pub(crate) const CHUNK: u8 = b'C';
pub(crate) const INLINE: u8 = b'N';
pub(crate) const PACKING: u8 = b'P';
pub(crate) const SEGMENT: u8 = b'G';
pub(crate) const DEAD: u8 = b'Q';
pub(crate) const ORPHAN: u8 = b'O';
pub(crate) const UNSETTLED: u8 = b'T';
pub(crate) const TRASHED: u8 = b'W';
pub(crate) const USAGE: u8 = b'U';

/// The schema's version.
pub(crate) const SCHEMA: &[u8] = b"Sschema";
/// Allocators and volume-wide totals.
pub(crate) const COUNTERS: &[u8] = b"Scounters";

fn numbered(tag: u8, number: u64) -> [u8; 9] {
    let mut key = [tag; 9];
    key[1..].copy_from_slice(&number.to_be_bytes());
    key
}

fn numbered_twice(tag: u8, first: u64, second: u64) -> [u8; 17] {
    let mut key = [tag; 17];
    key[1..9].copy_from_slice(&first.to_be_bytes());
    key[9..].copy_from_slice(&second.to_be_bytes());
    key
}

fn named(tag: u8, number: u64, name: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(9 + name.len());
    key.extend_from_slice(&numbered(tag, number));
    key.extend_from_slice(name);
    key
}

/// The inode.
pub(crate) fn inode(ino: InodeNo) -> [u8; 9] {
    numbered(INODE, ino.0)
}

/// A name in a directory.
pub(crate) fn entry(dir: InodeNo, name: &[u8]) -> Vec<u8> {
    named(ENTRY, dir.0, name)
}

/// A position in a directory.
pub(crate) fn position(dir: InodeNo, cookie: u64) -> [u8; 17] {
    numbered_twice(POSITION, dir.0, cookie)
}

/// A name of an inode besides its home name.
pub(crate) fn link(ino: InodeNo, dir: InodeNo, name: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(17 + name.len());
    key.extend_from_slice(&numbered_twice(LINK, ino.0, dir.0));
    key.extend_from_slice(name);
    key
}

/// An extended attribute.
pub(crate) fn xattr(ino: InodeNo, name: &[u8]) -> Vec<u8> {
    named(XATTR, ino.0, name)
}

/// The extents of a chunk.
pub(crate) fn chunk(ino: InodeNo, index: u32) -> [u8; 13] {
    let mut key = [CHUNK; 13];
    key[1..9].copy_from_slice(&ino.0.to_be_bytes());
    key[9..].copy_from_slice(&index.to_be_bytes());
    key
}

/// An inline value.
pub(crate) fn inline(ino: InodeNo, id: u64) -> [u8; 17] {
    numbered_twice(INLINE, ino.0, id)
}

/// An inline value's place in the packing queue.
pub(crate) fn packing(id: u64) -> [u8; 9] {
    numbered(PACKING, id)
}

/// A segment.
pub(crate) fn segment(id: SegmentId) -> [u8; 17] {
    let mut key = [SEGMENT; 17];
    key[1..].copy_from_slice(&id.0.to_be_bytes());
    key
}

/// A segment's place in the queue of dead segments.
pub(crate) fn dead(since: Time, id: SegmentId) -> [u8; 29] {
    let mut key = [DEAD; 29];
    // With the sign bit flipped, times before the epoch sort first.
    key[1..9].copy_from_slice(&(since.secs as u64 ^ (1 << 63)).to_be_bytes());
    key[9..13].copy_from_slice(&since.nanos.to_be_bytes());
    key[13..].copy_from_slice(&id.0.to_be_bytes());
    key
}

/// An unlinked inode that still exists.
pub(crate) fn orphan(ino: InodeNo) -> [u8; 9] {
    numbered(ORPHAN, ino.0)
}

/// A deleted inode that is kept, by the name that it had. Those of one name follow each other: names have no NUL, which is what the
/// number of any inode begins with that was ever handed out.
pub(crate) fn trashed(dir: InodeNo, name: &[u8], ino: InodeNo) -> Vec<u8> {
    let mut key = named(TRASHED, dir.0, name);
    key.extend_from_slice(&ino.0.to_be_bytes());
    key
}

/// Every deleted inode that is kept and had this name.
pub(crate) fn trashed_as(dir: InodeNo, name: &[u8]) -> Range<Vec<u8>> {
    let mut end = named(TRASHED, dir.0, name);
    let mut start = end.clone();
    start.push(0);
    end.push(1);
    start..end
}

/// A file with chunks left to drop past its end.
pub(crate) fn unsettled(ino: InodeNo) -> [u8; 9] {
    numbered(UNSETTLED, ino.0)
}

/// Totals of a directory.
pub(crate) fn usage(dir: InodeNo) -> [u8; 9] {
    numbered(USAGE, dir.0)
}

/// Every key of a tag.
pub(crate) fn all(tag: u8) -> Range<Vec<u8>> {
    vec![tag]..vec![tag.saturating_add(1)]
}

/// Every key of a tag and an inode.
pub(crate) fn all_of(tag: u8, ino: InodeNo) -> Range<Vec<u8>> {
    let start = numbered(tag, ino.0).to_vec();
    let end = match ino.0.checked_add(1) {
        Some(next) => numbered(tag, next).to_vec(),
        None => vec![tag.saturating_add(1)],
    };
    start..end
}

/// The smallest key behind `key`.
pub(crate) fn behind(key: &[u8]) -> Vec<u8> {
    let mut next = Vec::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.push(0);
    next
}

/// A key taken apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Key<'a> {
    Schema,
    Counters,
    Inode(InodeNo),
    Entry(InodeNo, &'a [u8]),
    Position(InodeNo, u64),
    Link(InodeNo, InodeNo, &'a [u8]),
    Xattr(InodeNo, &'a [u8]),
    Chunk(InodeNo, u32),
    Inline(InodeNo, u64),
    Packing(u64),
    Segment(SegmentId),
    Dead(Time, SegmentId),
    Orphan(InodeNo),
    Unsettled(InodeNo),
    /// Where it was, its name, and the inode.
    Trashed(InodeNo, &'a [u8], InodeNo),
    Usage(InodeNo),
}

impl<'a> Key<'a> {
    /// `None` for a key of no known shape.
    pub(crate) fn parse(key: &'a [u8]) -> Option<Key<'a>> {
        if key == SCHEMA {
            return Some(Key::Schema);
        }
        if key == COUNTERS {
            return Some(Key::Counters);
        }
        let (&tag, rest) = key.split_first()?;
        let parsed = match tag {
            INODE => Key::Inode(ino(rest)?),
            ORPHAN => Key::Orphan(ino(rest)?),
            UNSETTLED => Key::Unsettled(ino(rest)?),
            USAGE => Key::Usage(ino(rest)?),
            PACKING => Key::Packing(number(rest)?),
            ENTRY | XATTR => {
                let (first, name) = split_number(rest)?;
                if name.is_empty() {
                    return None;
                }
                let build = if tag == ENTRY { Key::Entry } else { Key::Xattr };
                build(InodeNo(first), name)
            }
            POSITION => {
                let (first, rest) = split_number(rest)?;
                Key::Position(InodeNo(first), number(rest)?)
            }
            INLINE => {
                let (first, rest) = split_number(rest)?;
                Key::Inline(InodeNo(first), number(rest)?)
            }
            CHUNK => {
                let (first, rest) = split_number(rest)?;
                Key::Chunk(InodeNo(first), u32::from_be_bytes(rest.try_into().ok()?))
            }
            TRASHED => {
                let (dir, rest) = split_number(rest)?;
                let (name, number) = rest.split_last_chunk::<8>()?;
                if name.is_empty() {
                    return None;
                }
                Key::Trashed(InodeNo(dir), name, InodeNo(u64::from_be_bytes(*number)))
            }
            LINK => {
                let (first, rest) = split_number(rest)?;
                let (second, name) = split_number(rest)?;
                if name.is_empty() {
                    return None;
                }
                Key::Link(InodeNo(first), InodeNo(second), name)
            }
            SEGMENT => Key::Segment(SegmentId(u128::from_be_bytes(rest.try_into().ok()?))),
            DEAD => {
                let (secs, rest) = split_number(rest)?;
                let (nanos, rest) = rest.split_at_checked(4)?;
                let since = Time {
                    secs: (secs ^ (1 << 63)) as i64,
                    nanos: u32::from_be_bytes(nanos.try_into().ok()?),
                };
                Key::Dead(since, SegmentId(u128::from_be_bytes(rest.try_into().ok()?)))
            }
            _ => return None,
        };
        Some(parsed)
    }
}

fn split_number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<8>()?;
    Some((u64::from_be_bytes(*number), rest))
}

fn number(bytes: &[u8]) -> Option<u64> {
    bytes.try_into().ok().map(u64::from_be_bytes)
}

fn ino(bytes: &[u8]) -> Option<InodeNo> {
    number(bytes).map(InodeNo)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn parsing_gives_back_what_was_built(a: u64, b: u64, c: u32, s: u128, secs: i64, nanos: u32,
                                             name in prop::collection::vec(any::<u8>(), 1..256)) {
            let (ino, dir, id, since) = (InodeNo(a), InodeNo(b), SegmentId(s), Time { secs, nanos });
            let pairs: Vec<(Vec<u8>, Key<'_>)> = vec![
                (SCHEMA.to_vec(), Key::Schema),
                (COUNTERS.to_vec(), Key::Counters),
                (inode(ino).to_vec(), Key::Inode(ino)),
                (entry(ino, &name), Key::Entry(ino, &name)),
                (position(ino, b).to_vec(), Key::Position(ino, b)),
                (link(ino, dir, &name), Key::Link(ino, dir, &name)),
                (xattr(ino, &name), Key::Xattr(ino, &name)),
                (chunk(ino, c).to_vec(), Key::Chunk(ino, c)),
                (inline(ino, b).to_vec(), Key::Inline(ino, b)),
                (packing(a).to_vec(), Key::Packing(a)),
                (segment(id).to_vec(), Key::Segment(id)),
                (dead(since, id).to_vec(), Key::Dead(since, id)),
                (orphan(ino).to_vec(), Key::Orphan(ino)),
                (unsettled(ino).to_vec(), Key::Unsettled(ino)),
                (trashed(dir, &name, ino), Key::Trashed(dir, &name, ino)),
                (usage(ino).to_vec(), Key::Usage(ino)),
            ];
            for (key, expected) in &pairs {
                prop_assert_eq!(Key::parse(key), Some(*expected));
                // The engine's keys have a bound.
                prop_assert!(key.len() <= 272);
            }
        }

        #[test]
        fn parsing_never_panics(key in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = Key::parse(&key);
        }

        #[test]
        fn dead_segments_sort_by_time(a: (i64, u32), b: (i64, u32), s: u128, t: u128) {
            let (a, b) = (Time { secs: a.0, nanos: a.1 }, Time { secs: b.0, nanos: b.1 });
            if a != b {
                prop_assert_eq!(a < b, dead(a, SegmentId(s)) < dead(b, SegmentId(t)));
            }
        }

        #[test]
        fn the_range_of_an_inode_holds_its_keys_only(a: u64, b: u64, c: u64) {
            let range = all_of(POSITION, InodeNo(a));
            prop_assert!(range.contains(&position(InodeNo(a), c).to_vec()));
            if a != b {
                prop_assert!(!range.contains(&position(InodeNo(b), c).to_vec()));
            }
        }
    }
}
