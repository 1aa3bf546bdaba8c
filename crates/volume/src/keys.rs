//! Which objects in a store belong to a volume.

use headrace_layout::SegmentId;
use headrace_layout::superblock::OBJECT_KEY;
use headrace_metalog::Key;
use headrace_metalog::keys::{self, KeyClass};

/// Prefix of all segments.
pub(crate) const SEGMENTS: &str = "segments/";

/// What an object is, by its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The superblock.
    Superblock,
    /// A segment.
    Segment(SegmentId),
    /// A piece of the metadata log: who owns the volume, the log itself, a snapshot.
    Log(Key),
    /// Left by a store probe that was interrupted.
    Probe,
    /// Not ours.
    Foreign,
}

/// What the object under `key` is.
pub(crate) fn owner(key: &str) -> Owner {
    if key == OBJECT_KEY {
        Owner::Superblock
    } else if let Some(id) = SegmentId::from_object_key(key) {
        Owner::Segment(id)
    } else if is_probe(key) {
        Owner::Probe
    } else if let KeyClass::Ours(key) = keys::classify(key) {
        Owner::Log(key)
    } else {
        Owner::Foreign
    }
}

/// Prefix of what [`headrace_store::probe`] makes and removes.
pub(crate) const PROBE: &str = "probe/";

/// Whether `key` is one that [`headrace_store::probe`] makes: `probe/<hex digits>/...`.
pub(crate) fn is_probe(key: &str) -> bool {
    let rest = key.strip_prefix(PROBE).and_then(|rest| rest.split_once('/'));
    rest.is_some_and(|(random, name)| {
        random.len() >= 16 && random.bytes().all(|b| b.is_ascii_hexdigit()) && !name.is_empty()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    #[test]
    fn only_exact_keys_are_ours() {
        let id = SegmentId::new(SystemTime::now());
        let key = id.object_key();
        assert_eq!(owner(&key), Owner::Segment(id));
        assert_eq!(owner("headrace.json"), Owner::Superblock);
        assert_eq!(owner("probe/0123456789abcdef/a"), Owner::Probe);
        assert_eq!(owner("log/000000000000000a"), Owner::Log(Key::Log { number: 10 }));
        assert_eq!(owner("owners/0000000000000001"), Owner::Log(Key::Owner { epoch: 1 }));
        let misplaced = key.replace("segments/", "segments/x");
        for foreign in [
            "segments/readme",
            "segments/aa/",
            "probe/notes.txt",
            "log/1",
            "owners/me",
            "snapshots/of/paris",
            "headrace.json.bak",
            "a/headrace.json",
            &misplaced,
            &key.to_lowercase(),
            &format!("{key}.bak"),
        ] {
            assert_eq!(owner(foreign), Owner::Foreign, "{foreign}");
        }
    }
}
