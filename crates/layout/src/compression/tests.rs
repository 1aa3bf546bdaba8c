use proptest::prelude::*;

use super::*;
use crate::testing::mixed_bytes;

#[test]
fn names_round_trip_and_wrong_ones_are_explained() {
    for (text, compression) in [
        ("none", Compression::None),
        ("lz4", Compression::Lz4),
        ("zstd:1", Compression::Zstd { level: 1 }),
        ("zstd:22", Compression::Zstd { level: 22 }),
    ] {
        assert_eq!(text.parse(), Ok(compression));
        assert_eq!(compression.to_string(), text);
    }
    assert_eq!("zstd".parse(), Ok(Compression::Zstd { level: 3 }));
    for wrong in ["", "gzip", "zstd:", "zstd:0", "zstd:23", "zstd:x", "LZ4", "lz4:1"] {
        let error = wrong.parse::<Compression>().unwrap_err().to_string();
        assert!(error.contains("none, lz4, zstd"), "{error}");
    }
}

#[test]
fn text_shrinks_and_noise_stays_raw() {
    let noise = mixed_bytes(2900, 9);
    let text = b"headrace ".repeat(400);
    for compression in [Compression::Lz4, Compression::Zstd { level: 3 }] {
        let mut compressor = Compressor::new(compression);
        assert_eq!(compressor.compress(&noise), (Method::Raw, &noise[..]));
        assert_eq!(compressor.compress(b""), (Method::Raw, &b""[..]));
        let (method, payload) = compressor.compress(&text);
        assert!(method != Method::Raw && payload.len() < text.len() / 10);
        assert_eq!(decompress(method, payload, text.len()).unwrap(), text);
    }
}

#[test]
fn another_length_than_expected_is_refused() {
    let text = b"headrace ".repeat(400);
    for compression in [Compression::Lz4, Compression::Zstd { level: 3 }] {
        let mut compressor = Compressor::new(compression);
        let (method, payload) = compressor.compress(&text);
        for wrong in [0, 1, text.len() - 1, text.len() + 1] {
            assert_eq!(decompress(method, payload, wrong), None);
        }
    }
}

proptest! {
    #[test]
    fn noise_is_answered_within_bounds(noise in prop::collection::vec(any::<u8>(), 0..300), len in 0..5000usize) {
        for method in [Method::Lz4, Method::Zstd] {
            if let Some(plain) = decompress(method, &noise, len) {
                prop_assert_eq!(plain.len(), len);
            }
        }
    }
}
