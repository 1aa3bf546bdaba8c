//! Objects of the log itself.

use bytes::Bytes;
use headrace_kv::CommitSeq;
use headrace_kv::log::LogGroup;
use headrace_layout::wire::{DecodeError, Reader, put_varint};
use uuid::Uuid;

use super::{ObjectHash, malformed, open, put_text, put_uuid, seal, take_hash, take_text, take_uuid};
use crate::{Bucket, Key, MetalogError, SnapshotId};

const VERSION: u8 = 1;
const EPOCH: u8 = 1;
const GROUPS: u8 = 2;
const RESET: u8 = 3;

/// Who wrote an object of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Writer {
    /// The epoch it owned; 0 for what `format` writes.
    pub epoch: u64,
    /// Its state directory.
    pub site: Uuid,
    /// Its claim.
    pub claim: Uuid,
}

/// One object of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogObject {
    /// Who wrote it.
    pub writer: Writer,
    /// Of the object with the number before; [`ObjectHash::NONE`] in the first.
    pub prev: ObjectHash,
    /// What it says.
    pub body: LogBody,
}

/// What an object of the log says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogBody {
    /// A new owner begins; it takes the number that the one before would have used next, and so puts it out.
    Epoch {
        /// The owner, for people.
        holder: String,
        /// When, Unix milliseconds.
        at_ms: u64,
        /// The log's position here: what the objects before add up to.
        position: CommitSeq,
    },
    /// Committed groups, contiguous and not empty.
    Groups(Vec<LogGroup>),
    /// The state from here on is that of a complete snapshot, whatever was before.
    Reset {
        /// The snapshot.
        snapshot: SnapshotRef,
        /// Why, for people.
        reason: String,
        /// When, Unix milliseconds.
        at_ms: u64,
    },
}

/// Names a snapshot and its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SnapshotRef {
    /// The snapshot; its position is the log's position after the reset.
    pub id: SnapshotId,
    /// Of its manifest's stored bytes.
    pub manifest: ObjectHash,
}

impl LogObject {
    /// The log's position after this object.
    pub fn position(&self) -> CommitSeq {
        match &self.body {
            LogBody::Epoch { position, .. } => *position,
            LogBody::Groups(groups) => groups.last().map_or(CommitSeq(0), |group| group.upto),
            LogBody::Reset { snapshot, .. } => snapshot.id.position,
        }
    }

    /// The bytes to store under `number`.
    pub fn encode(&self, bucket: &Bucket, number: u64) -> Result<Bytes, MetalogError> {
        let key = Key::Log { number };
        self.check()
            .map_err(|detail| MetalogError::Unwritable { key: key.to_string(), detail: detail.into() })?;
        seal(&bucket.codec, bucket.volume, key, &self.encode_plain())
    }

    /// The object found under `number`.
    pub fn decode(bucket: &Bucket, number: u64, stored: &[u8]) -> Result<LogObject, MetalogError> {
        let key = Key::Log { number };
        let plain = open(&bucket.codec, bucket.volume, key, stored)?;
        LogObject::decode_plain(&plain).map_err(malformed(key))
    }

    /// The content before sealing.
    pub fn encode_plain(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(160 + self.changes_len());
        out.push(VERSION);
        put_varint(&mut out, self.writer.epoch);
        put_uuid(&mut out, self.writer.site);
        put_uuid(&mut out, self.writer.claim);
        out.extend_from_slice(&self.prev.0);
        match &self.body {
            LogBody::Epoch { holder, at_ms, position } => {
                out.push(EPOCH);
                put_varint(&mut out, *at_ms);
                put_varint(&mut out, position.0);
                put_text(&mut out, holder);
            }
            LogBody::Groups(groups) => {
                out.push(GROUPS);
                put_varint(&mut out, groups.len() as u64);
                put_varint(&mut out, groups.first().map_or(0, |group| group.after.0));
                for group in groups {
                    put_varint(&mut out, group.upto.0.saturating_sub(group.after.0));
                    put_varint(&mut out, group.at_ms);
                    put_varint(&mut out, group.changes.len() as u64);
                    out.extend_from_slice(&group.changes);
                }
            }
            LogBody::Reset { snapshot, reason, at_ms } => {
                out.push(RESET);
                put_varint(&mut out, *at_ms);
                put_varint(&mut out, snapshot.id.position.0);
                out.extend_from_slice(&snapshot.id.random.to_le_bytes());
                out.extend_from_slice(&snapshot.manifest.0);
                put_text(&mut out, reason);
            }
        }
        out
    }

    /// The inverse of [`Self::encode_plain`]; nothing in `plain` is trusted. Changes share its memory.
    pub fn decode_plain(plain: &Bytes) -> Result<LogObject, DecodeError> {
        let mut reader = Reader::new("log object", plain);
        let version = reader.u8()?;
        if version != VERSION {
            return Err(reader.error(format!("version {version} is not known: a newer program is needed")));
        }
        let writer =
            Writer { epoch: reader.varint()?, site: take_uuid(&mut reader)?, claim: take_uuid(&mut reader)? };
        let prev = take_hash(&mut reader)?;
        let body = match reader.u8()? {
            EPOCH => LogBody::Epoch {
                at_ms: reader.varint()?,
                position: CommitSeq(reader.varint()?),
                holder: take_text(&mut reader)?,
            },
            GROUPS => LogBody::Groups(take_groups(&mut reader, plain)?),
            RESET => {
                let at_ms = reader.varint()?;
                let position = CommitSeq(reader.varint()?);
                let random = reader.u64()?;
                let manifest = take_hash(&mut reader)?;
                let snapshot = SnapshotRef { id: SnapshotId { position, random }, manifest };
                LogBody::Reset { snapshot, at_ms, reason: take_text(&mut reader)? }
            }
            kind => return Err(reader.error(format!("kind {kind} is not known: a newer program is needed"))),
        };
        reader.finish()?;
        Ok(LogObject { writer, prev, body })
    }

    fn changes_len(&self) -> usize {
        match &self.body {
            LogBody::Groups(groups) => groups.iter().map(|group| group.changes.len() + 32).sum(),
            _ => 0,
        }
    }

    /// What its reader takes for granted.
    fn check(&self) -> Result<(), &'static str> {
        let LogBody::Groups(groups) = &self.body else { return Ok(()) };
        let Some(first) = groups.first() else { return Err("there are no groups to write") };
        let mut position = first.after;
        for group in groups {
            if group.after != position || group.upto <= group.after {
                return Err("its groups do not follow each other");
            }
            position = group.upto;
        }
        Ok(())
    }
}

fn take_groups(reader: &mut Reader<'_>, plain: &Bytes) -> Result<Vec<LogGroup>, DecodeError> {
    // A group takes three bytes at least.
    let count = reader.count(3)?;
    if count == 0 {
        return Err(reader.error("it has no groups"));
    }
    let mut groups = Vec::with_capacity(count.min(1024));
    let mut after = reader.varint()?;
    for _ in 0..count {
        let step = reader.varint()?;
        let upto = after.checked_add(step).filter(|_| step > 0);
        let upto = upto.ok_or_else(|| reader.error("a group's positions are out of range"))?;
        let at_ms = reader.varint()?;
        let len = reader.count(1)?;
        let changes = plain.slice_ref(reader.take(len)?);
        groups.push(LogGroup { after: CommitSeq(after), upto: CommitSeq(upto), at_ms, changes });
        after = upto;
    }
    Ok(groups)
}
