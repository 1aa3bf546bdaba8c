//! What several test modules share.

use uuid::Uuid;

use crate::{Codec, Compression, DataKey, Encryption, SegmentId, Superblock};

pub(crate) const VOLUME: Uuid = Uuid::from_u128(0x0011_2233_4455_4677_8899_aabb_ccdd_eeff);
pub(crate) const SEGMENT: SegmentId = SegmentId(0x0190_1234_5678_0123_4567_89ab_cdef_fedc);
pub(crate) const FRAME: u32 = 4 << 10;

/// Every method, with and without encryption.
pub(crate) fn codecs() -> Vec<Codec> {
    let methods = [Compression::None, Compression::Lz4, Compression::Zstd { level: 3 }];
    methods.into_iter().flat_map(|method| [codec(method, false), codec(method, true)]).collect()
}

/// A codec with frames of 4 KiB.
pub(crate) fn codec(compression: Compression, encrypted: bool) -> Codec {
    let mut superblock = Superblock::new(VOLUME, "test", 1_700_000_000);
    superblock.frame_size = FRAME;
    superblock.segment_size = 1 << 20;
    superblock.compression = compression;
    let key = encrypted.then(|| DataKey::from_test_bytes([7; 32]));
    superblock.encryption = encrypted.then(|| Encryption::new("A".repeat(80)));
    Codec::new(&superblock, key).unwrap()
}

/// Bytes of which some frames compress and some do not.
pub(crate) fn mixed_bytes(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        // xorshift64 (Marsaglia 2003).
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let noisy = (bytes.len() / 3000) % 2 == 0;
        bytes.extend_from_slice(&if noisy { state } else { state & 0x0303 }.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}
