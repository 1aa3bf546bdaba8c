//! What the bucket holds of the log, found out with as few requests as possible.

use std::collections::BTreeMap;

use headrace_kv::CommitSeq;
use headrace_store::StoreError;

use super::{Kept, SnapshotFacts, Stock, decide};
use crate::keys::{LOG, OWNERS, SNAPSHOTS};
use crate::object::{LogBody, LogObject, Manifest};
use crate::{Bucket, Key, MetalogError, ObjectHash, SnapshotId};

/// What the bucket holds of the log.
#[derive(Default)]
pub(crate) struct Shelf {
    /// Sizes of the log objects by number.
    log: BTreeMap<u64, u64>,
    snapshots: BTreeMap<SnapshotId, BTreeMap<Key, u64>>,
    owners: Vec<u64>,
    /// What was found out about snapshots; it never changes.
    known: BTreeMap<SnapshotId, Known>,
}

/// A snapshot that a restore can begin with.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) number: u64,
    pub(crate) at_ms: u64,
    pub(crate) position: CommitSeq,
    /// Stored bytes of its parts.
    pub(crate) stored: u64,
    parts: Vec<u64>,
    /// It is part of the log's history; if not it is of no use to anybody.
    believed: bool,
}

impl Shelf {
    /// Lists what is there, and reads what it does not know yet. `epoch` is the owner's that asks.
    pub(crate) async fn read(&mut self, bucket: &Bucket, epoch: u64) -> Result<(), MetalogError> {
        let number = |(key, size): (Key, u64)| match key {
            Key::Log { number } => Some((number, size)),
            _ => None,
        };
        // Snapshots first: the log that is listed later holds what their manifests name.
        let snapshots = bucket.list(SNAPSHOTS).await?;
        self.log = bucket.list(LOG).await?.into_iter().filter_map(number).collect();
        self.owners = bucket.list(OWNERS).await?.iter().filter_map(|(key, _)| key.epoch()).collect();
        self.snapshots.clear();
        for (key, size) in snapshots {
            if let Key::SnapshotPart { snapshot, .. } | Key::SnapshotManifest { snapshot } = key {
                self.snapshots.entry(snapshot).or_default().insert(key, size);
            }
        }
        self.known.retain(|id, _| self.snapshots.contains_key(id));
        let unknown: Vec<_> = self
            .snapshots
            .iter()
            .filter(|(id, keys)| {
                !self.known.contains_key(id) && keys.contains_key(&Key::SnapshotManifest { snapshot: **id })
            })
            .map(|(id, _)| *id)
            .collect();
        let last = self.log.keys().next_back().copied();
        for id in unknown {
            if let Some(known) = examine(bucket, id, epoch, last).await? {
                self.known.insert(id, known);
            }
        }
        Ok(())
    }

    /// Whether a restore can begin with this snapshot.
    fn kept(&self, id: SnapshotId) -> Kept {
        let Some(keys) = self.snapshots.get(&id) else { return Kept::Unsure };
        if !keys.contains_key(&Key::SnapshotManifest { snapshot: id }) {
            // Written by nobody: the one owner that could be at it is the one that asks, between two snapshots of its own.
            return Kept::Useless;
        }
        let Some(known) = self.known.get(&id) else { return Kept::Unsure };
        if !known.believed {
            return Kept::Useless;
        }
        let whole = (0u32..)
            .zip(&known.parts)
            .all(|(part, stored)| keys.get(&Key::SnapshotPart { snapshot: id, part }) == Some(stored));
        // One that lacks something is kept for whoever wants to look at it, but nothing rests on it.
        if whole { Kept::Complete { number: known.number, at_ms: known.at_ms } } else { Kept::Unsure }
    }

    /// The newest snapshot that a restore can begin with.
    pub(crate) fn newest(&self) -> Option<Known> {
        let complete = |(id, _): &(&SnapshotId, &Known)| matches!(self.kept(**id), Kept::Complete { .. });
        let newest = self.known.iter().filter(complete).max_by_key(|(id, known)| (known.number, **id));
        newest.map(|(_, known)| known.clone())
    }

    /// Number and bytes of the log objects after `number` up to `last`.
    pub(crate) fn log_after(&self, number: u64, last: u64) -> (u64, u64) {
        if number >= last {
            return (0, 0);
        }
        let sizes = self.log.range(number + 1..=last).map(|(_, size)| *size);
        sizes.fold((0, 0), |(count, bytes), size| (count + 1, bytes + size))
    }

    /// What may be removed, in order, so that every moment since `oldest_ms` can still be restored.
    pub(crate) fn removable(&self, oldest_ms: u64) -> Vec<Key> {
        let snapshots = self.snapshots.iter().map(|(id, keys)| SnapshotFacts {
            id: *id,
            keys: keys.keys().copied().collect(),
            kept: self.kept(*id),
        });
        let stock = Stock {
            log: self.log.keys().copied().collect(),
            snapshots: snapshots.collect(),
            owners: self.owners.iter().copied().collect(),
        };
        decide(&stock, oldest_ms)
    }
}

/// Reads a snapshot's manifest, and the log object that it is tied to; `last` is the newest there is. `None` if nothing can be
/// said, because one of them is damaged say: then it is kept.
async fn examine(
    bucket: &Bucket,
    id: SnapshotId,
    epoch: u64,
    last: Option<u64>,
) -> Result<Option<Known>, StoreError> {
    let Some(stored) = bucket.get(Key::SnapshotManifest { snapshot: id }).await? else { return Ok(None) };
    let hash = ObjectHash::of(&stored);
    let Ok(manifest) = Manifest::decode(bucket, id, &stored) else { return Ok(None) };
    let Some(anchor) = manifest.anchor else { return Ok(None) };
    let there = bucket.get(Key::Log { number: anchor.number }).await?;
    let believed = match there {
        Some(there) if ObjectHash::of(&there) == anchor.hash => true,
        Some(there) => match LogObject::decode(bucket, anchor.number, &there) {
            Ok(LogObject { body: LogBody::Reset { snapshot, .. }, .. })
                if anchor.hash == ObjectHash::NONE =>
            {
                snapshot.id == id && snapshot.manifest == hash
            }
            // Of another history.
            Ok(_) => false,
            Err(_) => return Ok(None),
        },
        // It was never written, and who would have is gone.
        None if Some(anchor.number) > last && manifest.writer.epoch < epoch => false,
        None => return Ok(None),
    };
    Ok(Some(Known {
        number: anchor.number,
        at_ms: manifest.at_ms,
        position: id.position,
        stored: manifest.parts.iter().map(|part| part.stored).sum(),
        parts: manifest.parts.iter().map(|part| part.stored).collect(),
        believed,
    }))
}
