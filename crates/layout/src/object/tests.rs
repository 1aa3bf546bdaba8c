use proptest::prelude::*;

use super::*;
use crate::testing::{codec, mixed_bytes};

fn both() -> [Codec; 2] {
    [codec(Compression::None, false), codec(Compression::Lz4, true)]
}

proptest! {
    #[test]
    fn objects_round_trip_and_are_bound_to_their_context(
        len in 0usize..100_000,
        seed: u64,
        context in prop::collection::vec(any::<u8>(), 0..60),
        other in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let plain = mixed_bytes(len, seed);
        for codec in both() {
            let stored = codec.seal_object(&context, &plain).unwrap();
            prop_assert_eq!(&codec.open_object(&context, &stored).unwrap()[..], &plain[..]);
            if other != context {
                prop_assert_eq!(codec.open_object(&other, &stored), Err(ObjectError::Checksum));
            }
        }
    }

    #[test]
    fn any_bytes_are_refused_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for codec in both() {
            prop_assert!(codec.open_object(b"context", &bytes).is_err());
            // The same behind a right checksum.
            let mut bytes = bytes.clone();
            let crc = crc32c_joined(b"context", &bytes);
            bytes.extend_from_slice(&crc.to_le_bytes());
            let _ = codec.open_object(b"context", &bytes);
        }
    }
}

#[test]
fn every_flipped_bit_and_every_cut_is_refused() {
    for codec in both() {
        let stored = codec.seal_object(b"here", &mixed_bytes(300, 5)).unwrap();
        for at in 0..stored.len() * 8 {
            let mut flipped = stored.to_vec();
            flipped[at / 8] ^= 1 << (at % 8);
            assert_eq!(codec.open_object(b"here", &flipped), Err(ObjectError::Checksum), "bit {at}");
        }
        for len in 0..stored.len() {
            assert!(codec.open_object(b"here", &stored[..len]).is_err(), "{len} bytes");
        }
    }
}

/// Somebody who can write to the bucket can also make checksums right.
#[test]
fn tampering_behind_a_right_checksum_is_refused() {
    let codec = codec(Compression::None, true);
    let stored = codec.seal_object(b"here", b"a secret name").unwrap();
    let resum = |context: &[u8], mut body: Vec<u8>| {
        let crc = crc32c_joined(context, &body);
        body.extend_from_slice(&crc.to_le_bytes());
        codec.open_object(context, &body)
    };
    let body = &stored[..stored.len() - CRC_LEN];
    assert!(resum(b"here", body.to_vec()).is_ok());
    assert_eq!(resum(b"there", body.to_vec()), Err(ObjectError::Decrypt));
    for at in 2..body.len() {
        let mut body = body.to_vec();
        body[at] ^= 1;
        assert_eq!(resum(b"here", body), Err(ObjectError::Decrypt), "byte {at}");
    }
}

#[test]
fn nothing_readable_is_stored_of_an_encrypted_object() {
    let name = b"a name nobody may see";
    let sealed = |codec: &Codec| codec.seal_object(b"here", name).unwrap();
    let visible = |stored: &[u8]| stored.windows(name.len()).any(|window| window == name);
    let [plain, encrypted] = both();
    assert!(visible(&sealed(&plain)));
    assert!(!visible(&sealed(&encrypted)));
    assert_ne!(sealed(&encrypted), sealed(&encrypted), "nonces are fresh");
    assert_eq!(plain.open_object(b"here", &sealed(&encrypted)), Err(ObjectError::Encrypted));
    assert_eq!(encrypted.open_object(b"here", &sealed(&plain)), Err(ObjectError::NotEncrypted));
}

#[test]
fn objects_are_compressed_whatever_the_volume_does() {
    let codec = codec(Compression::None, false);
    assert!(codec.seal_object(b"", &[b'x'; 100_000]).unwrap().len() < 1000);
}

#[test]
fn a_length_that_cannot_be_is_refused_before_memory_is_taken() {
    let codec = codec(Compression::None, false);
    for claimed in [MAX_OBJECT_PLAIN as u64 + 1, u64::MAX] {
        let mut stored = vec![VERSION, 0, Method::Zstd as u8];
        put_varint(&mut stored, claimed);
        stored.extend_from_slice(&[1, 2, 3]);
        let crc = crc32c_joined(b"", &stored);
        stored.extend_from_slice(&crc.to_le_bytes());
        assert_eq!(codec.open_object(b"", &stored), Err(ObjectError::Decompress));
    }
}

#[test]
fn the_stored_form_is_pinned() {
    let codec = codec(Compression::None, false);
    let stored = codec.seal_object(b"context", b"plain").unwrap();
    assert_eq!(
        hex::encode(&stored[..]),
        "0100".to_owned()
            + "0005"
            + "706c61696e"
            + &hex::encode(crc32c_joined(b"context", &stored[..9]).to_le_bytes())
    );
    assert_eq!(crc32c_joined(b"1234", b"56789"), 0xe306_9283);
}
