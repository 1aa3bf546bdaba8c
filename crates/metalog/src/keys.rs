//! The keys of the log's objects.

use std::fmt;

use headrace_kv::CommitSeq;

/// Prefix of the objects that say who owns the volume.
pub const OWNERS: &str = "owners/";
/// Prefix of the log's objects.
pub const LOG: &str = "log/";
/// Prefix of the snapshots' objects.
pub const SNAPSHOTS: &str = "snapshots/";

/// Highest number of a part: five digits in its key.
pub const MAX_PART: u32 = 99_999;

/// Names one snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SnapshotId {
    /// The engine's position that it shows.
    pub position: CommitSeq,
    /// Tells apart snapshots of one position.
    pub random: u64,
}

impl SnapshotId {
    /// A fresh id for a snapshot at `position`.
    ///
    /// # Panics
    /// If the operating system cannot give random bytes.
    pub fn generate(position: CommitSeq) -> SnapshotId {
        let random = getrandom::u64().expect("the operating system gives no random bytes");
        SnapshotId { position, random }
    }

    /// Prefix of all its objects, with the slash.
    pub fn prefix(&self) -> String {
        format!("{SNAPSHOTS}{self}/")
    }
}

impl fmt::Display for SnapshotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{:016x}", self.position.0, self.random)
    }
}

/// Names one object of the log. Displayed as its key in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// Who owned the volume in this epoch.
    Owner {
        /// The epoch, from 1.
        epoch: u64,
    },
    /// A piece of the log.
    Log {
        /// Its number, from 0.
        number: u64,
    },
    /// A piece of a snapshot.
    SnapshotPart {
        /// The snapshot.
        snapshot: SnapshotId,
        /// Its number, from 0 to [`MAX_PART`].
        part: u32,
    },
    /// What completes a snapshot.
    SnapshotManifest {
        /// The snapshot.
        snapshot: SnapshotId,
    },
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Owner { epoch } => write!(f, "{OWNERS}{epoch:016x}"),
            Key::Log { number } => write!(f, "{LOG}{number:016x}"),
            Key::SnapshotPart { snapshot, part } => write!(f, "{SNAPSHOTS}{snapshot}/part-{part:05}"),
            Key::SnapshotManifest { snapshot } => write!(f, "{SNAPSHOTS}{snapshot}/manifest"),
        }
    }
}

impl Key {
    /// The epoch of an owner's key.
    pub fn epoch(&self) -> Option<u64> {
        if let Key::Owner { epoch } = self { Some(*epoch) } else { None }
    }

    /// The number of a piece of the log.
    pub fn number(&self) -> Option<u64> {
        if let Key::Log { number } = self { Some(*number) } else { None }
    }

    /// The snapshot that a manifest completes or a part belongs to.
    pub fn snapshot(&self) -> Option<SnapshotId> {
        match self {
            Key::SnapshotPart { snapshot, .. } | Key::SnapshotManifest { snapshot } => Some(*snapshot),
            _ => None,
        }
    }

    /// The inverse of `to_string`: `None` for anything that this program would not have written.
    pub fn parse(key: &str) -> Option<Key> {
        if let Some(epoch) = key.strip_prefix(OWNERS) {
            return Some(Key::Owner { epoch: hex16(epoch)? });
        }
        if let Some(number) = key.strip_prefix(LOG) {
            return Some(Key::Log { number: hex16(number)? });
        }
        let (id, name) = key.strip_prefix(SNAPSHOTS)?.split_once('/')?;
        let (position, random) = id.split_once('-')?;
        let snapshot = SnapshotId { position: CommitSeq(hex16(position)?), random: hex16(random)? };
        if name == "manifest" {
            return Some(Key::SnapshotManifest { snapshot });
        }
        let part = name.strip_prefix("part-").filter(|digits| digits.len() == 5)?;
        let part = part.bytes().all(|digit| digit.is_ascii_digit()).then(|| part.parse().ok())??;
        Some(Key::SnapshotPart { snapshot, part })
    }
}

/// Sixteen lower-case hex digits.
fn hex16(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|digit| digit.is_ascii_digit() || (b'a'..=b'f').contains(&digit));
    (text.len() == 16 && digits).then(|| u64::from_str_radix(text, 16).ok())?
}

/// What a key found in a bucket is, as far as the log is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyClass {
    /// An object of the log.
    Ours(Key),
    /// Beneath one of the log's prefixes, but nothing that the log writes.
    Stray,
    /// Elsewhere: a segment, the superblock, something foreign.
    Elsewhere,
}

/// Classifies a key found in a bucket.
pub fn classify(key: &str) -> KeyClass {
    match Key::parse(key) {
        Some(key) => KeyClass::Ours(key),
        None if [OWNERS, LOG, SNAPSHOTS].iter().any(|prefix| key.starts_with(prefix)) => KeyClass::Stray,
        None => KeyClass::Elsewhere,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn keys() -> impl Strategy<Value = Key> {
        let snapshot = (any::<u64>(), any::<u64>())
            .prop_map(|(position, random)| SnapshotId { position: CommitSeq(position), random });
        prop_oneof![
            any::<u64>().prop_map(|epoch| Key::Owner { epoch }),
            any::<u64>().prop_map(|number| Key::Log { number }),
            (snapshot.clone(), 0..=MAX_PART)
                .prop_map(|(snapshot, part)| Key::SnapshotPart { snapshot, part }),
            snapshot.prop_map(|snapshot| Key::SnapshotManifest { snapshot }),
        ]
    }

    proptest! {
        #[test]
        fn keys_round_trip_and_only_keys_parse(key in keys(), at in any::<prop::sample::Index>(), byte in 0x20u8..0x7f) {
            let text = key.to_string();
            prop_assert_eq!(Key::parse(&text), Some(key));
            // What parses is exactly what would be written.
            let mut other = text.into_bytes();
            let at = at.index(other.len());
            other[at] = byte;
            let other = String::from_utf8(other).unwrap();
            if let Some(parsed) = Key::parse(&other) {
                prop_assert_eq!(parsed.to_string(), other);
            }
        }

        #[test]
        fn the_order_of_keys_is_the_order_of_numbers(a: u64, b: u64) {
            let text = |number| Key::Log { number }.to_string();
            prop_assert_eq!(a.cmp(&b), text(a).cmp(&text(b)));
        }
    }

    #[test]
    fn keys_are_pinned() {
        let snapshot = SnapshotId { position: CommitSeq(0xabc), random: 7 };
        let pinned = [
            (Key::Owner { epoch: 1 }, "owners/0000000000000001"),
            (Key::Log { number: u64::MAX }, "log/ffffffffffffffff"),
            (
                Key::SnapshotPart { snapshot, part: 12 },
                "snapshots/0000000000000abc-0000000000000007/part-00012",
            ),
            (Key::SnapshotManifest { snapshot }, "snapshots/0000000000000abc-0000000000000007/manifest"),
        ];
        for (key, text) in pinned {
            assert_eq!(key.to_string(), text);
        }
    }

    #[test]
    fn what_lies_about_is_told_from_what_is_elsewhere() {
        assert_eq!(classify("log/0000000000000001"), KeyClass::Ours(Key::Log { number: 1 }));
        for stray in
            ["log/1", "log/+000000000000001", "log/000000000000000A", "owners/x", "snapshots/a/manifest"]
        {
            assert_eq!(classify(stray), KeyClass::Stray, "{stray}");
        }
        assert_eq!(classify("segments/00/x"), KeyClass::Elsewhere);
        assert_eq!(classify("headrace.json"), KeyClass::Elsewhere);
    }
}
