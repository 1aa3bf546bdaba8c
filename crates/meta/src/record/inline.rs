//! The place of an inline value in the packing queue.

use headrace_kv::Read;
use headrace_layout::InodeNo;

use super::{Fields, VERSION};
use crate::{Result, key};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct InlineRecord {
    /// The file that owns the value.
    pub ino: InodeNo,
    /// Where in the file the value's first byte was written; moving the file's contents does not update it.
    pub offset: u64,
    /// Plain length.
    pub len: u32,
    /// Stored length.
    pub sealed: u32,
    /// Plain bytes that extents refer to.
    pub live: u32,
}

impl InlineRecord {
    pub(crate) fn load(read: &dyn Read, id: u64) -> Result<Option<InlineRecord>> {
        read.get(&key::packing(id))?.map(|bytes| InlineRecord::decode(&bytes)).transpose()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<InlineRecord> {
        let mut fields = Fields::new("packing queue", bytes)?;
        let record = InlineRecord {
            ino: fields.ino()?,
            offset: fields.u64()?,
            len: fields.u32()?,
            sealed: fields.u32()?,
            live: fields.u32()?,
        };
        fields.end()?;
        Ok(record)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.extend_from_slice(&self.ino.0.to_be_bytes());
        out.extend_from_slice(&self.offset.to_be_bytes());
        for value in [self.len, self.sealed, self.live] {
            out.extend_from_slice(&value.to_be_bytes());
        }
        out
    }
}
