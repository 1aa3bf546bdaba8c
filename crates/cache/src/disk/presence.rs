//! Which blocks of a chunk are there, and what they were when they came.

use std::ops::Range;

use headrace_layout::joint;

/// Unit of presence, bytes.
pub const BLOCK: u64 = 32 << 10;
/// Unit of checking, bytes.
pub const GROUP: u64 = 256 << 10;
/// Unit of keeping, bytes: that of the volume's extents.
pub const CHUNK: u64 = headrace_layout::CHUNK_SIZE;

/// Blocks of a chunk.
pub(super) const BLOCKS: u32 = (CHUNK / BLOCK) as u32;
/// Blocks of a group.
pub(super) const GROUP_BLOCKS: u32 = (GROUP / BLOCK) as u32;
/// Groups of a chunk.
pub(super) const GROUPS: u32 = (CHUNK / GROUP) as u32;

/// A place for a block that is as long as one, but for the last of a file: the rest of that counts as zeros.
pub(super) fn checksum(block: u32, pieces: &[&[u8]]) -> u32 {
    static ZEROS: [u8; 4096] = [0; 4096];
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    // Its place first: blocks that changed places are not the same.
    digest.update(&block.to_le_bytes());
    let mut missing = BLOCK as usize;
    for piece in pieces {
        digest.update(piece);
        missing = missing.saturating_sub(piece.len());
    }
    while missing > 0 {
        let some = missing.min(ZEROS.len());
        digest.update(&ZEROS[..some]);
        missing -= some;
    }
    digest.finalize() as u32
}

/// The same of a block of [`BLOCK`] bytes whose crc32c is known.
pub(super) fn checksum_of_whole(block: u32, crc32c: u32) -> u32 {
    const { assert!(joint::LEN as u64 == BLOCK) };
    joint::joint(crc_fast::crc32_iscsi(&block.to_le_bytes()), crc32c)
}

/// What the bytes of the group number `group` of an entry add up to, compared with
/// [`Entry::sum_of_group`](super::Entry::sum_of_group).
pub fn sum_of(group: u64, bytes: &[u8]) -> u32 {
    let first = (group % u64::from(GROUPS)) as u32 * GROUP_BLOCKS;
    let blocks = bytes.chunks(BLOCK as usize).zip(first..);
    blocks.fold(0, |sum, (bytes, block)| sum ^ checksum(block, &[bytes]))
}

/// Blocks that are there, and for each group the exclusive or of the checksums of its blocks that are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Presence {
    words: [u64; BLOCKS as usize / 64],
    sums: Vec<u32>,
    count: u32,
}

impl Default for Presence {
    fn default() -> Self {
        Presence { words: [0; BLOCKS as usize / 64], sums: Vec::new(), count: 0 }
    }
}

impl Presence {
    pub(super) fn contains(&self, block: u32) -> bool {
        block < BLOCKS && self.words[block as usize / 64] >> (block % 64) & 1 == 1
    }

    /// How many there are.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    pub(super) fn bytes(&self) -> u64 {
        u64::from(self.count) * BLOCK
    }

    /// Adds a block; false if it was there, which changes nothing.
    pub(super) fn insert(&mut self, block: u32, sum: u32) -> bool {
        if block >= BLOCKS || self.contains(block) {
            return false;
        }
        self.words[block as usize / 64] |= 1 << (block % 64);
        let group = (block / GROUP_BLOCKS) as usize;
        if self.sums.len() <= group {
            self.sums.resize(group + 1, 0);
        }
        self.sums[group] ^= sum;
        self.count += 1;
        true
    }

    /// Where the blocks that are there from `block` on end: the first one that is not, at most `end`.
    pub(super) fn run_end(&self, block: u32, end: u32) -> u32 {
        (block..end.min(BLOCKS)).find(|block| !self.contains(*block)).unwrap_or(end.min(BLOCKS))
    }

    /// The first block from `block` on that is there; `end` if none is before it.
    pub(super) fn next(&self, block: u32, end: u32) -> u32 {
        (block..end.min(BLOCKS)).find(|block| self.contains(*block)).unwrap_or(end)
    }

    /// What a group that is as it was adds up to.
    pub(super) fn sum(&self, group: u32) -> u32 {
        self.sums.get(group as usize).copied().unwrap_or_default()
    }

    /// Takes all blocks of a group out; how many there were.
    pub(super) fn remove_group(&mut self, group: u32) -> u32 {
        let mut removed = 0;
        for block in blocks_of(group) {
            if self.contains(block) {
                self.words[block as usize / 64] &= !(1 << (block % 64));
                removed += 1;
            }
        }
        if let Some(sum) = self.sums.get_mut(group as usize) {
            *sum = 0;
        }
        self.count -= removed;
        removed
    }

    /// As few bytes as it takes.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let used = self.words.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1);
        out.push(used as u8);
        let (whole, last) = self.words[..used].split_at(used.saturating_sub(1));
        // Most chunks have all their blocks from the first to some last one.
        let gapless = whole.iter().all(|word| *word == u64::MAX)
            && last.iter().all(|word| (word.trailing_ones() + word.leading_zeros()) == 64);
        out.push(u8::from(gapless));
        if gapless {
            out.extend_from_slice(&(self.count as u16).to_le_bytes());
        } else {
            self.words[..used].iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
        }
        self.sums.iter().for_each(|sum| out.extend_from_slice(&sum.to_le_bytes()));
    }

    /// Back from [`Self::encode`]; `None` if that cannot have made it.
    pub(super) fn decode(bytes: &[u8]) -> Option<Presence> {
        let (&[used, gapless], mut rest) = bytes.split_first_chunk::<2>()?;
        let mut presence = Presence::default();
        if usize::from(used) > presence.words.len() {
            return None;
        }
        if gapless == 1 {
            let (count, after) = rest.split_first_chunk::<2>()?;
            let count = u32::from(u16::from_le_bytes(*count));
            if count.div_ceil(64) != u32::from(used) {
                return None;
            }
            (0..count).for_each(|block| presence.words[block as usize / 64] |= 1 << (block % 64));
            rest = after;
        } else {
            for word in &mut presence.words[..usize::from(used)] {
                let (bytes, after) = rest.split_first_chunk::<8>()?;
                *word = u64::from_le_bytes(*bytes);
                rest = after;
            }
        }
        presence.count = presence.words.iter().map(|word| word.count_ones()).sum();
        let (sums, []) = rest.as_chunks::<4>() else { return None };
        if sums.len() > GROUPS as usize {
            return None;
        }
        presence.sums = sums.iter().map(|sum| u32::from_le_bytes(*sum)).collect();
        Some(presence)
    }
}

