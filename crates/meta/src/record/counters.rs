//! Allocators and volume-wide totals, in one record because a create needs several of them.

use headrace_kv::Read;

use super::{Fields, VERSION};
use crate::{MetaError, Result, key};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Counters {
    /// The next inode to be created gets this number.
    pub next_ino: u64,
    /// The next inline value gets this id.
    pub next_inline: u64,
    /// Inodes.
    pub inodes: u64,
    /// Bytes of data held by inodes, modulo 2^64.
    pub bytes: u64,
    /// Sealed bytes of inline values.
    pub inline_bytes: u64,
}

impl Counters {
    pub(crate) fn load(read: &dyn Read) -> Result<Counters> {
        match read.get(key::COUNTERS)? {
            Some(bytes) => Counters::decode(&bytes),
            None => Err(MetaError::Corrupt("the counters are missing".into())),
        }
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Counters> {
        let mut fields = Fields::new("counters", bytes)?;
        let counters = Counters {
            next_ino: fields.u64()?,
            next_inline: fields.u64()?,
            inodes: fields.u64()?,
            bytes: fields.u64()?,
            inline_bytes: fields.u64()?,
        };
        fields.end()?;
        Ok(counters)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        for value in [self.next_ino, self.next_inline, self.inodes, self.bytes, self.inline_bytes] {
            out.extend_from_slice(&value.to_be_bytes());
        }
        out
    }
}
