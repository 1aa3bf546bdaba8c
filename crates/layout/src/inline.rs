//! Inline values: small data kept inside the metadata, sealed like a frame but with its place unknown.
//!
//! `[version 1][flags: 1 = encrypted][nonce, 12 bytes, if encrypted][body][tag, 16 bytes, if encrypted][crc32c]`, where body
//! is `[method][plain length, varint][payload]` and is what is encrypted. The checksum covers all before it.

use std::cell::RefCell;

use bytes::Bytes;

use crate::checksum::crc32c;
use crate::compression::{Compression, Compressor, Method, decompress};
use crate::crypto::InlineSealer;
use crate::wire::{Reader, put_varint};
use crate::{Codec, FrameError};

const VERSION: u8 = 1;
const FLAG_ENCRYPTED: u8 = 1;

/// Longest value that is compressed: what bounds the memory a corrupt length can ask for. Longer ones are stored raw.
const MAX_COMPRESSED_PLAIN: usize = 1 << 20;

thread_local! {
    /// This thread's compressor: one costs more to make than an inline value to compress.
    static COMPRESSOR: RefCell<Option<(Compression, Compressor)>> = const { RefCell::new(None) };
}

impl Codec {
    /// The stored form of an inline value: compressed and encrypted as the volume wants it, with a checksum.
    pub fn seal_inline(&self, plain: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(plain.len() + 64);
        out.extend_from_slice(&[VERSION, if self.key.is_some() { FLAG_ENCRYPTED } else { 0 }]);
        if self.key.is_some() {
            out.resize(out.len() + InlineSealer::NONCE_LEN, 0);
        }
        let body = out.len();
        let mut put = |method: Method, payload: &[u8]| {
            out.push(method as u8);
            put_varint(&mut out, plain.len() as u64);
            out.extend_from_slice(payload);
        };
        if self.compression == Compression::None || plain.len() > MAX_COMPRESSED_PLAIN {
            put(Method::Raw, plain);
        } else {
            COMPRESSOR.with_borrow_mut(|slot| {
                if slot.as_ref().is_none_or(|(compression, _)| *compression != self.compression) {
                    *slot = None;
                }
                let (_, compressor) =
                    slot.get_or_insert_with(|| (self.compression, Compressor::new(self.compression)));
                let (method, payload) = compressor.compress(plain);
                put(method, payload);
            });
        }
        if let Some(key) = &self.key {
            key.for_inline().seal(&mut out, body);
        }
        let crc = crc32c(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }

    /// The plain bytes of an inline value that [`Self::seal_inline`] sealed.
    pub fn open_inline(&self, stored: &[u8]) -> Result<Bytes, FrameError> {
        let fail = |detail| FrameError::Inline { len: stored.len(), detail };
        let mut reader =
            Reader::checked("inline value", stored).map_err(|_| fail("checksum mismatch: it is damaged"))?;
        let [version, flags] = reader.array().map_err(|_| fail("too short"))?;
        if version != VERSION {
            return Err(fail("its version is not known"));
        }
        match (&self.key, flags) {
            (None, 0) => self.open_inline_body(reader.take_rest()).ok_or_else(|| fail("malformed")),
            (Some(key), FLAG_ENCRYPTED) => {
                let mut sealed = reader.take_rest().to_vec();
                let body = key
                    .for_inline()
                    .open(&mut sealed)
                    .ok_or_else(|| fail("cannot decrypt: sealed under another key, or tampered with"))?;
                self.open_inline_body(body).ok_or_else(|| fail("malformed"))
            }
            (None, FLAG_ENCRYPTED) => Err(fail("it is encrypted, the volume is not")),
            (Some(_), 0) => Err(fail("it is not encrypted, the volume is")),
            _ => Err(fail("its flags are not known")),
        }
    }

    /// Parses method, plain length and payload.
    fn open_inline_body(&self, body: &[u8]) -> Option<Bytes> {
        let mut reader = Reader::new("inline value", body);
        let method = Method::from_byte(reader.u8().ok()?)?;
        let plain_len = usize::try_from(reader.varint().ok()?).ok()?;
        let payload = reader.take_rest();
        match method {
            Method::Raw => (payload.len() == plain_len).then(|| Bytes::copy_from_slice(payload)),
            _ if plain_len > MAX_COMPRESSED_PLAIN => None,
            method => decompress(method, payload, plain_len).map(Bytes::from),
        }
    }
}

#[cfg(test)]
mod tests;
