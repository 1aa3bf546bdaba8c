//! What every object of the log begins with: what it is and where it belongs, in clear.

use headrace_kv::CommitSeq;
use uuid::Uuid;

use crate::{Key, SnapshotId};

const MAGIC: &[u8; 8] = b"HDRCEOBJ";
const VERSION: u16 = 1;

/// Bytes of a header.
pub(super) const LEN: usize = 48;

/// Magic (8 bytes), version (2), kind (1), zero (1), volume (16), two numbers and a part that stand for the key (8, 8, 4).
pub(super) fn encode(volume: Uuid, key: Key) -> [u8; LEN] {
    let (kind, first, second, part) = match key {
        Key::Owner { epoch } => (1, epoch, 0, 0),
        Key::Log { number } => (2, number, 0, 0),
        Key::SnapshotPart { snapshot, part } => (3, snapshot.position.0, snapshot.random, part),
        Key::SnapshotManifest { snapshot } => (4, snapshot.position.0, snapshot.random, 0),
    };
    let mut header = [0; LEN];
    header[..8].copy_from_slice(MAGIC);
    header[8..10].copy_from_slice(&VERSION.to_le_bytes());
    header[10] = kind;
    header[12..28].copy_from_slice(volume.as_bytes());
    header[28..36].copy_from_slice(&first.to_le_bytes());
    header[36..44].copy_from_slice(&second.to_le_bytes());
    header[44..].copy_from_slice(&part.to_le_bytes());
    header
}

/// Splits off the header if it is the one that belongs to `key` in `volume`; otherwise says what is there instead.
pub(super) fn check(volume: Uuid, key: Key, stored: &[u8]) -> Result<(&[u8; LEN], &[u8]), String> {
    let Some((header, sealed)) = stored.split_first_chunk::<LEN>() else {
        return Err(format!("it is cut short: {} bytes", stored.len()));
    };
    if *header == encode(volume, key) {
        return Ok((header, sealed));
    }
    Err(wrong(volume, header))
}

/// What is wrong with a header.
fn wrong(volume: Uuid, header: &[u8; LEN]) -> String {
    // The ranges lie within the array.
    let number = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&header[at..at + 8]);
        u64::from_le_bytes(bytes)
    };
    let version = u16::from_le_bytes([header[8], header[9]]);
    let mut of = [0; 16];
    of.copy_from_slice(&header[12..28]);
    let of = Uuid::from_bytes(of);
    if &header[..8] != MAGIC {
        return "it does not begin as an object of the log: it is damaged or something else".into();
    }
    if version != VERSION {
        return format!(
            "it has version {version}; this program knows version {VERSION}: a newer one is needed"
        );
    }
    if of != volume {
        return format!("it says that it belongs to volume {of}: it is damaged or was copied here");
    }
    let (first, second) = (number(28), number(36));
    let part = u32::from_le_bytes([header[44], header[45], header[46], header[47]]);
    let snapshot = SnapshotId { position: CommitSeq(first), random: second };
    let key = match header[10] {
        1 => Some(Key::Owner { epoch: first }),
        2 => Some(Key::Log { number: first }),
        3 => Some(Key::SnapshotPart { snapshot, part }),
        4 => Some(Key::SnapshotManifest { snapshot }),
        _ => None,
    };
    match key.filter(|key| encode(volume, *key) == *header) {
        Some(key) => {
            format!("it says that it is {key}: it is damaged or another object was put in its place")
        }
        None => "its header is damaged".into(),
    }
}
