//! What the database stores under a key: the value, then 8 bytes of checksum over key and value.
//!
//! The checksum is crc64-nvme of the value, exclusive-or that of the key times an odd constant: bytes that change in either,
//! or a value that turns up under another key, are found.

use crc_fast::{CrcAlgorithm, Digest, checksum};

pub(super) const CHECKSUM_BYTES: usize = 8;

const ALGORITHM: CrcAlgorithm = CrcAlgorithm::Crc64Nvme;

/// Odd, so that multiplying loses nothing; the golden ratio in 64 bits.
const KEY_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// The checksum of a record.
pub(super) fn sum(key: &[u8], value: &[u8]) -> u64 {
    combine(key, checksum(ALGORITHM, value))
}

fn combine(key: &[u8], value_sum: u64) -> u64 {
    value_sum ^ checksum(ALGORITHM, key).wrapping_mul(KEY_FACTOR)
}

/// Appends the checksum to `value`, which is all there is in the buffer.
pub(super) fn seal(key: &[u8], value: &mut Vec<u8>) -> u64 {
    let sum = sum(key, value);
    value.extend_from_slice(&sum.to_le_bytes());
    sum
}

/// The value in stored bytes, and its checksum; `None` if they are not what was stored under `key`.
pub(super) fn open<'s>(key: &[u8], stored: &'s [u8]) -> Option<(&'s [u8], u64)> {
    let (value, tail) = stored.split_last_chunk::<CHECKSUM_BYTES>()?;
    let stated = u64::from_le_bytes(*tail);
    (sum(key, value) == stated).then_some((value, stated))
}

/// The checksum that stored bytes carry, unchecked; `None` if they are too short for one.
pub(super) fn stated(stored: &[u8]) -> Option<u64> {
    stored.last_chunk::<CHECKSUM_BYTES>().map(|tail| u64::from_le_bytes(*tail))
}

/// The checksum of a value that comes in pieces.
pub(super) struct Summing {
    digest: Digest,
}

impl Summing {
    pub(super) fn new() -> Summing {
        Summing { digest: Digest::new(ALGORITHM) }
    }

    pub(super) fn add(&mut self, piece: &[u8]) {
        self.digest.update(piece);
    }

    pub(super) fn finish(&self, key: &[u8]) -> u64 {
        combine(key, self.digest.finalize())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_other_byte_is_found(
            key in prop::collection::vec(any::<u8>(), 1..40),
            value in prop::collection::vec(any::<u8>(), 0..300),
            at in any::<prop::sample::Index>(),
            flip in 1u8..=255,
        ) {
            let mut stored = value.clone();
            let sum = seal(&key, &mut stored);
            prop_assert_eq!(open(&key, &stored), Some((&value[..], sum)));
            let mut pieces = Summing::new();
            value.chunks(7).for_each(|piece| pieces.add(piece));
            prop_assert_eq!(pieces.finish(&key), sum);

            let mut other_key = key.clone();
            let at_key = at.index(key.len());
            other_key[at_key] ^= flip;
            prop_assert_eq!(open(&other_key, &stored), None);
            let at = at.index(stored.len());
            stored[at] ^= flip;
            prop_assert_eq!(open(&key, &stored), None);
        }
    }

    #[test]
    fn zeros_are_no_record() {
        for len in [0, 7, 8, 9, 64, 4096] {
            assert_eq!(open(&[0; 4], &vec![0; len]), None);
        }
    }
}
