//! What the objects of the metadata log hold once they are opened: log, owners, snapshots, changes, and their keys.
#![no_main]

use bytes::Bytes;
use headrace_kv::CommitSeq;
use headrace_kv::log::Changes;
use headrace_metalog::SnapshotId;
use headrace_metalog::keys::{Key, classify};
use headrace_metalog::object::{LogBody, LogObject, Manifest, Owner, PartRecords};
use libfuzzer_sys::fuzz_target;

fn walk(changes: &[u8]) {
    let Ok(changes) = Changes::new(changes) else { return };
    let mut last: Vec<u8> = Vec::new();
    for entry in changes {
        let Ok((key, _)) = entry else { return };
        assert!(key > last.as_slice());
        last = key.to_vec();
    }
}

fuzz_target!(|data: &[u8]| {
    let bytes = Bytes::copy_from_slice(data);
    if let Ok(object) = LogObject::decode_plain(&bytes) {
        let again = LogObject::decode_plain(&object.encode_plain().into()).expect("its own");
        assert_eq!(again, object);
        if let LogBody::Groups(groups) = &object.body {
            for pair in groups.windows(2) {
                assert_eq!(pair[0].upto, pair[1].after, "contiguous");
            }
            groups.iter().for_each(|group| walk(&group.changes));
        }
    }
    if let Ok(owner) = Owner::decode_plain(7, data) {
        assert_eq!(Owner::decode_plain(7, &owner.encode_plain()).expect("its own"), owner);
    }
    let id = SnapshotId { position: CommitSeq(5), random: 6 };
    if let Ok(manifest) = Manifest::decode_plain(id, data) {
        assert_eq!(Manifest::decode_plain(id, &manifest.encode_plain()).expect("its own"), manifest);
    }
    let mut last: Vec<u8> = Vec::new();
    let _ = PartRecords::for_each_plain(
        data,
        |error| error,
        |key, _| {
            assert!(key > last.as_slice());
            last = key.to_vec();
            Ok(())
        },
    );
    walk(data);
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = classify(text);
        if let Some(key) = Key::parse(text) {
            assert_eq!(key.to_string(), text);
        }
    }
});
