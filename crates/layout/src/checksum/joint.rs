//! The crc32c of bytes that follow others, without reading them again: from that of both together and that of the others.
//!
//! A crc is linear: that of `first` and `rest` together is that of `first` moved up by the bits of `rest`, exclusive or that of `rest`, which
//! is what zlib's `crc32_combine` rests on (Adler). For one length of `rest`, moving up is four look-ups.

use std::sync::LazyLock;

use crc_fast::{CrcAlgorithm, checksum_combine};

/// Bytes of `rest`: a frame has so many unless a volume was made otherwise.
pub const LEN: usize = 32 << 10;

/// What each byte of a crc becomes when it is moved up, by its place in it.
static MOVED: LazyLock<[[u32; 256]; 4]> = LazyLock::new(|| {
    let moved = |crc: u32| checksum_combine(CrcAlgorithm::Crc32Iscsi, crc.into(), 0, LEN as u64) as u32;
    let bits: [u32; 32] = std::array::from_fn(|bit| moved(1 << bit));
    let of = |byte: usize, place: usize| {
        let set = (0..8).filter(|bit| byte >> bit & 1 == 1);
        set.fold(0, |sum, bit| sum ^ bits[place * 8 + bit])
    };
    std::array::from_fn(|place| std::array::from_fn(|byte| of(byte, place)))
});

/// Of `first` (any bytes, whose crc32c is given) and of [`LEN`] bytes behind it, whose own is `rest`, together. And back: with that of both
/// together in place of `rest`, that of the bytes behind `first` alone.
pub fn joint(first: u32, rest: u32) -> u32 {
    let moved = first.to_le_bytes().into_iter().zip(MOVED.iter());
    moved.fold(rest, |sum, (byte, table)| sum ^ table[usize::from(byte)])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::checksum::{crc32c, crc32c_joined};

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn it_is_that_of_the_bytes(
            first in proptest::collection::vec(any::<u8>(), 0..100),
            seed in any::<u64>(),
        ) {
            let rest = crate::testing::mixed_bytes(LEN, seed);
            let together = crc32c_joined(&first, &rest);
            prop_assert_eq!(joint(crc32c(&first), crc32c(&rest)), together);
            prop_assert_eq!(joint(crc32c(&first), together), crc32c(&rest));
        }
    }
}
