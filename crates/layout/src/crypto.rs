//! Keys and sealing: AES-256-GCM under keys derived with HKDF-SHA256 (RFC 5869).
//!
//! A volume has one random *data key*. The superblock holds it wrapped under the *master key*, which the user keeps. Each
//! segment is sealed under its own key, derived from the data key and the segment's id, so that a frame's stored offset is
//! a nonce that cannot repeat; inline values share one key and carry random nonces, and so do other whole objects.
//!
//! Key bytes kept here are wiped when dropped. The cipher's expanded key schedules live only for one segment being built
//! or one read, but the library that makes them does not wipe them.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Prk};
use zeroize::{Zeroize, Zeroizing};

use crate::SegmentId;

/// Bytes of every key.
const KEY_LEN: usize = 32;

/// Bytes a seal adds to what it seals.
pub(crate) const TAG_LEN: usize = 16;

/// Why a key is not one, or does not fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CryptoError {
    /// The text or file is no key.
    #[error("not a key: expected 32 raw bytes, 64 hex digits, or 44 characters of base64, but got {0}")]
    KeyFormat(String),
    /// The wrapped key was wrapped under another master key, or was changed.
    #[error("this key does not open this volume: give the key the volume was formatted with")]
    WrongKey,
    /// The volume is encrypted and no key was given.
    #[error("the volume is encrypted: give the key it was formatted with")]
    KeyMissing,
    /// A key was given for a volume that is not encrypted.
    #[error("the volume is not encrypted, but a key was given: leave the key out")]
    KeyUnexpected,
    /// The wrapped key in the superblock is malformed.
    #[error("the superblock's wrapped key is malformed")]
    WrappedKeyFormat,
}

/// The key a user keeps; opens the volume's data key.
#[derive(Clone)]
pub struct MasterKey(Zeroizing<[u8; KEY_LEN]>);

/// The volume's own random key; never leaves the process except wrapped.
#[derive(Clone)]
pub struct DataKey(Zeroizing<[u8; KEY_LEN]>);

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MasterKey(redacted)")
    }
}

impl fmt::Debug for DataKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DataKey(redacted)")
    }
}

fn random_key() -> Zeroizing<[u8; KEY_LEN]> {
    let mut key = Zeroizing::new([0; KEY_LEN]);
    getrandom::fill(key.as_mut_slice()).expect("the operating system gives no random bytes");
    key
}

fn random_nonce() -> [u8; NONCE_LEN] {
    let mut nonce = [0; NONCE_LEN];
    getrandom::fill(&mut nonce).expect("the operating system gives no random bytes");
    nonce
}

impl MasterKey {
    /// A fresh random key.
    ///
    /// # Panics
    /// If the operating system cannot give random bytes.
    pub fn generate() -> MasterKey {
        MasterKey(random_key())
    }

    /// The key in a key file: exactly 32 raw bytes, or text (spaces and line ends around it are ignored) of 64 hex digits or
    /// of base64.
    pub fn from_file_bytes(bytes: &[u8]) -> Result<MasterKey, CryptoError> {
        if bytes.len() == KEY_LEN {
            let mut key = Zeroizing::new([0; KEY_LEN]);
            key.copy_from_slice(bytes);
            return Ok(MasterKey(key));
        }
        match std::str::from_utf8(bytes) {
            Ok(text) => text.parse(),
            Err(_) => Err(CryptoError::KeyFormat(format!("{} bytes", bytes.len()))),
        }
    }

    /// 64 hex digits: what to write into a key file.
    pub fn to_text(&self) -> Zeroizing<String> {
        Zeroizing::new(hex::encode(self.0.as_slice()))
    }
}

impl FromStr for MasterKey {
    type Err = CryptoError;

    /// 64 hex digits or base64 of 32 bytes; spaces and line ends around it are ignored.
    fn from_str(text: &str) -> Result<MasterKey, CryptoError> {
        let text = text.trim();
        // Decoded into place: a growing buffer would leave copies behind.
        let mut key = Zeroizing::new([0u8; KEY_LEN]);
        if text.len() == 2 * KEY_LEN && hex::decode_to_slice(text, key.as_mut_slice()).is_ok() {
            return Ok(MasterKey(key));
        }
        // The decoder wants room for whole groups of three bytes.
        let mut decoded = Zeroizing::new([0u8; KEY_LEN + 3]);
        match BASE64.decode_slice(text, decoded.as_mut_slice()) {
            Ok(KEY_LEN) => {
                key.copy_from_slice(&decoded[..KEY_LEN]);
                Ok(MasterKey(key))
            }
            _ => Err(CryptoError::KeyFormat(format!("{} characters of text", text.len()))),
        }
    }
}

