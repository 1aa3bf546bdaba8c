//! Sealed objects: what is stored whole and is no segment, such as pieces of the metadata log.
//!
//! `[version 1][flags: 1 = encrypted][nonce, 12 bytes, if encrypted][body][tag, 16 bytes, if encrypted][crc32c]`, where body
//! is `[method][plain length, varint][payload]` and is what is encrypted. The checksum, and the seal, also cover the
//! *context*: bytes that tell what the object is and where it belongs, and that are not stored here. So intact bytes of another
//! place are refused.

use std::borrow::Cow;

use bytes::Bytes;

use crate::checksum::crc32c_joined;
use crate::compression::{Compression, Compressor, Method, decompress};
use crate::crypto::ObjectSealer;
use crate::wire::{Reader, put_varint};
use crate::{Codec, frame::CRC_LEN};

const VERSION: u8 = 1;
const FLAG_ENCRYPTED: u8 = 1;

/// Objects are compressed so whatever the volume's setting: metadata shrinks well, and level 1 costs less than sending it.
const COMPRESSION: Compression = Compression::Zstd { level: 1 };

/// Objects of fewer plain bytes are stored raw.
const MIN_COMPRESSED: usize = 1 << 10;

/// The most plain bytes in an object, also what bounds the memory that a corrupt length can ask for: with all that is
/// put around them the object has less than 1 GiB, the most that a store reads or writes whole.
pub const MAX_OBJECT_PLAIN: usize = (1 << 30) - (64 << 10);

/// Why bytes are not the sealed object they should be, or cannot become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// There are too few bytes.
    #[error("it is cut short: {0} bytes of sealed content")]
    Truncated(usize),
    /// The bytes changed, or are those of another object.
    #[error("checksum mismatch: the stored bytes are damaged or belong to another object")]
    Checksum,
    /// Written by a program that this one does not know.
    #[error("its seal has version {0}; this program knows version {VERSION}: a newer one is needed")]
    Version(u8),
    /// Flags that this program does not know.
    #[error("its seal has unknown flags {0:#04x}: a newer program is needed")]
    Flags(u8),
    /// The volume is encrypted and the object is not.
    #[error("it is not encrypted, but the volume is")]
    NotEncrypted,
    /// The object is encrypted and the volume is not.
    #[error("it is encrypted, but the volume is not")]
    Encrypted,
    /// The checksum is right but the seal is not: another key, or bytes changed on purpose.
    #[error("cannot decrypt: sealed under another key, or tampered with")]
    Decrypt,
    /// What was sealed is malformed.
    #[error("cannot decompress what it holds")]
    Decompress,
    /// There is too much to seal.
    #[error("{0} bytes are more than the {MAX_OBJECT_PLAIN} that an object can hold")]
    TooLarge(usize),
}

impl Codec {
    /// The stored form of an object: compressed, and encrypted if the volume is, bound to `context`. Fails only if there are more
    /// than [`MAX_OBJECT_PLAIN`] bytes.
    pub fn seal_object(&self, context: &[u8], plain: &[u8]) -> Result<Bytes, ObjectError> {
        let mut out = Vec::new();
        self.seal_object_into(context, plain, &mut out)?;
        Ok(out.into())
    }

    /// [`Self::seal_object`], appended to `out`.
    pub fn seal_object_into(
        &self,
        context: &[u8],
        plain: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), ObjectError> {
        if plain.len() > MAX_OBJECT_PLAIN {
            return Err(ObjectError::TooLarge(plain.len()));
        }
        let begin = out.len();
        // A compressor costs more to make than a small object can win.
        let compression = if plain.len() < MIN_COMPRESSED { Compression::None } else { COMPRESSION };
        let mut compressor = Compressor::new(compression);
        let (method, payload) = compressor.compress(plain);
        out.reserve_exact(payload.len() + 64);
        out.extend_from_slice(&[VERSION, if self.key.is_some() { FLAG_ENCRYPTED } else { 0 }]);
        if self.key.is_some() {
            out.resize(out.len() + ObjectSealer::NONCE_LEN, 0);
        }
        let body = out.len();
        out.push(method as u8);
        put_varint(out, plain.len() as u64);
        out.extend_from_slice(payload);
        if let Some(key) = &self.key {
            key.for_object().seal(context, out, body);
        }
        let crc = crc32c_joined(context, &out[begin..]);
        out.extend_from_slice(&crc.to_le_bytes());
        Ok(())
    }

    /// The plain bytes of an object that [`Self::seal_object`] sealed in this `context`. Nothing that `stored` claims is
    /// trusted.
    pub fn open_object(&self, context: &[u8], stored: &[u8]) -> Result<Bytes, ObjectError> {
        let truncated = ObjectError::Truncated(stored.len());
        let (sealed, crc) = stored.split_last_chunk::<CRC_LEN>().ok_or(truncated)?;
        if crc32c_joined(context, sealed) != u32::from_le_bytes(*crc) {
            return Err(ObjectError::Checksum);
        }
        let (&[version, flags], sealed) = sealed.split_first_chunk::<2>().ok_or(truncated)?;
        if version != VERSION {
            return Err(ObjectError::Version(version));
        }
        let mut buffer;
        let body = match (&self.key, flags) {
            (None, 0) => Cow::Borrowed(sealed),
            (Some(key), FLAG_ENCRYPTED) => {
                buffer = sealed.to_vec();
                let opened = key.for_object().open(context, &mut buffer).ok_or(ObjectError::Decrypt)?;
                Cow::Borrowed(&*opened)
            }
            (Some(_), 0) => return Err(ObjectError::NotEncrypted),
            (None, FLAG_ENCRYPTED) => return Err(ObjectError::Encrypted),
            _ => return Err(ObjectError::Flags(flags)),
        };
        expand(&body).ok_or(ObjectError::Decompress)
    }
}

/// Parses method, plain length and payload.
fn expand(body: &[u8]) -> Option<Bytes> {
    let mut reader = Reader::new("sealed object", body);
    let method = Method::from_byte(reader.u8().ok()?)?;
    let plain_len = usize::try_from(reader.varint().ok()?).ok()?;
    let payload = reader.take_rest();
    match method {
        Method::Raw => (payload.len() == plain_len).then(|| Bytes::copy_from_slice(payload)),
        _ if plain_len > MAX_OBJECT_PLAIN => None,
        method => decompress(method, payload, plain_len).map(Bytes::from),
    }
}

#[cfg(test)]
mod tests;
