//! What a restore can begin with.

use std::collections::BTreeMap;

use headrace_store::StoreError;

use super::fetch::{Fetched, fetch};
use crate::keys::{LOG, SNAPSHOTS};
use crate::object::{LogBody, LogObject, Manifest};
use crate::{Bucket, Key, ObjectHash, SnapshotId};

/// What the bucket holds.
pub(super) struct Listing {
    /// Sizes of the log objects by number.
    pub(super) log: BTreeMap<u64, u64>,
    /// Snapshots that have a manifest.
    snapshots: Vec<SnapshotId>,
    /// Sizes of the parts.
    parts: BTreeMap<Key, u64>,
}

/// A snapshot that says it can be begun with. Whether it belongs to the log's history is found out when it is used.
#[derive(Clone, Debug)]
pub(super) struct Base {
    pub(super) manifest: Manifest,
    /// Of the manifest's stored bytes.
    pub(super) hash: ObjectHash,
    /// The log object it is tied to.
    pub(super) number: u64,
    /// That object's hash; [`ObjectHash::NONE`] if it is the reset that names this snapshot.
    pub(super) anchor: ObjectHash,
}

impl Listing {
    pub(super) async fn read(bucket: &Bucket) -> Result<Listing, StoreError> {
        let mut listing = Listing { log: BTreeMap::new(), snapshots: Vec::new(), parts: BTreeMap::new() };
        // Snapshots first: the log that is listed later holds what their manifests name.
        for (key, size) in bucket.list(SNAPSHOTS).await? {
            match key {
                Key::SnapshotManifest { snapshot } => listing.snapshots.push(snapshot),
                Key::SnapshotPart { .. } => drop(listing.parts.insert(key, size)),
                Key::Owner { .. } | Key::Log { .. } => {}
            }
        }
        for (key, size) in bucket.list(LOG).await? {
            if let Key::Log { number } = key {
                listing.log.insert(number, size);
            }
        }
        Ok(listing)
    }

    /// Whether something that was in `before` is gone.
    pub(super) fn has_lost_some_of(&self, before: &Listing) -> bool {
        before.log.keys().any(|number| !self.log.contains_key(number))
            || before.snapshots.iter().any(|id| !self.snapshots.contains(id))
            || before.parts.keys().any(|key| !self.parts.contains_key(key))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.log.is_empty() && self.snapshots.is_empty()
    }

    /// The snapshots whose manifests can be read, the newest first, of one place in the log the one that
    /// [`decide`](crate::retain) keeps longest. What is wrong with others is added to `damage`.
    pub(super) async fn bases(
        &self,
        bucket: &Bucket,
        damage: &mut Vec<String>,
    ) -> Result<Vec<Base>, StoreError> {
        let mut bases = Vec::new();
        for &id in &self.snapshots {
            let key = Key::SnapshotManifest { snapshot: id };
            let read = match fetch(bucket, key).await? {
                // Removed since it was listed.
                Fetched::Missing => continue,
                found => found.into_bytes().map_err(|detail| format!("{key}: {detail}")),
            };
            let decoded = read.and_then(|stored| {
                let manifest = Manifest::decode(bucket, id, &stored).map_err(|error| error.to_string())?;
                Ok((manifest, ObjectHash::of(&stored)))
            });
            match decoded {
                Ok((manifest, hash)) => {
                    let Some(anchor) = manifest.anchor else { continue };
                    bases.push(Base { manifest, hash, number: anchor.number, anchor: anchor.hash });
                }
                Err(detail) => damage.push(detail),
            }
        }
        bases.sort_by_key(|base| std::cmp::Reverse((base.number, base.manifest.id)));
        Ok(bases)
    }

    /// What is missing of snapshots of which there are only parts: removed, or not finished.
    pub(super) fn headless(&self) -> Vec<String> {
        let ids = self.parts.keys().filter_map(|key| match key {
            Key::SnapshotPart { snapshot, .. } => Some(*snapshot),
            _ => None,
        });
        let mut headless: Vec<SnapshotId> = ids.filter(|id| !self.snapshots.contains(id)).collect();
        headless.dedup();
        headless
            .into_iter()
            .map(|snapshot| format!("{}: it is missing", Key::SnapshotManifest { snapshot }))
            .collect()
    }