/// What a wrapped data key is bound to.
const WRAP_CONTEXT: &[u8] = b"headrace data key";

impl DataKey {
    /// A fresh random key.
    ///
    /// # Panics
    /// If the operating system cannot give random bytes.
    pub fn generate() -> DataKey {
        DataKey(random_key())
    }

    /// A key that a test knows.
    #[cfg(test)]
    pub(crate) fn from_test_bytes(bytes: [u8; KEY_LEN]) -> DataKey {
        DataKey(Zeroizing::new(bytes))
    }

    /// Seals the key under `master`: base64 of nonce (12 bytes), sealed key (32), tag (16).
    pub fn wrap(&self, master: &MasterKey) -> String {
        let nonce = random_nonce();
        let mut sealed = Zeroizing::new(nonce.to_vec());
        sealed.reserve_exact(KEY_LEN + TAG_LEN);
        sealed.extend_from_slice(self.0.as_slice());
        Sealer::derive(&master.0, &[WRAP_CONTEXT]).seal(nonce, WRAP_CONTEXT, &mut sealed, NONCE_LEN);
        BASE64.encode(sealed.as_slice())
    }

    /// The inverse of [`Self::wrap`].
    pub fn unwrap(master: &MasterKey, wrapped: &str) -> Result<DataKey, CryptoError> {
        let mut sealed = [0u8; NONCE_LEN + KEY_LEN + TAG_LEN];
        match BASE64.decode_slice(wrapped, &mut sealed) {
            Ok(len) if len == sealed.len() => {}
            _ => return Err(CryptoError::WrappedKeyFormat),
        }
        let (nonce, body) =
            sealed.split_first_chunk_mut::<NONCE_LEN>().ok_or(CryptoError::WrappedKeyFormat)?;
        let opened = Sealer::derive(&master.0, &[WRAP_CONTEXT])
            .open(*nonce, WRAP_CONTEXT, body)
            .ok_or(CryptoError::WrongKey)?;
        let mut key = Zeroizing::new([0; KEY_LEN]);
        key.copy_from_slice(opened);
        body.zeroize();
        Ok(DataKey(key))
    }

    /// Seals what is in `segment`.
    pub(crate) fn for_segment(&self, segment: SegmentId) -> SegmentSealer {
        let sealer = Sealer::derive(&self.0, &[b"headrace segment", &segment.to_bytes()]);
        SegmentSealer { sealer, segment }
    }

    /// Seals inline values.
    pub(crate) fn for_inline(&self) -> InlineSealer {
        InlineSealer(Sealer::derive(&self.0, &[INLINE_CONTEXT]))
    }

    /// Seals whole objects that are not segments.
    pub(crate) fn for_object(&self) -> ObjectSealer {
        ObjectSealer(Sealer::derive(&self.0, &[OBJECT_CONTEXT]))
    }
}

/// One AES-256-GCM key.
struct Sealer(LessSafeKey);

impl Sealer {
    /// The key that HKDF-Expand gives for `info`. The extract step is left out, as RFC 5869 section 3.3 allows for input that
    /// is a uniformly random key already.
    fn derive(key: &[u8; KEY_LEN], info: &[&[u8]]) -> Sealer {
        let prk = Prk::new_less_safe(HKDF_SHA256, key);
        let okm = prk.expand(info, &AES_256_GCM).expect("one hash output of key material is never too much");
        Sealer(LessSafeKey::new(UnboundKey::from(okm)))
    }

    /// Seals `buffer[from..]` in place and appends the tag.
    fn seal(&self, nonce: [u8; NONCE_LEN], context: &[u8], buffer: &mut Vec<u8>, from: usize) {
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = self
            .0
            .seal_in_place_separate_tag(nonce, Aad::from(context), &mut buffer[from..])
            .expect("AES-GCM seals anything under 64 GiB");
        buffer.extend_from_slice(tag.as_ref());
    }

    /// Opens `sealed` (with its tag) in place; `None` if key, nonce, context or any bit is not what was sealed.
    fn open<'a>(&self, nonce: [u8; NONCE_LEN], context: &[u8], sealed: &'a mut [u8]) -> Option<&'a mut [u8]> {
        let nonce = Nonce::assume_unique_for_key(nonce);
        self.0.open_in_place(nonce, Aad::from(context), sealed).ok()
    }
}

/// Seals one segment's frames and index. Nonces are places in the segment, so a segment id must never be built twice
/// with different contents.
pub(crate) struct SegmentSealer {
    sealer: Sealer,
    segment: SegmentId,
}

