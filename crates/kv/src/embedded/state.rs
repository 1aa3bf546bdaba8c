//! What the engine says about its own contents: one record, rewritten by every commit.

use crate::CommitSeq;

/// Number of records and an order-free sum over their checksums: equal contents, equal digest; and it follows each change
/// without reading anything else. It finds what the checksum in a record cannot: records that are missing, or there twice.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Digest {
    pub(super) records: u64,
    sum: u64,
}

impl Digest {
    pub(super) fn add(&mut self, checksum: u64) {
        self.records = self.records.wrapping_add(1);
        self.sum = self.sum.wrapping_add(mix(checksum));
    }

    pub(super) fn remove(&mut self, checksum: u64) {
        self.records = self.records.wrapping_sub(1);
        self.sum = self.sum.wrapping_sub(mix(checksum));
    }
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): sums of checksums, which are linear, would cancel too easily.
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The engine's own record.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct State {
    /// The newest transaction.
    pub(super) position: CommitSeq,
    /// LMDB's transaction that wrote this: the same as in the header that leads here, unless that is damaged.
    pub(super) lmdb_txn: u64,
    pub(super) digest: Digest,
}

impl State {
    pub(super) fn encode(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        let fields = [self.position.0, self.lmdb_txn, self.digest.records, self.digest.sum];
        for (to, field) in bytes.chunks_exact_mut(8).zip(fields) {
            to.copy_from_slice(&field.to_be_bytes());
        }
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<State> {
        let bytes: &[u8; 32] = bytes.try_into().ok()?;
        let mut fields = [0; 4];
        for (field, from) in fields.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *field = u64::from_be_bytes(*from);
        }
        let [position, lmdb_txn, records, sum] = fields;
        Some(State { position: CommitSeq(position), lmdb_txn, digest: Digest { records, sum } })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_digest_does_not_depend_on_the_way_there(
            kept in prop::collection::vec(any::<u64>(), 0..20),
            gone in prop::collection::vec(any::<u64>(), 0..20),
        ) {
            let mut straight = Digest::default();
            kept.iter().for_each(|&c| straight.add(c));
            let mut detour = Digest::default();
            gone.iter().for_each(|&c| detour.add(c));
            kept.iter().rev().for_each(|&c| detour.add(c));
            gone.iter().for_each(|&c| detour.remove(c));
            prop_assert_eq!(straight, detour);
            let state = State { position: CommitSeq(7), lmdb_txn: 9, digest: straight };
            prop_assert_eq!(State::decode(&state.encode()), Some(state));
        }
    }
}