/// The blocks of a group.
pub(super) fn blocks_of(group: u32) -> Range<u32> {
    group * GROUP_BLOCKS..(group + 1) * GROUP_BLOCKS
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a map: what is there, runs, gaps, checksums by group, and its form on disk.
        #[test]
        fn it_is_a_set_of_blocks_with_checksums(
            events in proptest::collection::vec((0u8..10, 0u32..2048, any::<u32>()), 0..300),
            near in 0u32..2048,
        ) {
            let (mut presence, mut model) = (Presence::default(), BTreeMap::new());
            for (kind, block, sum) in events {
                let block = if kind < 5 { (near + block % 20) % 2048 } else { block };
                if kind == 9 {
                    let group = block / GROUP_BLOCKS;
                    let before = model.len();
                    model.retain(|block, _| block / GROUP_BLOCKS != group);
                    prop_assert_eq!(presence.remove_group(group) as usize, before - model.len());
                } else {
                    let new = !model.contains_key(&block);
                    model.entry(block).or_insert(sum);
                    prop_assert_eq!(presence.insert(block, sum), new);
                }
            }
            prop_assert_eq!(presence.count() as usize, model.len());
            for block in 0..BLOCKS {
                prop_assert_eq!(presence.contains(block), model.contains_key(&block));
            }
            for group in 0..GROUPS {
                let sum = model.range(blocks_of(group)).fold(0, |all, (_, sum)| all ^ sum);
                prop_assert_eq!(presence.sum(group), sum);
            }
            let end = (near..BLOCKS).find(|block| !model.contains_key(block)).unwrap_or(BLOCKS);
            prop_assert_eq!(presence.run_end(near, BLOCKS), end);
            let next = model.range(near..).next().map_or(BLOCKS, |(block, _)| *block);
            prop_assert_eq!(presence.next(near, BLOCKS), next);
            let mut bytes = Vec::new();
            presence.encode(&mut bytes);
            let decoded = Presence::decode(&bytes).expect("its own form");
            prop_assert_eq!((decoded.words, decoded.count), (presence.words, presence.count));
            for group in 0..GROUPS {
                prop_assert_eq!(decoded.sum(group), presence.sum(group));
            }
        }

        #[test]
        fn any_bytes_decode_or_do_not(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            if let Some(presence) = Presence::decode(&bytes) {
                prop_assert!(presence.count() <= BLOCKS);
            }
        }
    }

    #[test]
    fn a_whole_small_entry_takes_few_bytes() {
        let mut presence = Presence::default();
        (0..10).for_each(|block| {
            presence.insert(block, block);
        });
        let mut bytes = Vec::new();
        presence.encode(&mut bytes);
        assert_eq!(bytes.len(), 4 + 2 * 4, "its length, and checksums of two groups");
    }

    #[test]
    fn a_checksum_knows_the_place_and_the_length() {
        let block = vec![7; BLOCK as usize];
        assert_eq!(checksum(3, &[&block]), checksum(3, &[&block[..100], &block[100..]]));
        assert_ne!(checksum(3, &[&block]), checksum(4, &[&block]));
        assert_ne!(checksum(3, &[&block]), checksum(3, &[&block[1..]]));
        assert_eq!(checksum(3, &[&block]), checksum_of_whole(3, crc_fast::crc32_iscsi(&block)));
        let padded = [&block[..10], &vec![0; BLOCK as usize - 10][..]].concat();
        assert_eq!(checksum(3, &[&block[..10]]), checksum(3, &[&padded]), "what is missing is zeros");
    }
}