    /// Keys of a snapshot's parts with their sizes; or what is missing or cut.
    pub(super) fn parts(&self, manifest: &Manifest) -> Result<Vec<(Key, u64)>, String> {
        let id = manifest.id;
        let parts = (0u32..).zip(&manifest.parts).map(|(part, record)| {
            let key = Key::SnapshotPart { snapshot: id, part };
            match self.parts.get(&key) {
                Some(size) if *size == record.stored => Ok((key, *size)),
                Some(size) => Err(format!("{key}: it has {size} bytes, not {}", record.stored)),
                None => Err(format!("{key}: it is missing")),
            }
        });
        parts.collect()
    }
}

/// Where the log goes on after a base, and the object that the base is tied to.
pub(super) struct Anchored {
    pub(super) hash: ObjectHash,
    /// `None` for a reset, which has no groups.
    pub(super) object: Option<LogObject>,
}

impl Base {
    /// Finds the log object that the base is tied to, and checks that it is the one.
    pub(super) async fn anchored(&self, bucket: &Bucket) -> Result<Result<Anchored, String>, StoreError> {
        let key = Key::Log { number: self.number };
        let stored = match fetch(bucket, key).await?.into_bytes() {
            Ok(stored) => stored,
            Err(detail) => return Ok(Err(format!("{key}: {detail}"))),
        };
        let hash = ObjectHash::of(&stored);
        let object = match LogObject::decode(bucket, self.number, &stored) {
            Ok(object) => object,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let manifest = self.manifest.key();
        let other = || Ok(Err(format!("{manifest}: it is not of this log's history, {key} says otherwise")));
        if self.anchor == ObjectHash::NONE {
            return match &object.body {
                LogBody::Reset { snapshot, .. }
                    if snapshot.id == self.manifest.id && snapshot.manifest == self.hash =>
                {
                    Ok(Ok(Anchored { hash, object: None }))
                }
                _ => other(),
            };
        }
        if hash != self.anchor {
            return other();
        }
        Ok(Ok(Anchored { hash, object: Some(object) }))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use headrace_kv::Engine as _;
    use headrace_kv::embedded::{EmbeddedEngine, EmbeddedOptions};
    use headrace_layout::Codec;
    use headrace_layout::superblock::Superblock;
    use headrace_store::LocalStore;
    use uuid::Uuid;

    use super::*;
    use crate::SiteRecord;
    use crate::object::Anchor;
    use crate::retain::Shelf;
    use crate::ship::publish_initial;
    use crate::snapshot::{complete, write_parts};

    /// A snapshot whose manifest was written, but not acknowledged, is made once more of the same state. The owner then removes
    /// all but one, while somebody may be restoring.
    #[tokio::test]
    async fn of_snapshots_of_one_state_the_one_that_stays_is_begun_with() {
        let dir = tempfile::tempdir().unwrap();
        let volume = Uuid::from_u128(7);
        let codec = Codec::new(&Superblock::new(volume, "test", 0), None).unwrap();
        let store = Arc::new(LocalStore::open(dir.path()).unwrap());
        let bucket = Bucket::new(store, codec, volume, true);
        let meta = dir.path().join("meta");
        let options = EmbeddedOptions { log: true, map_size: 16 << 20, ..EmbeddedOptions::default() };
        let engine = EmbeddedEngine::open(&meta, options).unwrap();
        let last = engine
            .transact(&mut |txn| {
                txn.put(b"key", b"value");
                Ok(())
            })
            .unwrap();
        engine.durable(last).await.unwrap();
        let writer = SiteRecord::open(dir.path()).unwrap().first_writer().unwrap();
        publish_initial(&bucket, &engine, writer).await.unwrap();
        let number = 0;
        let log = bucket.get(Key::Log { number }).await.unwrap().unwrap();
        let anchor = Anchor { number, hash: ObjectHash::of(&log) };
        for random in [u64::MAX, 0, u64::MAX / 2] {
            let id = SnapshotId { position: last, random };
            let parts = write_parts(&bucket, id, engine.snapshot().unwrap(), 1024).await.unwrap();
            complete(&bucket, parts, writer, 1, anchor).await.unwrap();
        }
        let mut damage = Vec::new();
        let bases = Listing::read(&bucket).await.unwrap().bases(&bucket, &mut damage).await.unwrap();
        assert_eq!((bases.len(), damage), (4, Vec::new()));
        let mut shelf = Shelf::default();
        shelf.read(&bucket, writer.epoch).await.unwrap();
        let removed = shelf.removable(u64::MAX);
        let stays = |base: &&Base| !removed.contains(&base.manifest.key());
        let staying: Vec<_> = bases.iter().filter(stays).map(|base| base.manifest.id).collect();
        assert_eq!(staying, [bases[0].manifest.id]);
        assert_eq!(shelf.newest().unwrap().position, last);
        engine.close().unwrap();
    }
}
