//! A name in a directory, stored twice: by name (with its position) and by position (with its name).

use headrace_kv::Read;
use headrace_layout::InodeNo;

use super::{Fields, VERSION};
use crate::{Kind, MAX_NAME, Result, key};

/// What a name stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub ino: InodeNo,
    pub kind: Kind,
    /// Its position in the directory.
    pub cookie: u64,
}

impl Entry {
    pub(crate) fn load(read: &dyn Read, dir: InodeNo, name: &[u8]) -> Result<Option<Entry>> {
        read.get(&key::entry(dir, name))?.map(|bytes| Entry::decode(&bytes)).transpose()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Entry> {
        let mut fields = Fields::new("directory entry", bytes)?;
        let entry = Entry { kind: fields.kind()?, ino: fields.ino()?, cookie: fields.u64()? };
        fields.end()?;
        Ok(entry)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(18);
        out.extend_from_slice(&[VERSION, self.kind as u8]);
        out.extend_from_slice(&self.ino.0.to_be_bytes());
        out.extend_from_slice(&self.cookie.to_be_bytes());
        out
    }

    /// The value under the position.
    pub(crate) fn encode_position(&self, name: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(10 + name.len());
        out.extend_from_slice(&[VERSION, self.kind as u8]);
        out.extend_from_slice(&self.ino.0.to_be_bytes());
        out.extend_from_slice(name);
        out
    }

    /// Reads [`Entry::encode_position`]'s output; the cookie comes from the key.
    pub(crate) fn decode_position(bytes: &[u8], cookie: u64) -> Result<(Entry, &[u8])> {
        let mut fields = Fields::new("directory position", bytes)?;
        let entry = Entry { kind: fields.kind()?, ino: fields.ino()?, cookie };
        let name = fields.rest();
        if name.is_empty() || name.len() > MAX_NAME {
            return Err(fields.error("the name's length is out of bounds"));
        }
        Ok((entry, name))
    }
}
