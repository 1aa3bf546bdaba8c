//! The log's objects as bytes: pure codecs.
//!
//! Each is a header that says in clear what it is and where it belongs, and sealed content ([`Codec::seal_object`]) bound to
//! that header. So an object that is cut, changed, exchanged for another, or of another volume is refused, and the error
//! says which of these it is.

mod header;
mod log;
mod owner;
mod snapshot;

use std::fmt;

use bytes::Bytes;
use headrace_layout::Codec;
use headrace_layout::wire::{DecodeError, Reader, put_varint};
use ring::digest::{SHA256, digest};
use uuid::Uuid;

use crate::{Key, MetalogError};

pub use log::{LogBody, LogObject, SnapshotRef, Writer};
pub use owner::{Owner, OwnerState};
pub use snapshot::{Anchor, Manifest, PartBuilder, PartRecord, PartRecords};

/// SHA-256 of an object's stored bytes; how objects name each other's content.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ObjectHash(pub [u8; 32]);

impl ObjectHash {
    /// What stands for the object before the first one.
    pub const NONE: ObjectHash = ObjectHash([0; 32]);

    /// The hash of `stored`.
    pub fn of(stored: &[u8]) -> ObjectHash {
        let mut hash = [0; 32];
        hash.copy_from_slice(digest(&SHA256, stored).as_ref());
        ObjectHash(hash)
    }
}

impl fmt::Display for ObjectHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for ObjectHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectHash({})", &hex::encode(self.0)[..12])
    }
}

/// The stored bytes of an object under `key` whose content is `plain`.
fn seal(codec: &Codec, volume: Uuid, key: Key, plain: &[u8]) -> Result<Bytes, MetalogError> {
    let mut stored = header::encode(volume, key).to_vec();
    let context = stored.clone();
    codec
        .seal_object_into(&context, plain, &mut stored)
        .map_err(|error| MetalogError::Unwritable { key: key.to_string(), detail: error.to_string() })?;
    Ok(stored.into())
}

/// The content of the object found under `key`.
fn open(codec: &Codec, volume: Uuid, key: Key, stored: &[u8]) -> Result<Bytes, MetalogError> {
    let damaged = |detail| MetalogError::damaged(key, detail);
    let (header, sealed) = header::check(volume, key, stored).map_err(damaged)?;
    codec.open_object(header, sealed).map_err(|error| damaged(error.to_string()))
}

/// Names the object in a decoder's error.
fn malformed(key: Key) -> impl Fn(DecodeError) -> MetalogError {
    move |error| MetalogError::damaged(key, error.to_string())
}

/// Longest text in an object, bytes.
const MAX_TEXT: usize = 4096;

/// Appends a text with its length, cut to [`MAX_TEXT`].
fn put_text(out: &mut Vec<u8>, text: &str) {
    let mut end = text.len().min(MAX_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    put_varint(out, end as u64);
    out.extend_from_slice(&text.as_bytes()[..end]);
}

/// What [`put_text`] wrote.
fn take_text(reader: &mut Reader<'_>) -> Result<String, DecodeError> {
    let len = reader.count(1)?;
    if len > MAX_TEXT {
        return Err(reader.error("a text is too long"));
    }
    let bytes = reader.take(len)?;
    String::from_utf8(bytes.to_vec()).map_err(|_| reader.error("a text is not UTF-8"))
}

fn put_uuid(out: &mut Vec<u8>, uuid: Uuid) {
    out.extend_from_slice(uuid.as_bytes());
}

fn take_uuid(reader: &mut Reader<'_>) -> Result<Uuid, DecodeError> {
    reader.array().map(Uuid::from_bytes)
}

fn take_hash(reader: &mut Reader<'_>) -> Result<ObjectHash, DecodeError> {
    reader.array().map(ObjectHash)
}

#[cfg(test)]
mod tests;
