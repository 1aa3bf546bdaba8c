//! Owner objects: who holds, or held, the volume in an epoch.

use std::fmt;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use headrace_layout::wire::{DecodeError, Reader, put_varint};
use uuid::Uuid;

use super::{malformed, open, put_text, put_uuid, seal, take_text, take_uuid};
use crate::{Bucket, Key, MetalogError};

/// Whether an epoch's owner is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OwnerState {
    /// It holds the volume, as long as it renews.
    Held,
    /// It has shipped everything and given the volume up.
    Released,
}

/// Who owns the volume in one epoch. Created once, which is the claim; rewritten only by its creator.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Owner {
    /// The epoch, from 1; also in the key.
    pub epoch: u64,
    /// Identity of the state directory.
    pub site: Uuid,
    /// Identity of this claim, unique to it: makes competing claims differ.
    pub claim: Uuid,
    /// Identity of the machine.
    pub machine: String,
    /// Name of the machine.
    pub host: String,
    /// The process.
    pub pid: u32,
    /// Where it is mounted; `None` for another command.
    pub mountpoint: Option<String>,
    /// Version of the program.
    pub version: String,
    /// When it claimed the volume, Unix milliseconds by its own clock; for people only.
    pub since_ms: u64,
    /// How often it has renewed its lease: what shows others that it lives.
    pub renewals: u64,
    /// How long it may go on without renewing, milliseconds.
    pub lease_ms: u64,
    /// Whether it is done.
    pub state: OwnerState,
}

impl Owner {
    /// Its key.
    pub fn key(&self) -> Key {
        Key::Owner { epoch: self.epoch }
    }

    /// The bytes to store.
    pub fn encode(&self, bucket: &Bucket) -> Result<Bytes, MetalogError> {
        seal(&bucket.codec, bucket.volume, self.key(), &self.encode_plain())
    }

    /// The owner in the object found at `epoch`.
    pub fn decode(bucket: &Bucket, epoch: u64, stored: &[u8]) -> Result<Owner, MetalogError> {
        let key = Key::Owner { epoch };
        let plain = open(&bucket.codec, bucket.volume, key, stored)?;
        Owner::decode_plain(epoch, &plain).map_err(malformed(key))
    }

    /// The content before sealing.
    pub fn encode_plain(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        put_uuid(&mut out, self.site);
        put_uuid(&mut out, self.claim);
        out.push(match self.state {
            OwnerState::Held => 1,
            OwnerState::Released => 2,
        });
        for number in [u64::from(self.pid), self.since_ms, self.renewals, self.lease_ms] {
            put_varint(&mut out, number);
        }
        put_text(&mut out, &self.machine);
        put_text(&mut out, &self.host);
        put_text(&mut out, &self.version);
        out.push(u8::from(self.mountpoint.is_some()));
        put_text(&mut out, self.mountpoint.as_deref().unwrap_or_default());
        out
    }

    /// The inverse of [`Self::encode_plain`]; nothing in `plain` is trusted.
    pub fn decode_plain(epoch: u64, plain: &[u8]) -> Result<Owner, DecodeError> {
        let mut reader = Reader::new("owner", plain);
        let site = take_uuid(&mut reader)?;
        let claim = take_uuid(&mut reader)?;
        let state = match reader.u8()? {
            1 => OwnerState::Held,
            2 => OwnerState::Released,
            _ => return Err(reader.error("its state is not known")),
        };
        let owner = Owner {
            epoch,
            site,
            claim,
            state,
            pid: reader.varint_u32()?,
            since_ms: reader.varint()?,
            renewals: reader.varint()?,
            lease_ms: reader.varint()?,
            machine: take_text(&mut reader)?,
            host: take_text(&mut reader)?,
            version: take_text(&mut reader)?,
            mountpoint: match reader.u8()? {
                0 if take_text(&mut reader)?.is_empty() => None,
                1 => Some(take_text(&mut reader)?),
                _ => return Err(reader.error("its mountpoint is malformed")),
            },
        };
        reader.finish()?;
        Ok(owner)
    }

    /// When it claimed the volume, RFC 3339, UTC, by its own clock.
    pub fn since(&self) -> String {
        let at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(self.since_ms));
        // What lies beyond the year 9999 has no such form.
        let at = at.filter(|_| self.since_ms < 253_402_300_800_000);
        at.map_or_else(|| "an unknown time".into(), |at| humantime::format_rfc3339_seconds(at).to_string())
    }
}

impl fmt::Display for Owner {
    /// "mounted on /mnt/x by process 7 on host a since 2026-01-01T00:00:00Z"; on one line whatever the fields hold.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.mountpoint {
            Some(at) => write!(f, "mounted on {} ", at.escape_debug())?,
            None => write!(f, "opened ")?,
        }
        write!(f, "by process {} on host {} since {}", self.pid, self.host.escape_debug(), self.since())
    }
}
