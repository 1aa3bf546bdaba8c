//! Objects of a snapshot: its parts, and the manifest that completes it.

use bytes::Bytes;
use headrace_kv::{CommitSeq, MAX_KEY_BYTES, MAX_VALUE_BYTES};
use headrace_layout::wire::{DecodeError, Reader, put_varint};

use super::log::Writer;
use super::{ObjectHash, malformed, open, put_uuid, seal, take_hash, take_uuid};
use crate::keys::MAX_PART;
use crate::{Bucket, Key, MetalogError, SnapshotId};

const VERSION: u8 = 1;

/// Ties a snapshot to the log it was taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Anchor {
    /// An object of the log after which the position is the snapshot's or a later one; groups up to the snapshot's position
    /// are in it.
    pub number: u64,
    /// Of that object's stored bytes: without it the snapshot is of another history and must not be believed.
    pub hash: ObjectHash,
}

/// One part, as the manifest describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PartRecord {
    /// Stored bytes.
    pub stored: u64,
    /// Records in it.
    pub records: u64,
    /// Of its stored bytes.
    pub hash: ObjectHash,
}

/// What completes a snapshot: written last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// The snapshot; also in the key.
    pub id: SnapshotId,
    /// Who wrote it.
    pub writer: Writer,
    /// The time of the state it shows, Unix milliseconds.
    pub at_ms: u64,
    /// Where in the log it belongs; `None` if only a reset that names it makes it part of the log.
    pub anchor: Option<Anchor>,
    /// Records in all parts.
    pub records: u64,
    /// Plain bytes of keys and values in all parts.
    pub bytes: u64,
    /// The parts, in key order.
    pub parts: Vec<PartRecord>,
}

impl Manifest {
    /// Its key.
    pub fn key(&self) -> Key {
        Key::SnapshotManifest { snapshot: self.id }
    }

    /// The bytes to store.
    pub fn encode(&self, bucket: &Bucket) -> Result<Bytes, MetalogError> {
        seal(&bucket.codec, bucket.volume, self.key(), &self.encode_plain())
    }

    /// The manifest of the snapshot `id`, from the object found there.
    pub fn decode(bucket: &Bucket, id: SnapshotId, stored: &[u8]) -> Result<Manifest, MetalogError> {
        let key = Key::SnapshotManifest { snapshot: id };
        let plain = open(&bucket.codec, bucket.volume, key, stored)?;
        Manifest::decode_plain(id, &plain).map_err(malformed(key))
    }

    /// The content before sealing.
    pub fn encode_plain(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(160 + 48 * self.parts.len());
        out.push(VERSION);
        put_varint(&mut out, self.writer.epoch);
        put_uuid(&mut out, self.writer.site);
        put_uuid(&mut out, self.writer.claim);
        put_varint(&mut out, self.at_ms);
        match &self.anchor {
            None => out.push(0),
            Some(anchor) => {
                out.push(1);
                put_varint(&mut out, anchor.number);
                out.extend_from_slice(&anchor.hash.0);
            }
        }
        put_varint(&mut out, self.records);
        put_varint(&mut out, self.bytes);
        put_varint(&mut out, self.parts.len() as u64);
        for part in &self.parts {
            put_varint(&mut out, part.stored);
            put_varint(&mut out, part.records);
            out.extend_from_slice(&part.hash.0);
        }
        out
    }

    /// The inverse of [`Self::encode_plain`]; nothing in `plain` is trusted.
    pub fn decode_plain(id: SnapshotId, plain: &[u8]) -> Result<Manifest, DecodeError> {
        let mut reader = Reader::new("snapshot manifest", plain);
        let version = reader.u8()?;
        if version != VERSION {
            return Err(reader.error(format!("version {version} is not known: a newer program is needed")));
        }
        let writer =
            Writer { epoch: reader.varint()?, site: take_uuid(&mut reader)?, claim: take_uuid(&mut reader)? };
        let at_ms = reader.varint()?;
        let anchor = match reader.u8()? {
            0 => None,
            1 => Some(Anchor { number: reader.varint()?, hash: take_hash(&mut reader)? }),
            _ => return Err(reader.error("its anchor is malformed")),
        };
        let (records, bytes) = (reader.varint()?, reader.varint()?);
        // A part takes two varints and a hash.
        let count = reader.count(34)?;
        if count > MAX_PART as usize + 1 {
            return Err(reader.error("it has too many parts"));
        }
        let mut parts = Vec::with_capacity(count);
        for _ in 0..count {
            let (stored, records) = (reader.varint()?, reader.varint()?);
            parts.push(PartRecord { stored, records, hash: take_hash(&mut reader)? });
        }
        reader.finish()?;
        let sum = parts.iter().try_fold(0u64, |sum, part| sum.checked_add(part.records));
        if sum != Some(records) {
            return Err(DecodeError {
                what: "snapshot manifest",
                detail: "its parts do not add up to its records".into(),
            });
        }
        Ok(Manifest { id, writer, at_ms, anchor, records, bytes, parts })
    }

