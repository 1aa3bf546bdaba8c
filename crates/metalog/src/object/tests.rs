use std::sync::Arc;

use headrace_kv::CommitSeq;
use headrace_kv::log::LogGroup;
use headrace_layout::{Compression, DataKey, Encryption, MasterKey, Superblock};
use headrace_store::LocalStore;
use proptest::prelude::*;

use super::*;
use crate::{Bucket, SnapshotId};

const VOLUME: Uuid = Uuid::from_u128(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff);

/// A bucket whose store is not used.
fn bucket(encrypted: bool) -> (tempfile::TempDir, Bucket) {
    let dir = tempfile::tempdir().unwrap();
    let mut superblock = Superblock::new(VOLUME, "test", 0);
    superblock.compression = Compression::None;
    let key = encrypted.then(DataKey::generate);
    superblock.encryption = key.as_ref().map(|key| Encryption::new(key.wrap(&MasterKey::generate())));
    let codec = Codec::new(&superblock, key).unwrap();
    let store = Arc::new(LocalStore::open(dir.path()).unwrap());
    (dir, Bucket::new(store, codec, VOLUME, true))
}

fn uuids() -> impl Strategy<Value = Uuid> {
    any::<u128>().prop_map(Uuid::from_u128)
}

fn hashes() -> impl Strategy<Value = ObjectHash> {
    any::<[u8; 32]>().prop_map(ObjectHash)
}

fn writers() -> impl Strategy<Value = Writer> {
    (any::<u64>(), uuids(), uuids()).prop_map(|(epoch, site, claim)| Writer { epoch, site, claim })
}

fn snapshots() -> impl Strategy<Value = SnapshotId> {
    (any::<u64>(), any::<u64>())
        .prop_map(|(position, random)| SnapshotId { position: CommitSeq(position), random })
}

fn groups() -> impl Strategy<Value = Vec<LogGroup>> {
    let one = (1u64..1000, any::<u64>(), prop::collection::vec(any::<u8>(), 0..300));
    (0..u64::MAX / 2, prop::collection::vec(one, 1..8)).prop_map(|(mut position, groups)| {
        let mut next = |(step, at_ms, changes): (u64, u64, Vec<u8>)| {
            let after = CommitSeq(position);
            position += step;
            LogGroup { after, upto: CommitSeq(position), at_ms, changes: changes.into() }
        };
        groups.into_iter().map(&mut next).collect()
    })
}

fn log_objects() -> impl Strategy<Value = LogObject> {
    let epoch = (".{0,60}", any::<u64>(), any::<u64>()).prop_map(|(holder, at_ms, position)| {
        LogBody::Epoch { holder, at_ms, position: CommitSeq(position) }
    });
    let reset = (snapshots(), hashes(), ".{0,60}", any::<u64>()).prop_map(|(id, manifest, reason, at_ms)| {
        LogBody::Reset { snapshot: SnapshotRef { id, manifest }, reason, at_ms }
    });
    let body = prop_oneof![epoch, groups().prop_map(LogBody::Groups), reset];
    (writers(), hashes(), body).prop_map(|(writer, prev, body)| LogObject { writer, prev, body })
}

fn owners() -> impl Strategy<Value = Owner> {
    let ids = (any::<u64>(), uuids(), uuids());
    let texts = ("[^\u{0}]{0,80}", ".{0,80}", ".{0,20}", prop::option::of(".{0,200}"));
    let numbers = (any::<u32>(), any::<u64>(), any::<u64>(), any::<u64>(), any::<bool>());
    (ids, texts, numbers).prop_map(|(ids, texts, numbers)| Owner {
        epoch: ids.0,
        site: ids.1,
        claim: ids.2,
        machine: texts.0,
        host: texts.1,
        version: texts.2,
        mountpoint: texts.3,
        pid: numbers.0,
        since_ms: numbers.1,
        renewals: numbers.2,
        lease_ms: numbers.3,
        state: if numbers.4 { OwnerState::Held } else { OwnerState::Released },
    })
}

fn manifests() -> impl Strategy<Value = Manifest> {
    let part = (any::<u64>(), 0u64..1 << 40, hashes()).prop_map(|(stored, records, hash)| PartRecord {
        stored,
        records,
        hash,
    });
    let anchor = (any::<u64>(), hashes()).prop_map(|(number, hash)| Anchor { number, hash });
    (snapshots(), writers(), any::<u64>(), prop::option::of(anchor), prop::collection::vec(part, 0..6))
        .prop_map(|(id, writer, at_ms, anchor, parts)| Manifest {
            id,
            writer,
            at_ms,
            anchor,
            records: parts.iter().map(|part| part.records).sum(),
            bytes: at_ms / 2,
            parts,
        })
}

fn sample_owner(epoch: u64) -> Owner {
    Owner {
        epoch,
        site: Uuid::from_u128(1),
        claim: Uuid::from_u128(2),
        machine: "m".into(),
        host: "secret-host".into(),
        pid: 42,
        mountpoint: Some("/mnt/secret".into()),
        version: "1".into(),
        since_ms: 1_700_000_000_000,
        renewals: 3,
        lease_ms: 30_000,
        state: OwnerState::Held,
    }
}

