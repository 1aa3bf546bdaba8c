use proptest::prelude::*;

use crate::checksum::crc32c;
use crate::testing::{codec, codecs, mixed_bytes};
use crate::{Codec, Compression, FrameError};

fn reseal(stored: &mut Vec<u8>) {
    stored.truncate(stored.len().saturating_sub(4));
    let crc = crc32c(stored);
    stored.extend_from_slice(&crc.to_le_bytes());
}

#[test]
fn round_trips_at_every_size() {
    for codec in codecs() {
        for len in [0, 1, 100, 4096, 65_536, (1 << 20) + 1] {
            let plain = mixed_bytes(len, len as u64);
            assert_eq!(codec.open_inline(&codec.seal_inline(&plain)).unwrap(), plain);
        }
    }
}

#[test]
fn every_bit_flip_is_noticed() {
    for codec in codecs() {
        let stored = codec.seal_inline(&b"small file ".repeat(8));
        for bit in 0..stored.len() * 8 {
            let mut bad = stored.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(codec.open_inline(&bad).is_err());
            // Nor can encrypted bytes be changed by one who mends the checksum.
            reseal(&mut bad);
            assert!(!codec.is_encrypted() || bad == stored || codec.open_inline(&bad).is_err());
        }
        for len in 0..stored.len() {
            assert!(codec.open_inline(&stored[..len]).is_err());
        }
    }
}

#[test]
fn encrypted_values_show_nothing_and_need_their_key() {
    let (sealed, open) = (codec(Compression::None, true), codec(Compression::None, false));
    let plain = b"a secret of some length".as_slice();
    let stored = sealed.seal_inline(plain);
    assert!(!stored.windows(6).any(|window| window == b"secret"));
    assert_ne!(stored, sealed.seal_inline(plain));
    assert!(
        matches!(open.open_inline(&stored), Err(FrameError::Inline { detail, .. }) if detail.contains("encrypted"))
    );
    assert!(sealed.open_inline(&open.seal_inline(plain)).is_err());
}

/// Pins the stored form; compressed payloads are pinned for reading, as compressors may improve.
#[test]
fn the_stored_form_is_pinned() {
    let plain = codec(Compression::None, false);
    assert_eq!(hex::encode(plain.seal_inline(b"hello")), RAW);
    let text = b"headrace ".repeat(20);
    for (compression, encrypted, golden) in [
        (Compression::Lz4, false, LZ4),
        (Compression::Zstd { level: 3 }, false, ZSTD),
        (Compression::None, true, ENCRYPTED),
    ] {
        let codec: Codec = codec(compression, encrypted);
        let written = hex::encode(codec.seal_inline(&text));
        let read =
            codec.open_inline(&hex::decode(golden).unwrap()).map_err(|e| format!("{e}; now {written}"));
        assert_eq!(read.unwrap(), text);
    }
}

const RAW: &str = "0100000568656c6c6ffc2f1dcd";
const LZ4: &str = "010001b4019f68656164726163652009009260647261636520dd966a36";
const ZSTD: &str = "010002b40128b52ffd20b48500004868656164726163652001002852e5084532c59d";
const ENCRYPTED: &str = "0101000102030405060708090a0b4d3213e022b3ccfa5261d93f5c634f6ff73dc5ed7d8bfe35e98549f8270882b575c17a5346ee7b3361dcfc9529436eb4eac9344d4746bab94c03ad13f759fdb52359d42a841724cc2ff19dc584373f1b211594adf8cd89170c1f518e9c1cc45dcb2ee9fa77cf325be666b58cef9a4aa84b70572dbd822f018f68c6e3e1ba320e2d3aa083e379c092625c15e2393f66c83eaf5cd6be856925586bff346078b4bef61d6d16bbf99cac9f6ebfebd85f351e3e8999517f3b9dad01704d5ee0c7250df37eaad2513c30fbeefc6a";

proptest! {
    #[test]
    fn noise_never_panics(noise in prop::collection::vec(any::<u8>(), 0..200), head: bool) {
        for codec in codecs() {
            let _ = codec.open_inline(&noise);
            let mut noise = noise.clone();
            if head && noise.len() > 2 {
                noise[0] = 1;
                noise[1] = u8::from(codec.is_encrypted());
                noise[2] %= 3;
            }
            reseal(&mut noise);
            if let Ok(plain) = codec.open_inline(&noise) {
                prop_assert!(plain.len() <= 1 << 20);
            }
        }
    }
}
