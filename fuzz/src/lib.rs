//! What the fuzz targets share.

use std::sync::LazyLock;

use headrace_layout::{Codec, Compression, DataKey, Encryption, MasterKey, Superblock};
use uuid::Uuid;

/// Identity of the volume that inputs are taken to belong to.
pub const VOLUME: Uuid = Uuid::from_u128(0x6865_6164_7261_6365);

/// Volumes of every kind: plain, both compressions, encrypted.
pub static CODECS: LazyLock<Vec<Codec>> = LazyLock::new(|| {
    let compressions = [Compression::None, Compression::Lz4, Compression::Zstd { level: 1 }];
    let mut codecs: Vec<Codec> = compressions.into_iter().map(|c| codec(c, false)).collect();
    codecs.push(codec(Compression::None, true));
    codecs
});

/// The encrypted one.
pub fn encrypted() -> &'static Codec {
    CODECS.last().expect("not empty")
}

fn codec(compression: Compression, encrypt: bool) -> Codec {
    let mut superblock = Superblock::new(VOLUME, "fuzz", 0);
    superblock.compression = compression;
    // The smallest, so that small inputs have several.
    superblock.frame_size = 4096;
    let key = encrypt.then(|| {
        let (master, data) = (MasterKey::generate(), DataKey::generate());
        let wrapped = data.wrap(&master);
        superblock.encryption = Some(Encryption::new(wrapped.clone()));
        DataKey::unwrap(&master, &wrapped).expect("its own key")
    });
    Codec::new(&superblock, key).expect("a valid superblock")
}

/// The input with the checksum behind it that makes it credible: what lies beyond the checksum is to be fuzzed.
pub fn with_crc(data: &[u8]) -> Vec<u8> {
    let crc = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, data) as u32;
    [data, &crc.to_le_bytes()].concat()
}