proptest! {
    #[test]
    fn objects_round_trip(log in log_objects(), owner in owners(), manifest in manifests(), number: u64) {
        for encrypted in [false, true] {
            let (_dir, bucket) = bucket(encrypted);
            let stored = log.encode(&bucket, number).unwrap();
            prop_assert_eq!(&LogObject::decode(&bucket, number, &stored).unwrap(), &log);
            let stored = owner.encode(&bucket).unwrap();
            prop_assert_eq!(&Owner::decode(&bucket, owner.epoch, &stored).unwrap(), &owner);
            prop_assert!(!owner.to_string().contains('\n'));
            let stored = manifest.encode(&bucket).unwrap();
            prop_assert_eq!(&Manifest::decode(&bucket, manifest.id, &stored).unwrap(), &manifest);
        }
    }

    /// What is behind a right checksum may still be anything.
    #[test]
    fn content_that_makes_no_sense_is_refused_without_a_panic(
        log in log_objects(),
        owner in owners(),
        manifest in manifests(),
        noise in prop::collection::vec(any::<u8>(), 0..200),
        at in any::<prop::sample::Index>(),
        byte: u8,
    ) {
        let spoil = |mut plain: Vec<u8>| {
            let at = at.index(plain.len());
            plain[at] = byte;
            plain
        };
        for plain in [spoil(log.encode_plain()), noise.clone()] {
            if let Ok(object) = LogObject::decode_plain(&plain.into()) {
                prop_assert_eq!(LogObject::decode_plain(&object.encode_plain().into()), Ok(object));
            }
        }
        for plain in [spoil(owner.encode_plain()), noise.clone()] {
            if let Ok(owner) = Owner::decode_plain(7, &plain) {
                prop_assert_eq!(Owner::decode_plain(7, &owner.encode_plain()), Ok(owner));
            }
        }
        for plain in [spoil(manifest.encode_plain()), noise.clone()] {
            if let Ok(manifest) = Manifest::decode_plain(manifest.id, &plain) {
                prop_assert_eq!(Manifest::decode_plain(manifest.id, &manifest.encode_plain()), Ok(manifest));
            }
        }
        let _ = PartRecords::for_each_plain(&noise, |error| error, |_, _| Ok(()));
    }

    #[test]
    fn parts_give_back_their_records(
        records in prop::collection::btree_map(
            prop::collection::vec(any::<u8>(), 1..40),
            prop::collection::vec(any::<u8>(), 0..200),
            0..40,
        ),
    ) {
        let (_dir, bucket) = bucket(true);
        let id = SnapshotId { position: CommitSeq(9), random: 1 };
        let mut builder = PartBuilder::new();
        records.iter().for_each(|(key, value)| builder.push(key, value));
        let (stored, record) = builder.seal(&bucket, id, 3).unwrap();
        prop_assert!(builder.is_empty());
        prop_assert_eq!(record.records, records.len() as u64);
        prop_assert_eq!(record.hash, ObjectHash::of(&stored));
        let mut found = std::collections::BTreeMap::new();
        let part = PartRecords::decode(&bucket, id, 3, &stored).unwrap();
        part.for_each(|key, value| {
            found.insert(key.to_vec(), value.to_vec());
            Ok::<_, MetalogError>(())
        }).unwrap();
        prop_assert_eq!(found, records);
    }
}

/// The error of opening `stored` in place of `original`, which must name the object.
fn refused(bucket: &Bucket, stored: &[u8]) -> String {
    let error = Owner::decode(bucket, 7, stored).expect_err("a changed object must be refused").to_string();
    assert!(error.starts_with("owners/0000000000000007: "), "{error}");
    error
}

#[test]
fn every_flipped_bit_and_every_cut_is_refused_by_name() {
    for encrypted in [false, true] {
        let (_dir, bucket) = bucket(encrypted);
        let stored = sample_owner(7).encode(&bucket).unwrap();
        for at in 0..stored.len() * 8 {
            let mut flipped = stored.to_vec();
            flipped[at / 8] ^= 1 << (at % 8);
            refused(&bucket, &flipped);
        }
        for len in 0..stored.len() {
            refused(&bucket, &stored[..len]);
        }
        let mut longer = stored.to_vec();
        longer.push(0);
        refused(&bucket, &longer);
    }
}