/// The index's nonce: frames' begin with zeros.
const INDEX_NONCE: [u8; NONCE_LEN] = [0xff; NONCE_LEN];

impl SegmentSealer {
    /// Nonce of the frame stored at `offset`, and what binds it to its place.
    fn frame_place(&self, offset: u32) -> ([u8; NONCE_LEN], [u8; SegmentId::LEN + 4]) {
        let mut nonce = [0; NONCE_LEN];
        nonce[NONCE_LEN - 4..].copy_from_slice(&offset.to_be_bytes());
        let mut context = [0; SegmentId::LEN + 4];
        context[..SegmentId::LEN].copy_from_slice(&self.segment.to_bytes());
        context[SegmentId::LEN..].copy_from_slice(&offset.to_be_bytes());
        (nonce, context)
    }

    /// Seals the frame in `buffer[from..]`, to be stored at `offset`, and appends the tag.
    pub(crate) fn seal_frame(&self, offset: u32, buffer: &mut Vec<u8>, from: usize) {
        let (nonce, context) = self.frame_place(offset);
        self.sealer.seal(nonce, &context, buffer, from);
    }

    /// Opens a frame in place; its length, or `None` if it is not what was sealed there.
    pub(crate) fn open_frame(&self, offset: u32, sealed: &mut [u8]) -> Option<usize> {
        let (nonce, context) = self.frame_place(offset);
        self.sealer.open(nonce, &context, sealed).map(|plain| plain.len())
    }

    /// Seals the segment's index in `buffer[from..]` and appends the tag.
    pub(crate) fn seal_index(&self, buffer: &mut Vec<u8>, from: usize) {
        self.sealer.seal(INDEX_NONCE, &self.segment.to_bytes(), buffer, from);
    }

    /// Opens the segment's index in place.
    pub(crate) fn open_index<'a>(&self, sealed: &'a mut [u8]) -> Option<&'a mut [u8]> {
        self.sealer.open(INDEX_NONCE, &self.segment.to_bytes(), sealed)
    }
}

const INLINE_CONTEXT: &[u8] = b"headrace inline";

/// Seals inline values. Random 96-bit nonces allow 2^32 values before two are as likely to meet as NIST SP 800-38D permits
/// (2^-32).
pub(crate) struct InlineSealer(Sealer);

impl InlineSealer {
    /// Bytes of nonce before a sealed value.
    pub(crate) const NONCE_LEN: usize = NONCE_LEN;

    /// Seals `buffer[from..]`, puts a fresh nonce in the [`Self::NONCE_LEN`] bytes before it, and appends the tag.
    pub(crate) fn seal(&self, buffer: &mut Vec<u8>, from: usize) {
        let nonce = random_nonce();
        buffer[from - NONCE_LEN..from].copy_from_slice(&nonce);
        self.0.seal(nonce, INLINE_CONTEXT, buffer, from);
    }

    /// Opens nonce, sealed bytes and tag.
    pub(crate) fn open<'a>(&self, stored: &'a mut [u8]) -> Option<&'a mut [u8]> {
        let (nonce, sealed) = stored.split_first_chunk_mut::<NONCE_LEN>()?;
        self.0.open(*nonce, INLINE_CONTEXT, sealed)
    }
}

const OBJECT_CONTEXT: &[u8] = b"headrace object";

/// Seals whole objects under random nonces, each bound to a context. Objects are written every few seconds at most, so
/// the 2^32 that random nonces allow last for a century.
pub(crate) struct ObjectSealer(Sealer);

impl ObjectSealer {
    /// Bytes of nonce before a sealed object.
    pub(crate) const NONCE_LEN: usize = NONCE_LEN;

    /// Seals `buffer[from..]`, puts a fresh nonce in the [`Self::NONCE_LEN`] bytes before it, and appends the tag.
    pub(crate) fn seal(&self, context: &[u8], buffer: &mut Vec<u8>, from: usize) {
        let nonce = random_nonce();
        buffer[from - NONCE_LEN..from].copy_from_slice(&nonce);
        self.0.seal(nonce, &object_context(context), buffer, from);
    }

    /// Opens nonce, sealed bytes and tag.
    pub(crate) fn open<'a>(&self, context: &[u8], stored: &'a mut [u8]) -> Option<&'a mut [u8]> {
        let (nonce, sealed) = stored.split_first_chunk_mut::<NONCE_LEN>()?;
        self.0.open(*nonce, &object_context(context), sealed)
    }
}

fn object_context(context: &[u8]) -> Vec<u8> {
    [OBJECT_CONTEXT, context].concat()
}

#[cfg(test)]
mod tests;
