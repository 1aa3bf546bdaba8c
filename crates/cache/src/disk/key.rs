//! What an entry is of.

use headrace_layout::{InodeNo, SegmentId};

/// Names an entry.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Key {
    /// The content of a file.
    File(InodeNo),
    /// The stored object of a segment.
    Segment(SegmentId),
}

const FILE: u8 = 1;
const SEGMENT: u8 = 2;

impl Key {
    /// The key of a chunk in the index: entries of one kind together, chunks of one entry in order.
    pub(super) fn of_chunk(self, chunk: u32) -> Vec<u8> {
        let mut key = self.prefix();
        key.extend_from_slice(&chunk.to_be_bytes());
        key
    }

    fn prefix(self) -> Vec<u8> {
        match self {
            Key::File(ino) => [&[FILE][..], &ino.0.to_be_bytes()].concat(),
            Key::Segment(id) => [&[SEGMENT][..], &id.0.to_be_bytes()].concat(),
        }
    }

    /// From a key of the index; `None` if it is none.
    pub(super) fn parse(key: &[u8]) -> Option<(Key, u32)> {
        let (entry, chunk) = key.split_last_chunk::<4>()?;
        let chunk = u32::from_be_bytes(*chunk);
        let (kind, id) = entry.split_first()?;
        let key = match *kind {
            FILE => Key::File(InodeNo(u64::from_be_bytes(id.try_into().ok()?))),
            SEGMENT => Key::Segment(SegmentId(u128::from_be_bytes(id.try_into().ok()?))),
            _ => return None,
        };
        Some((key, chunk))
    }

    /// Name of the entry's file.
    pub(super) fn file_name(self) -> String {
        match self {
            Key::File(ino) => format!("f{:016x}", ino.0),
            Key::Segment(id) => format!("s{:032x}", id.0),
        }
    }

    /// Back from the name of a file; `None` if it is not one of ours.
    pub(super) fn of_file_name(name: &str) -> Option<Key> {
        let key = match name.split_at_checked(1)? {
            ("f", id) => Key::File(InodeNo(u64::from_str_radix(id, 16).ok()?)),
            ("s", id) => Key::Segment(SegmentId(u128::from_str_radix(id, 16).ok()?)),
            _ => return None,
        };
        (key.file_name() == name).then_some(key)
    }

    /// Well spread bits of it, another number for each `seed`.
    pub(super) fn hash(self, seed: u64) -> u64 {
        twox_hash::XxHash3_64::oneshot_with_seed(seed, &self.prefix())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn keys() -> impl Strategy<Value = Key> {
        prop_oneof![
            any::<u64>().prop_map(|ino| Key::File(InodeNo(ino))),
            any::<u128>().prop_map(|id| Key::Segment(SegmentId(id))),
        ]
    }

    proptest! {
        #[test]
        fn keys_come_back_and_keep_their_order(a in keys(), b in keys(), chunks: (u32, u32)) {
            prop_assert_eq!(Key::parse(&a.of_chunk(chunks.0)), Some((a, chunks.0)));
            prop_assert_eq!(Key::of_file_name(&a.file_name()), Some(a));
            let order = (a, chunks.0).cmp(&(b, chunks.1));
            prop_assert_eq!(a.of_chunk(chunks.0).cmp(&b.of_chunk(chunks.1)), order);
        }

        #[test]
        fn what_is_no_key_is_none(bytes in proptest::collection::vec(any::<u8>(), 0..30), name in ".{0,40}") {
            if let Some((key, chunk)) = Key::parse(&bytes) {
                prop_assert_eq!(key.of_chunk(chunk), bytes);
            }
            if let Some(key) = Key::of_file_name(&name) {
                prop_assert_eq!(key.file_name(), name);
            }
        }
    }
}
