//! The changes of a group as bytes.
//!
//! A version byte (1), the number of entries, then the entries by ascending key. An entry is the key's length, the value's
//! length plus one (0: the key was deleted), the key, the value. Numbers are LEB128: seven bits a byte, lowest first.
//! Every sequence of entries has one encoding only, and every byte belongs to it.

use crate::{KvError, MAX_KEY_BYTES, MAX_VALUE_BYTES};

const VERSION: u8 = 1;

/// Encodes changes: keys strictly ascending, each with its value or `None` where it was deleted.
pub fn encode_changes<'a, I>(changes: I) -> Vec<u8>
where
    I: IntoIterator<Item = (&'a [u8], Option<&'a [u8]>)>,
    I::IntoIter: ExactSizeIterator,
{
    let mut out = Vec::new();
    encode_changes_into(&mut out, changes);
    out
}

/// Appends what [`encode_changes`] returns.
pub(crate) fn encode_changes_into<'a, I>(out: &mut Vec<u8>, changes: I)
where
    I: IntoIterator<Item = (&'a [u8], Option<&'a [u8]>)>,
    I::IntoIter: ExactSizeIterator,
{
    let changes = changes.into_iter();
    out.push(VERSION);
    put_number(out, changes.len() as u64);
    for (key, value) in changes {
        put_number(out, key.len() as u64);
        put_number(out, value.map_or(0, |v| v.len() as u64 + 1));
        out.extend_from_slice(key);
        out.extend_from_slice(value.unwrap_or_default());
    }
}

/// Encoded changes, read back. Never panics, and allocates nothing, whatever the bytes are.
#[derive(Clone, Copy, Debug)]
pub struct Changes<'a> {
    count: u64,
    entries: &'a [u8],
}

impl<'a> Changes<'a> {
    /// Reads the head; the entries are checked while they are walked.
    ///
    /// # Errors
    /// [`KvError::Corrupt`] if these are no changes of a version this program knows.
    pub fn new(bytes: &'a [u8]) -> Result<Changes<'a>, KvError> {
        let Some((&version, mut rest)) = bytes.split_first() else {
            return Err(damaged("they are empty"));
        };
        if version != VERSION {
            return Err(damaged(&format!("their version is {version}, this program knows {VERSION}")));
        }
        let count = take_number(&mut rest)?;
        // An entry takes 3 bytes at least.
        if count > rest.len() as u64 / 3 {
            return Err(damaged(&format!("{count} entries cannot be in {} bytes", rest.len())));
        }
        Ok(Changes { count, entries: rest })
    }

    /// Number of entries.
    pub fn len(&self) -> u64 {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The entries by ascending key; ends after the first error.
    pub fn iter(&self) -> ChangesIter<'a> {
        ChangesIter { left: self.count, rest: self.entries, last: &[], done: false }
    }
}

impl<'a> IntoIterator for Changes<'a> {
    type Item = Result<(&'a [u8], Option<&'a [u8]>), KvError>;
    type IntoIter = ChangesIter<'a>;

    fn into_iter(self) -> ChangesIter<'a> {
        self.iter()
    }
}

/// Walks [`Changes`]: each key with its value, or `None` where it was deleted.
#[derive(Clone, Debug)]
pub struct ChangesIter<'a> {
    left: u64,
    rest: &'a [u8],
    last: &'a [u8],
    done: bool,
}

impl<'a> ChangesIter<'a> {
    fn entry(&mut self) -> Result<(&'a [u8], Option<&'a [u8]>), KvError> {
        let key_len = take_number(&mut self.rest)?;
        let value_len = take_number(&mut self.rest)?.checked_sub(1);
        if key_len == 0 || key_len > MAX_KEY_BYTES as u64 {
            return Err(damaged(&format!("a key of {key_len} bytes")));
        }
        if value_len > Some(MAX_VALUE_BYTES as u64) {
            return Err(damaged("a value is longer than any may be"));
        }
        let key = take(&mut self.rest, key_len)?;
        let value = value_len.map(|len| take(&mut self.rest, len)).transpose()?;
        if key <= self.last {
            return Err(damaged("their keys are out of order"));
        }
        self.last = key;
        Ok((key, value))
    }
}