    /// Position of the state it shows.
    pub fn position(&self) -> CommitSeq {
        self.id.position
    }
}

/// Gathers records, in key order, into one part.
#[derive(Debug, Default)]
pub struct PartBuilder {
    plain: Vec<u8>,
    records: u64,
}

impl PartBuilder {
    /// An empty part.
    pub fn new() -> PartBuilder {
        PartBuilder::default()
    }

    /// Adds a record. Keys must ascend, within and across parts.
    pub fn push(&mut self, key: &[u8], value: &[u8]) {
        put_varint(&mut self.plain, key.len() as u64);
        self.plain.extend_from_slice(key);
        put_varint(&mut self.plain, value.len() as u64);
        self.plain.extend_from_slice(value);
        self.records += 1;
    }

    /// Plain bytes so far.
    pub fn len(&self) -> usize {
        self.plain.len()
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.plain.is_empty()
    }

    /// The bytes to store as part `part` of `snapshot`, and how the manifest describes them. The builder is empty again, and keeps
    /// its memory.
    pub fn seal(
        &mut self,
        bucket: &Bucket,
        snapshot: SnapshotId,
        part: u32,
    ) -> Result<(Bytes, PartRecord), MetalogError> {
        let key = Key::SnapshotPart { snapshot, part };
        if part > MAX_PART {
            let detail = format!("a snapshot has at most {} parts", MAX_PART + 1);
            return Err(MetalogError::Unwritable { key: key.to_string(), detail });
        }
        let stored = seal(&bucket.codec, bucket.volume, key, &self.plain)?;
        let record =
            PartRecord { stored: stored.len() as u64, records: self.records, hash: ObjectHash::of(&stored) };
        self.plain.clear();
        self.records = 0;
        Ok((stored, record))
    }
}

/// The records of one part.
#[derive(Debug)]
pub struct PartRecords {
    key: Key,
    plain: Bytes,
}

impl PartRecords {
    /// Opens the object found as part `part` of `snapshot`.
    pub fn decode(
        bucket: &Bucket,
        snapshot: SnapshotId,
        part: u32,
        stored: &[u8],
    ) -> Result<PartRecords, MetalogError> {
        let key = Key::SnapshotPart { snapshot, part };
        let plain = open(&bucket.codec, bucket.volume, key, stored)?;
        Ok(PartRecords { key, plain })
    }

    /// Calls `visit` with each key and value, in order. Stops at the first error, `visit`'s or its own.
    pub fn for_each<E: From<MetalogError>>(
        &self,
        visit: impl FnMut(&[u8], &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let key = self.key;
        Self::for_each_plain(&self.plain, move |error| malformed(key)(error).into(), visit)
    }

    /// The records in the content of a part, which is not trusted: keys ascend and are within the limits of an engine.
    pub fn for_each_plain<E>(
        plain: &[u8],
        malformed: impl Fn(DecodeError) -> E,
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut reader = Reader::new("snapshot part", plain);
        let mut last: &[u8] = &[];
        while reader.remaining() > 0 {
            let (key, value) = take_record(&mut reader, last).map_err(&malformed)?;
            visit(key, value)?;
            last = key;
        }
        Ok(())
    }
}

fn take_record<'a>(reader: &mut Reader<'a>, last: &[u8]) -> Result<(&'a [u8], &'a [u8]), DecodeError> {
    let len = reader.count(1)?;
    let key = reader.take(len)?;
    if key.is_empty() || key.len() > MAX_KEY_BYTES {
        return Err(reader.error("a key's length is out of range"));
    }
    if key <= last {
        return Err(reader.error("its keys are not in order"));
    }
    let len = reader.count(1)?;
    if len > MAX_VALUE_BYTES {
        return Err(reader.error("a value is too long"));
    }
    Ok((key, reader.take(len)?))
}