#[test]
fn a_swapped_object_is_refused_and_says_what_it_is() {
    for encrypted in [false, true] {
        let (_dir, here) = bucket(encrypted);
        let other = sample_owner(8).encode(&here).unwrap();
        assert!(refused(&here, &other).contains("it says that it is owners/0000000000000008"));
        let log = LogObject {
            writer: Writer { epoch: 1, site: Uuid::nil(), claim: Uuid::nil() },
            prev: ObjectHash::NONE,
            body: LogBody::Epoch { holder: String::new(), at_ms: 0, position: CommitSeq(0) },
        };
        let log = log.encode(&here, 7).unwrap();
        assert!(refused(&here, &log).contains("it says that it is log/0000000000000007"));
        // With a header that was made to fit, the checksum (and the seal) still refuse it.
        let mut dressed = sample_owner(7).encode(&here).unwrap()[..header::LEN].to_vec();
        dressed.extend_from_slice(&other[header::LEN..]);
        assert!(refused(&here, &dressed).contains("checksum mismatch"));
        let elsewhere = Bucket { volume: Uuid::from_u128(5), ..here.clone() };
        let foreign = sample_owner(7).encode(&elsewhere).unwrap();
        assert!(refused(&here, &foreign).contains("belongs to volume 00000000-0000-0000-0000-000000000005"));
    }
}

#[test]
fn objects_of_another_key_are_refused() {
    let ((_a, one), (_b, two), (_c, open)) = (bucket(true), bucket(true), bucket(false));
    let stored = sample_owner(7).encode(&one).unwrap();
    assert!(refused(&two, &stored).contains("cannot decrypt"));
    assert!(refused(&open, &stored).contains("it is encrypted, but the volume is not"));
    assert!(refused(&one, &sample_owner(7).encode(&open).unwrap()).contains("it is not encrypted"));
}

#[test]
fn names_are_not_to_be_seen_in_an_encrypted_volume() {
    for encrypted in [false, true] {
        let (_dir, bucket) = bucket(encrypted);
        let shows = |stored: &[u8], text: &[u8]| stored.windows(text.len()).any(|window| window == text);
        let owner = sample_owner(7).encode(&bucket).unwrap();
        assert_eq!(shows(&owner, b"/mnt/secret"), !encrypted);
        assert_eq!(shows(&owner, b"secret-host"), !encrypted);
        let changes = Bytes::from_static(b"file name");
        let group = LogGroup { after: CommitSeq(1), upto: CommitSeq(2), at_ms: 0, changes };
        let writer = Writer { epoch: 1, site: Uuid::nil(), claim: Uuid::nil() };
        let log = LogObject { writer, prev: ObjectHash::NONE, body: LogBody::Groups(vec![group]) };
        assert_eq!(shows(&log.encode(&bucket, 1).unwrap(), b"file name"), !encrypted);
        let mut part = PartBuilder::new();
        part.push(b"file name", b"x");
        let (part, _) = part.seal(&bucket, SnapshotId { position: CommitSeq(1), random: 1 }, 0).unwrap();
        assert_eq!(shows(&part, b"file name"), !encrypted);
    }
}

#[test]
fn groups_that_do_not_follow_each_other_are_not_written() {
    let (_dir, bucket) = bucket(false);
    let group = |after, upto| LogGroup {
        after: CommitSeq(after),
        upto: CommitSeq(upto),
        at_ms: 0,
        changes: Bytes::new(),
    };
    for groups in [vec![], vec![group(1, 1)], vec![group(1, 2), group(3, 4)], vec![group(2, 1)]] {
        let writer = Writer { epoch: 1, site: Uuid::nil(), claim: Uuid::nil() };
        let object = LogObject { writer, prev: ObjectHash::NONE, body: LogBody::Groups(groups) };
        let error = object.encode(&bucket, 1).unwrap_err().to_string();
        assert!(error.starts_with("log/0000000000000001: cannot be written"), "{error}");
    }
}

#[test]
fn the_stored_form_is_pinned() {
    let (_dir, bucket) = bucket(false);
    let header = "4844524345 4f424a 0100 01 00 00112233445566778899aabbccddeeff 0700000000000000 \
                  0000000000000000 00000000";
    let plain = "00000000000000000000000000000001 00000000000000000000000000000002 01 2a 80d095ffbc31 03 b0ea01 \
                 016d 0b 7365637265742d686f7374 0131 01 0b 2f6d6e742f736563726574";
    let strip = |text: &str| text.replace(char::is_whitespace, "");
    assert_eq!(hex::encode(sample_owner(7).encode_plain()), strip(plain));
    let stored = sample_owner(7).encode(&bucket).unwrap();
    assert_eq!(hex::encode(&stored[..header::LEN]), strip(header));
    let log = LogObject {
        writer: Writer { epoch: 2, site: Uuid::from_u128(1), claim: Uuid::from_u128(2) },
        prev: ObjectHash([9; 32]),
        body: LogBody::Groups(vec![LogGroup {
            after: CommitSeq(300),
            upto: CommitSeq(302),
            at_ms: 5,
            changes: Bytes::from_static(b"abc"),
        }]),
    };
    let plain = format!(
        "01 02 00000000000000000000000000000001 00000000000000000000000000000002 {} 02 01 ac02 02 05 03 616263",
        "09".repeat(32)
    );
    assert_eq!(hex::encode(log.encode_plain()), strip(&plain));
}