impl<'a> Iterator for ChangesIter<'a> {
    type Item = Result<(&'a [u8], Option<&'a [u8]>), KvError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let Some(left) = self.left.checked_sub(1) else {
            self.done = true;
            return (!self.rest.is_empty()).then(|| Err(damaged("bytes follow the last entry")));
        };
        self.left = left;
        let entry = self.entry();
        self.done = entry.is_err();
        Some(entry)
    }
}

fn put_number(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push((n & 0x7f) as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

fn take_number(rest: &mut &[u8]) -> Result<u64, KvError> {
    let mut n = 0u64;
    // Nothing counted here needs more than 35 bits.
    for shift in [0, 7, 14, 21, 28] {
        let Some((&byte, tail)) = rest.split_first() else {
            return Err(damaged("they end early"));
        };
        *rest = tail;
        n |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            // The shortest form only, so that equal changes are equal bytes.
            return if byte == 0 && shift > 0 { Err(damaged("a number is padded")) } else { Ok(n) };
        }
    }
    Err(damaged("a number is too large"))
}

fn take<'a>(rest: &mut &'a [u8], len: u64) -> Result<&'a [u8], KvError> {
    let split = usize::try_from(len).ok().and_then(|len| rest.split_at_checked(len));
    let (head, tail) = split.ok_or_else(|| damaged("they end early"))?;
    *rest = tail;
    Ok(head)
}

fn damaged(detail: &str) -> KvError {
    KvError::Corrupt(format!("logged changes: {detail}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    type Map = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

    fn encode(map: &Map) -> Vec<u8> {
        encode_changes(map.iter().map(|(k, v)| (&k[..], v.as_deref())))
    }

    fn decode(bytes: &[u8]) -> Result<Map, KvError> {
        let entries = Changes::new(bytes)?.iter();
        entries.map(|e| e.map(|(k, v)| (k.to_vec(), v.map(<[u8]>::to_vec)))).collect()
    }

    fn map() -> impl Strategy<Value = Map> {
        let key = prop_oneof![
            9 => prop::collection::vec(any::<u8>(), 1..20),
            1 => prop::collection::vec(any::<u8>(), 500..512),
        ];
        let value = prop::option::of(prop_oneof![
            9 => prop::collection::vec(any::<u8>(), 0..30),
            1 => prop::collection::vec(any::<u8>(), 16_300..16_500),
        ]);
        prop::collection::btree_map(key, value, 0..20)
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(map in map()) {
            prop_assert_eq!(decode(&encode(&map)).expect("own encoding"), map);
        }

        #[test]
        fn a_prefix_or_more_is_refused(map in map(), cut in any::<prop::sample::Index>()) {
            let mut bytes = encode(&map);
            prop_assert!(decode(&bytes[..cut.index(bytes.len())]).is_err());
            bytes.push(0);
            prop_assert!(decode(&bytes).is_err());
        }

        /// One form only: what is accepted is what would be written.
        #[test]
        fn any_bytes_are_refused_or_canonical(mut bytes in prop::collection::vec(prop_oneof![0u8..4, any::<u8>()], 0..40)) {
            for force_version in [false, true] {
                if force_version && let Some(first) = bytes.first_mut() {
                    *first = VERSION;
                }
                if let Ok(map) = decode(&bytes) {
                    prop_assert_eq!(&encode(&map), &bytes);
                }
            }
        }

        #[test]
        fn a_changed_byte_is_refused_or_changes_entries_only(
            map in map(), at in any::<prop::sample::Index>(), to in any::<u8>(),
        ) {
            let mut bytes = encode(&map);
            let at = at.index(bytes.len());
            bytes[at] = to;
            if let Ok(other) = decode(&bytes) {
                prop_assert_eq!(encode(&other), bytes);
            }
        }
    }

    #[test]
    fn a_version_to_come_is_named() {
        let error = Changes::new(&[9, 0]).expect_err("unknown version").to_string();
        assert!(error.contains("version is 9"), "{error}");
    }
}
