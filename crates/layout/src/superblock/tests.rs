use proptest::prelude::*;

use super::*;
use crate::testing::VOLUME;

fn sample() -> Superblock {
    let mut superblock = Superblock::new(VOLUME, "my volume", 1_700_000_000);
    superblock.compression = Compression::Zstd { level: 5 };
    superblock.encryption = Some(Encryption::new("k".repeat(80)));
    superblock
}

/// Decodes `superblock` with `change` made to its JSON and the checksum mended.
fn decode_changed(
    change: impl Fn(&mut serde_json::Map<String, Value>),
) -> Result<Superblock, SuperblockError> {
    let mut value: Value = serde_json::from_slice(&sample().encode()).unwrap();
    let fields = value.as_object_mut().unwrap();
    fields.remove(CRC_FIELD);
    change(fields);
    let crc = format!("{:08x}", value_crc(&value));
    value.as_object_mut().unwrap().insert(CRC_FIELD.into(), crc.into());
    Superblock::decode(&serde_json::to_vec(&value).unwrap())
}

#[test]
fn round_trips() {
    for superblock in [sample(), Superblock::new(VOLUME, "ü", 0)] {
        assert_eq!(Superblock::decode(&superblock.encode()).unwrap(), superblock);
    }
}

/// Pins the stored form.
#[test]
fn the_stored_form_is_pinned() {
    assert_eq!(String::from_utf8(sample().encode()).unwrap(), GOLDEN);
    assert_eq!(Superblock::decode(GOLDEN.as_bytes()).unwrap(), sample());
}

const GOLDEN: &str = r#"{
  "format": "headrace",
  "version": 1,
  "uuid": "00112233-4455-4677-8899-aabbccddeeff",
  "name": "my volume",
  "created": 1700000000,
  "frame_size": 32768,
  "segment_size": 16777216,
  "chunk_size": 67108864,
  "inline_max": 65536,
  "compression": "zstd:5",
  "encryption": {
    "algorithm": "aes-256-gcm",
    "wrapped_key": "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk"
  },
  "metadata": "embedded",
  "features": [],
  "weak_conditional_put": false,
  "crc32c": "d3324434"
}
"#;

#[test]
fn spacing_and_order_do_not_matter_values_do() {
    let bytes = sample().encode();
    let value: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(Superblock::decode(&serde_json::to_vec(&value).unwrap()).unwrap(), sample());
    let text = String::from_utf8(bytes).unwrap().replace("my volume", "my_volume");
    assert!(matches!(Superblock::decode(text.as_bytes()), Err(SuperblockError::Corrupt { .. })));
}

#[test]
fn every_bit_flip_is_noticed_or_harmless() {
    let bytes = sample().encode();
    for bit in 0..bytes.len() * 8 {
        let mut bad = bytes.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        if let Ok(read) = Superblock::decode(&bad) {
            assert_eq!(read, sample());
        }
    }
    for len in 0..bytes.len() - 1 {
        assert!(Superblock::decode(&bytes[..len]).is_err());
    }
}

#[test]
fn foreign_objects_are_not_volumes() {
    for foreign in
        ["", "hello", "[]", "{}", "{\"format\": \"tar\"}", "{\"version\": 1}", &"x".repeat(MAX_LEN + 1)]
    {
        let error = Superblock::decode(foreign.as_bytes()).unwrap_err();
        assert!(matches!(error, SuperblockError::NotAVolume { .. }), "{foreign:.30}: {error}");
    }
}

#[test]
fn newer_formats_and_features_say_what_to_do() {
    let error = decode_changed(|f| drop(f.insert("version".into(), 2.into()))).unwrap_err();
    assert_eq!(error, SuperblockError::NewerVersion { found: 2, supported: 1 });
    assert!(error.to_string().contains("use a newer Headrace"));
    let feature =
        |field: &str, value: Value| match decode_changed(|f| drop(f.insert(field.into(), value.clone())))
            .unwrap_err()
        {
            SuperblockError::UnknownFeature { name } => name,
            other => panic!("{other}"),
        };
    assert_eq!(feature("features", serde_json::json!(["dedup"])), "\"dedup\"");
    assert_eq!(feature("metadata", "redis".into()), "metadata redis");
    assert_eq!(feature("encryption", serde_json::json!({"algorithm": "rot13", "wrapped_key": ""})), "rot13");
}

#[test]
fn unknown_fields_are_ignored() {
    assert_eq!(decode_changed(|f| drop(f.insert("comment".into(), "hi".into()))).unwrap(), sample());
}

#[test]
fn fields_out_of_range_are_named() {
    let cases: [(&str, Value); 18] = [
        ("version", 0.into()),
        ("uuid", "00000000-0000-0000-0000-000000000000".into()),
        ("name", "".into()),
        ("name", "a\nb".into()),
        ("name", "x".repeat(256).into()),
        ("created", u64::MAX.into()),
        ("frame_size", 0.into()),
        ("frame_size", 2048.into()),
        ("frame_size", 5000.into()),
        ("frame_size", (2 << 20).into()),
        ("segment_size", ((1 << 20) - 1).into()),
        ("segment_size", ((256 << 20) + 1).into()),
        ("chunk_size", 4096.into()),
        ("inline_max", 65_537.into()),
        ("compression", "zstd:99".into()),
        ("compression", "brotli".into()),
        ("frame_size", (-1).into()),
        ("features", "none".into()),
    ];
    for (field, value) in cases {
        let error = decode_changed(|f| drop(f.insert(field.into(), value.clone()))).unwrap_err();
        match &error {
            SuperblockError::Invalid { field: named, .. } => assert_eq!(*named, field),
            SuperblockError::Corrupt { .. } => {}
            other => panic!("{field} {value}: {other}"),
        }
    }
    for field in ["name", "uuid", "frame_size", "compression", "metadata", "segment_size", "chunk_size"] {
        assert!(decode_changed(|f| drop(f.remove(field))).is_err(), "{field}");
    }
}

proptest! {
    #[test]
    fn noise_never_panics(noise in prop::collection::vec(any::<u8>(), 0..300), text in "[\\[\\]{}\":,a-z0-9 ]{0,80}") {
        prop_assert!(Superblock::decode(&noise).is_err());
        prop_assert!(Superblock::decode(text.as_bytes()).is_err());
    }
}
